"""DescribeTopicPartitions (75): topics page by page, with the replicas that may lead next. KIP-966.

Version 0.

Topics come in the order of their names, partitions in that of their numbers. An answer holds at most
`max.request.partition.size.limit` partitions, or fewer if the client wants fewer, and a cursor for the next
page where there is more. No list means all topics. Nothing is ever created by asking. A partition never has
an error: one whose leader cannot be reached on the listener has no leader.

Needs DESCRIBE: what a client may not see is left out of "all", and is TOPIC_AUTHORIZATION_FAILED by name,
at the end of each page.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.metadata.cache import INTERNAL_TOPICS, NO_LEADER, ListenerView
from broker.services import HasConfig, HasMetadata
from controller.metadata.image.topics import PartitionRegistration
from controller.metadata.topic_names import name_fault
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.authorized_operations import authorized_operations
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

TopicPart = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionPart = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
Cursor = DescribeTopicPartitionsResponse.Cursor

_TOPIC: Final = ResourceType.TOPIC


class TopicPartitionsServices(HasConfig, HasMetadata, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: TopicPartitionsServices,
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> Turns[DescribeTopicPartitionsResponse]:
    cursor = request.cursor
    named: dict[str, None] = {}
    for topic in request.topics:
        named[topic.name] = None
        yield None
    if "" in named:
        # No topic can have it, and Kafka stumbles over it.
        return (yield from _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
        return (yield from _refused(request, ErrorCode.INVALID_REQUEST))
    names = sorted(named or services.metadata.topic_names())
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    seen: list[str] = []
    hidden: list[str] = []
    may_describe = context.allows if named else context.may_see
    for name in names:
        (seen if may_describe(Operation.DESCRIBE, _TOPIC, name) else hidden).append(name)
        yield None
    limit = services.config.integer("max.request.partition.size.limit")
    page = _Page(services, context, max(1, min(limit, request.response_partition_limit)))
    for name in seen:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        yield page.topic(name, first, tells_missing=bool(named))
        if page.response.next_cursor is not None:
            break
    if named:
        for name in hidden:
            yield TopicPart(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    return page.response


class _Page:
    """An answer that is being filled."""

    def __init__(self, services: TopicPartitionsServices, context: RequestContext, limit: int) -> None:
        self.response = DescribeTopicPartitionsResponse(topics=[])
        self._services = services
        self._context = context
        self._left = limit

    def topic(
        self, name: str, first: int, *, tells_missing: bool
    ) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic | None:
        """The topic from partition `first` on. Sets the cursor if the page is full with it, or before it."""
        if self._left == 0:
            self.response.next_cursor = Cursor(name, 0)
            return None
        metadata = self._services.metadata
        image = metadata.topic(name)
        operations = authorized_operations(self._context, _TOPIC, name)
        if image is None:
            return _unknown(name, operations) if tells_missing else None
        view = metadata.view(self._context.session.listener)
        indexes = [index for index in image.partitions if index >= first]
        shown = indexes[: self._left]
        self._left -= len(shown)
        if len(shown) < len(indexes):
            self.response.next_cursor = Cursor(name, indexes[len(shown)])
        return TopicPart(
            0,
            name,
            image.id,
            name in INTERNAL_TOPICS,
            [_partition(view, index, image.partitions[index]) for index in shown],
            operations,
        )


def _partition(
    view: ListenerView, index: int, entry: PartitionRegistration
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    return PartitionPart(
        0,
        index,
        entry.leader if entry.leader in view.reachable else NO_LEADER,
        entry.leader_epoch,
        list(entry.replicas),
        list(entry.isr),
        list(entry.elr),
        list(entry.last_known_elr),
        view.offline_replicas(entry),
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


def _refused(
    request: DescribeTopicPartitionsRequest, error: ErrorCode
) -> Turns[DescribeTopicPartitionsResponse]:
    """The same error for each topic: a cursor that points nowhere, or a name that is none."""
    for topic in request.topics:
        yield TopicPart(error, topic.name)
    return DescribeTopicPartitionsResponse()
