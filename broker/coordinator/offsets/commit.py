"""OffsetCommit: who may commit, and what is written.

A member commits in its generation. Whoever has none (an administrator, or a consumer that assigns partitions
by itself: a "simple" consumer) may commit as long as the group has no members; that makes the group if need
be. Groups of protocols that are not served are left alone. Topics are checked before: here each partition has
a name and exists.

A commit is one batch, and the key of each record names the group. A group id may be as long as 32,767 bytes,
so a request of a few kilobytes can ask for gigabytes of records. As soon as the records are larger than the
batch that the log takes, the commit is refused, as the log would refuse it.

The records are made in turns, before the group is asked. What must happen as one comes after them: whether
the member may commit, and the replay and append of the whole batch.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Final, NamedTuple

from broker.coordinator.classic.classic_group import ClassicGroup
from broker.coordinator.classic.states import GroupState
from broker.coordinator.consumer.consumer_group_requests import commit_refusal
from broker.coordinator.consumer.operation import TopicsView
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import GroupOperation, GroupSettings
from broker.coordinator.offsets.offset_records import NO_EXPIRY, OffsetAndMetadata, offset_record
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.errors import EncodeError, ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

LOG: Final = logging.getLogger("barnabas.coordinator")
UNKNOWN_GROUP_SINCE: Final = 9
OFFSETS_PER_STEP: Final = 100
"""The number of records that are made before the loop may do other work: half a millisecond."""
NO_RETENTION_OF_ITS_OWN: Final = -1
"""The retention time in a request that leaves the retention to the broker."""


class PreparedCommit(NamedTuple):
    """The records and the answer of a commit, if the group takes it."""

    response: OffsetCommitResponse
    records: list[CoordinatorRecord]
    refusal: ErrorCode
    """The reason for which not all records were made: they take more than a batch does, or one cannot be
    encoded."""


def prepare_commit(
    request: OffsetCommitRequest, settings: GroupSettings, now_ms: int, most_bytes: int
) -> Generator[None, None, PreparedCommit]:
    """Makes a record for each offset that may be committed, in turns, as long as the keys and values of the
    records are not larger than `most_bytes`. Every topic has a name and exists. now_ms: the wall clock."""
    has_own = request.retention_time_ms != NO_RETENTION_OF_ITS_OWN
    expires_ms = java_long(now_ms + request.retention_time_ms) if has_own else NO_EXPIRY
    response = OffsetCommitResponse()
    records: list[CoordinatorRecord] = []
    size_bytes = 0
    for topic in request.topics:
        answer = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error = ErrorCode.NONE
            if java_length(metadata) > settings.offset_metadata_max_characters:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = OffsetAndMetadata(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp_ms=now_ms,
                    expire_timestamp_ms=expires_ms,
                    topic_id=topic.topic_id,
                )
                try:
                    record = offset_record(request.group_id, topic.name, partition.partition_index, committed)
                except EncodeError as problem:
                    LOG.error("A commit is refused, an offset of it cannot be encoded: %s", problem)
                    return PreparedCommit(response, records, ErrorCode.UNKNOWN_SERVER_ERROR)
                records.append(record)
                size_bytes += len(record.key) + len(record.value or b"")
                if size_bytes > most_bytes:
                    LOG.warning(
                        "A commit is refused: %d of its offsets take more than the %d bytes of a batch",
                        len(records),
                        most_bytes,
                    )
                    return PreparedCommit(response, records, ErrorCode.MESSAGE_TOO_LARGE)
                if len(records) % OFFSETS_PER_STEP == 0:
                    yield
            answer.partitions.append(
                OffsetCommitResponse.OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
    return PreparedCommit(response, records, ErrorCode.NONE)


def commit_offsets(
    groups: GroupMetadataManager,
    request: OffsetCommitRequest,
    version: int,
    prepared: PreparedCommit,
    operation: GroupOperation,
    topics: TopicsView,
) -> OffsetCommitResponse:
    """Writes the prepared records, or refuses them."""
    group = groups.get(request.group_id)
    consumer = groups.consumers.get(request.group_id)
    if consumer is not None:
        error = commit_refusal(consumer, request, version, topics)
    elif groups.is_unserved(request.group_id):
        error = ErrorCode.GROUP_ID_NOT_FOUND
    else:
        error = commit_error(group, request, version)
    if error is not ErrorCode.NONE:
        return refused_commit(request, error)
    if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        operation.refresh_session(group, group.members[request.member_id])
    if prepared.refusal is ErrorCode.NONE:
        operation.result.records = prepared.records
    else:
        operation.result.refusal = prepared.refusal
    return prepared.response


def commit_error(group: ClassicGroup | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
    """The error for a commit of the request's member now."""
    generation, member_id = request.generation_id_or_member_epoch, request.member_id
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        return (
            ErrorCode.GROUP_ID_NOT_FOUND if version >= UNKNOWN_GROUP_SINCE else ErrorCode.ILLEGAL_GENERATION
        )
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or member_id or request.group_instance_id is not None:
        error = group.error_for(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif group.state is not GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The response with one error for every partition of the request, because it has no place for an error of
    its own."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def java_long(number: int) -> int:
    """A sum in 64 bits as Java computes it: beyond the largest number it goes on with the smallest. Kafka
    stores that, so an offset that was to be kept nearly for ever expires at the next look."""
    return (number + 2**63) % 2**64 - 2**63


def java_length(text: str) -> int:
    """The number of characters as Java counts them: one more for each beyond U+FFFF."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
