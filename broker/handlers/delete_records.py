"""DeleteRecords (21): what lies before an offset goes, at every live replica. KIP-107.

Versions 0-2. 2: flexible. Offset -1 means the high watermark. A later fetch from below is
OFFSET_OUT_OF_RANGE; whole segments below go with the next retention check. An offset below the log start is
done already. Topics that are compacted only are refused with POLICY_VIOLATION, the coordinators' own with
INVALID_TOPIC_EXCEPTION. A partition that a request names twice counts once, with the offset named last.

Needs DELETE on the topic.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from broker.metadata.cache import INTERNAL_TOPICS
from broker.replication.delayed_delete_records import (
    NO_LOW_WATERMARK,
    DelayedDeleteRecords,
    delete_records,
)
from broker.services import HasClock, HasMetadata, HasReplicas, HasTimers
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

TopicAnswer = DeleteRecordsResponse.DeleteRecordsTopicResult
PartitionAnswer = DeleteRecordsResponse.DeleteRecordsPartitionResult
Delayed: TypeAlias = DelayedDeleteRecords[
    DeleteRecordsResponse.DeleteRecordsPartitionResult, DeleteRecordsResponse
]


class DeleteRecordsServices(HasClock, HasTimers, HasMetadata, HasReplicas, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: DeleteRecordsServices, context: RequestContext, request: DeleteRecordsRequest
) -> Turns[DeleteRecordsResponse | Pending[DeleteRecordsResponse]]:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        yield None
        for asked in topic.partitions:
            wanted.setdefault(topic.name, {})[asked.partition_index] = asked.offset
            yield None
    response = DeleteRecordsResponse()
    delayed: Delayed = DelayedDeleteRecords(services.metadata.is_alive, _fill)
    for name, offsets in wanted.items():
        allowed = context.allows(Operation.DELETE, ResourceType.TOPIC, name)
        answers = []
        for index, offset in offsets.items():
            answer = PartitionAnswer(index, NO_LOW_WATERMARK, ErrorCode.UNKNOWN_SERVER_ERROR)
            if not allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                _delete(services, delayed, name, offset, answer)
            answers.append(answer)
            yield None
        response.topics.append(TopicAnswer(name, answers))
    return delayed.start(
        response, timeout_ms=request.timeout_ms, clock=services.clock, timers=services.timers
    )


def _delete(
    services: DeleteRecordsServices,
    delayed: Delayed,
    topic: str,
    offset: int,
    answer: DeleteRecordsResponse.DeleteRecordsPartitionResult,
) -> None:
    """Do it, and fill in what came of it or wait for that."""
    index = answer.partition_index
    if services.metadata.partition(topic, index) is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    if topic in INTERNAL_TOPICS:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return
    partition = services.replicas.partition(topic, index)
    if isinstance(partition, ErrorCode):
        answer.error_code = partition
        return
    reached = delete_records(partition, offset)
    if isinstance(reached, ErrorCode):
        answer.error_code = reached
    else:
        delayed.wait(partition, reached, answer)


def _fill(
    answer: DeleteRecordsResponse.DeleteRecordsPartitionResult, low_watermark: int, error: ErrorCode
) -> None:
    answer.low_watermark = low_watermark
    answer.error_code = error
