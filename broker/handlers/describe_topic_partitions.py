"""DescribeTopicPartitions (75): topics page by page, with the replicas that may lead next. KIP-966.

Version 0.

Topics come in the order of their names, partitions in that of their numbers. An answer holds at most
`max.request.partition.size.limit` partitions, or fewer if the client wants fewer, and a cursor for the next
page where there is more. No list means all topics. Nothing is ever created by asking.

Needs DESCRIBE: what a client may not see is left out of "all", and is TOPIC_AUTHORIZATION_FAILED by name,
at the end of each page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.metadata_cache import INTERNAL_TOPICS, NEWEST_WORDING, NO_LEADER, ListenerView
from controller.image.topics import PartitionRegistration
from controller.subjects.topic_names import name_fault
from protocol.authorized_operations import authorized_operations
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.registry import ApiKey
from protocol.serving import Operation, RequestContext, ResourceType, serves

if TYPE_CHECKING:
    from broker.services import BrokerServices

TopicPart = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionPart = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
Cursor = DescribeTopicPartitionsResponse.Cursor

_TOPIC: Final = ResourceType.TOPIC


@serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def handle(
    services: BrokerServices, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    named = dict.fromkeys(topic.name for topic in request.topics)
    if "" in named:
        # No topic can have it, and Kafka stumbles over it.
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        return _refused(request, ErrorCode.INVALID_REQUEST)
    names = sorted(named or services.metadata.topic_names())
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    seen: list[str] = []
    hidden: list[str] = []
    for name in names:
        (seen if context.allows(Operation.DESCRIBE, _TOPIC, name) else hidden).append(name)
    limit = services.config.integer("max.request.partition.size.limit")
    page = _Page(services, context, max(1, min(limit, request.response_partition_limit)))
    for name in seen:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if not page.add(name, first, tells_missing=bool(named)):
            break
    if named:
        page.response.topics += [TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name) for name in hidden]
    return page.response


class _Page:
    """An answer that is being filled."""

    def __init__(self, services: BrokerServices, context: RequestContext, limit: int) -> None:
        self.response = DescribeTopicPartitionsResponse(topics=[])
        self._services = services
        self._context = context
        self._left = limit

    def add(self, name: str, first: int, *, tells_missing: bool) -> bool:
        """Add a topic from partition `first` on; False if the page is full, with the cursor set."""
        if self._left == 0:
            self.response.next_cursor = Cursor(name, 0)
            return False
        metadata = self._services.metadata
        image = metadata.topic(name)
        operations = authorized_operations(self._context, _TOPIC, name)
        if image is None:
            if tells_missing:
                self.response.topics.append(_unknown(name, operations))
            return True
        view = metadata.view(self._context.session.listener)
        indexes = [index for index in image.partitions if index >= first]
        shown = indexes[: self._left]
        self.response.topics.append(
            TopicPart(
                0,
                name,
                image.id,
                name in INTERNAL_TOPICS,
                [_partition(view, index, image.partitions[index]) for index in shown],
                operations,
            )
        )
        self._left -= len(shown)
        if len(shown) < len(indexes):
            self.response.next_cursor = Cursor(name, indexes[len(shown)])
            return False
        return True


def _partition(
    view: ListenerView, index: int, entry: PartitionRegistration
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    error = view.leader_error(entry, NEWEST_WORDING)
    return PartitionPart(
        error,
        index,
        NO_LEADER if error else entry.leader,
        entry.leader_epoch,
        list(entry.replicas),
        list(entry.isr),
        list(entry.elr),
        list(entry.last_known_elr),
        [replica for replica in entry.replicas if view.is_offline(replica)],
    )


def _unknown(
    name: str, operations: int
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    error = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name_fault(name) is None
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return TopicPart(error, name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=operations)


def _refused(request: DescribeTopicPartitionsRequest, error: ErrorCode) -> DescribeTopicPartitionsResponse:
    """The same error for each topic: a cursor that points nowhere, or a name that is none."""
    return DescribeTopicPartitionsResponse(topics=[TopicPart(error, topic.name) for topic in request.topics])
