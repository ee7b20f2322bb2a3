"""ListOffsets (2): where a partition begins and ends, or where a time begins in it. KIP-79, KIP-734.

Versions 1-11.

* 1: one offset per partition; 2: isolation level and throttle time; 3: throttled after the answer (KIP-219);
* 4: leader epochs (KIP-320); 5: OFFSET_NOT_AVAILABLE (KIP-207); 6: flexible;
* 7: -3, the offset of the largest timestamp; 8: -4, the earliest local offset;
* 9: -5, the latest offset in remote storage; 10: a timeout, for look-ups in remote storage;
* 11: -6, the earliest offset that is not in remote storage yet.

The ends are two attributes of the log, so they cost the same for any size: consumers that plan their work
by offsets (Spark, lag monitors) ask for thousands of partitions at once. A time is looked up in the time
indexes, and then in the records of a batch: a request that takes long is answered later, a slice of the work
at a time (`broker.scheduling.lookups`).

An isolation level that does not exist is UNKNOWN_SERVER_ERROR for every partition, as in Kafka.

Needs DESCRIBE on the topic. There is no remote storage yet: -5 and -6 answer offset -1, as Kafka does for
topics that are not tiered, and -4 is the log start.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from broker.replication.partition import Partition
from broker.services import HasLookups, HasReplicas
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from storage.errors import LogStorageError
from storage.time_lookup import LookupSteps

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

FIRST_VERSION_OF: Final = MappingProxyType(
    {
        LATEST: 1,
        EARLIEST: 1,
        MAX_TIMESTAMP: 7,
        EARLIEST_LOCAL: 8,
        LATEST_TIERED: 9,
        EARLIEST_PENDING_UPLOAD: 11,
    }
)
"""The version since which a special timestamp may be asked for."""

READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""The replica id of a consumer that debugs, which reads from any replica."""

PARTITIONS_PER_STEP: Final = 64

NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1

Answer = ListOffsetsResponse.ListOffsetsPartitionResponse
TopicAnswer = ListOffsetsResponse.ListOffsetsTopicResponse


class ListOffsetsServices(HasReplicas, HasLookups, Protocol):
    """What this handler needs of the broker's services."""


def handle(
    services: ListOffsetsServices, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Pending[ListOffsetsResponse]:
    if request.isolation_level not in ISOLATION_LEVELS:
        return _refuse_all(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    return services.lookups.run(
        answers_in_steps(services, context, request),
        partial(_refuse_all, request, ErrorCode.UNKNOWN_SERVER_ERROR),
    )


def answers_in_steps(
    services: ListOffsetsServices, context: RequestContext, request: ListOffsetsRequest
) -> LookupSteps[ListOffsetsResponse]:
    """Each partition is judged on the state of its own moment."""
    topics = []
    replicas = services.replicas
    hosted = replicas.by_name
    repeated = yield from _repeated_partitions(request)
    count = 0
    for topic in request.topics:
        name = topic.name
        allowed = context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
        answers = []
        for asked in topic.partitions:
            index = asked.partition_index
            if not allowed:
                answers.append(Answer(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif (name, index) in repeated:
                answers.append(Answer(index, ErrorCode.INVALID_REQUEST))
            elif asked.timestamp < 0 and context.version < FIRST_VERSION_OF.get(asked.timestamp, 1 << 15):
                answers.append(Answer(index, ErrorCode.UNSUPPORTED_VERSION))
            else:
                partition = hosted.get((name, index))
                if partition is None:
                    answers.append(Answer(index, replicas.why_not_hosted(name, index)))
                else:
                    answer = _answer(partition, asked, request, context.version)
                    if answer is None:
                        answer = yield from _by_time(partition, asked, request, context.version)
                    answers.append(answer)
            count += 1
            if not count % PARTITIONS_PER_STEP:
                yield None
        topics.append(TopicAnswer(name, answers))
    return ListOffsetsResponse(0, topics)


def _refuse_all(request: ListOffsetsRequest, error: ErrorCode) -> ListOffsetsResponse:
    topics = [
        TopicAnswer(topic.name, [Answer(asked.partition_index, error) for asked in topic.partitions])
        for topic in request.topics
    ]
    return ListOffsetsResponse(0, topics)


def _repeated_partitions(request: ListOffsetsRequest) -> LookupSteps[set[tuple[str, int]]]:
    """Partitions that are asked for more than once; Kafka refuses each of them."""
    seen: dict[str, set[int]] = {}
    repeated: set[tuple[str, int]] = set()
    count = 0
    for topic in request.topics:
        indexes = seen.setdefault(topic.name, set())
        for asked in topic.partitions:
            index = asked.partition_index
            if index in indexes:
                repeated.add((topic.name, index))
            indexes.add(index)
            count += 1
            if not count % PARTITIONS_PER_STEP:
                yield None
    return repeated


def _answer(
    partition: Partition,
    asked: ListOffsetsRequest.ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse | None:
    """One partition that this broker hosts; None if a time is to be looked up."""
    index = asked.partition_index
    refusal = _refusal(partition, asked, request)
    if refusal:
        return Answer(index, refusal)
    log = partition.log
    timestamp = asked.timestamp
    if timestamp == LATEST:
        if _is_too_early(partition, request):
            return Answer(index, _not_available(version))
        readable = _readable_end(partition, request)
        return Answer(index, 0, NO_TIMESTAMP, readable, _epoch(partition.leader_epoch, version))
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset if timestamp == EARLIEST else log.local_log_start_offset
        return Answer(index, 0, NO_TIMESTAMP, start, _epoch(log.leader_epochs.epoch_of(start), version))
    return Answer(index) if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD) else None


def _by_time(
    partition: Partition,
    asked: ListOffsetsRequest.ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
) -> LookupSteps[ListOffsetsResponse.ListOffsetsPartitionResponse]:
    index, timestamp, log = asked.partition_index, asked.timestamp, partition.log
    try:
        if timestamp == MAX_TIMESTAMP:
            found = yield from log.find_largest_timestamp()
        else:
            found = yield from log.find_since(timestamp)
    except (OSError, LogStorageError):
        return Answer(index, _refusal(partition, asked, request) or ErrorCode.KAFKA_STORAGE_ERROR)
    refusal = _refusal(partition, asked, request)  # meanwhile somebody else may lead
    if refusal:
        return Answer(index, refusal)
    if found is None or found[1] >= _readable_end(partition, request):
        return Answer(index, _not_available(version) if _is_too_early(partition, request) else 0)
    found_timestamp, offset, epoch = found
    return Answer(index, 0, found_timestamp, offset, _epoch(epoch, version))


def _refusal(
    partition: Partition, asked: ListOffsetsRequest.ListOffsetsPartition, request: ListOffsetsRequest
) -> int:
    leader_only = request.replica_id != DEBUGGING_CONSUMER
    return partition.refusal(asked.current_leader_epoch, leader_only=leader_only)


def _is_too_early(partition: Partition, request: ListOffsetsRequest) -> bool:
    """Whether a consumer has to ask again: until the high watermark has come to where this leader began, it
    may be below what the leader before has shown."""
    is_behind = partition.leader_epoch_start_offset > partition.log.high_watermark
    return is_behind and request.replica_id == CONSUMER


def _readable_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """The offset up to which the client may read: consumers by their isolation level, replicas and consumers
    that debug to the log end."""
    log = partition.log
    if request.replica_id != CONSUMER:
        return log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return log.last_stable_offset
    return log.high_watermark


def _epoch(epoch: int, version: int) -> int:
    return epoch if version >= 4 else NO_EPOCH


def _not_available(version: int) -> ErrorCode:
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
