"""One partition read for a Fetch request, behind every check that Kafka makes before a read.

The checks, in Kafka's order: the disk, the leader epoch and the role; whether a reader that says it is a
replica is one of this partition; whether the log of the reader diverges from this one; whether the offset
lies in this log. Only then the leader notes how far a follower is: the position of one that is fenced, or
that has other records than the leader, says nothing of what it has of this log, and would raise the high
watermark over records that nobody else has.

The result is a value; whoever answers the request shapes it. What is read is a slice of the log's file:
nobody here reads a byte of it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker.replication.fetch_sessions import FetchSession, FollowerFetch, WantedPartition
from broker.replication.partition import Partition
from broker.replication.roles import NO_EPOCH
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from storage.errors import LogStorageError, OffsetOutOfRange
from storage.slices import LogSlice

__all__ = [
    "CONSUMER",
    "FIRST_VERSION_WITH_RACK",
    "FIRST_VERSION_WITH_TOPIC_IDS",
    "NO_ROOM",
    "READ_COMMITTED",
    "DivergingEpoch",
    "FetchParams",
    "FollowerFetch",
    "ReadRefused",
    "aborted_transactions",
    "fetch_records",
    "note_unnamed_partitions",
    "params_of",
]

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_LAST_EPOCH: Final = 12

READ_COMMITTED: Final = 1

CONSUMER: Final = -1
"""The replica id of a consumer. -2 is a consumer that debugs; there are no smaller ones."""

NO_ROOM: Final = b""
"""Says that there are records to read, but that none of them fits into the answer."""

_OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)
_UNKNOWN_SERVER_ERROR: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)
_STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)


class FetchParams(msgspec.Struct, gc=False, frozen=True):
    """The parameters of a fetch, within what the broker allows."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    replica_id: int = CONSUMER
    leader_only: bool = True
    """Whether only the leader answers. Before version 11 of Fetch a consumer cannot name its rack, and
    replicas always ask the leader."""
    can_tell_divergence: bool = True
    """Whether an answer can tell where two logs diverge, as from version 12 of Fetch on. A session remembers
    what was told about its partitions, and may go on in an older version."""
    follower: FollowerFetch | None = None
    """The follower that fetches, while its request is new. A request that has waited says nothing new, and
    one that may not read as a broker says nothing at all."""
    rack: str = ""
    """The rack of the consumer; empty if it names none."""


def params_of(
    request: FetchRequest,
    version: int,
    replica_id: int,
    most_bytes: int,
    follower: FollowerFetch | None = None,
) -> FetchParams:
    """The parameters of a request. most_bytes: the broker allows no more."""
    max_bytes = min(most_bytes, request.max_bytes)
    return FetchParams(
        request.max_wait_ms,
        min(max_bytes, request.min_bytes),
        max_bytes,
        request.isolation_level == READ_COMMITTED,
        replica_id,
        replica_id >= 0 or (replica_id == CONSUMER and version < FIRST_VERSION_WITH_RACK),
        version >= FIRST_VERSION_WITH_LAST_EPOCH,
        follower,
        request.rack_id if replica_id < 0 and version >= FIRST_VERSION_WITH_RACK else "",
    )


class ReadRefused(msgspec.Struct, frozen=True):
    """The partition cannot be read. cause: the disk error, if that is the reason."""

    error_code: int
    cause: Exception | None = None


class DivergingEpoch(msgspec.Struct, frozen=True):
    """The reader has records that this log does not have. epoch: the largest epoch of this log that is not
    later than the reader's. end_offset: the end of that epoch here, to which the reader truncates its log."""

    epoch: int
    end_offset: int


def fetch_records(
    params: FetchParams, partition: Partition, wanted: WantedPartition, max_bytes: int, is_first: bool
) -> LogSlice | bytes | DivergingEpoch | ReadRefused | None:
    """Reads one partition for a request.

    None: the reader is at the end of what it may read. NO_ROOM: it is not, but nothing fits into `max_bytes`.
    is_first: no records were found before in this request. Then the first batch is given whole, however large
    it is (KIP-74); otherwise a consumer with a small `max_bytes` could never read it.
    """
    log = partition.log
    offset = wanted.fetch_offset
    epoch = wanted.current_leader_epoch
    if (
        offset < log.log_start_offset
        or offset > log.log_end_offset
        or wanted.last_fetched_epoch >= 0
        or not partition.is_leader
        or (epoch != NO_EPOCH and epoch != partition.leader_epoch)
    ):
        obstacle = _obstacle(params, partition, wanted)
        if obstacle is not None:
            return obstacle
    if params.replica_id >= 0:
        readable = log.log_end_offset
        if params.follower is not None:
            refusal = _note_follower(params.replica_id, params.follower, partition, wanted)
        else:
            refusal = partition.follower_refusal(params.replica_id, epoch)
        if refusal:
            return ReadRefused(refusal)
    else:
        readable = log.last_stable_offset if params.read_committed else log.high_watermark
    if offset >= readable:
        return None
    if wanted.max_bytes < max_bytes:
        max_bytes = wanted.max_bytes
    if max_bytes <= 0:
        if max_bytes < 0:  # Kafka fails on it where it has something to read
            return ReadRefused(_UNKNOWN_SERVER_ERROR)
        if not is_first:
            return NO_ROOM
    try:
        records = log.read(offset, max_bytes=max_bytes, up_to_offset=readable, at_least_one_batch=is_first)
    except OffsetOutOfRange:
        return ReadRefused(_OFFSET_OUT_OF_RANGE)
    except (OSError, LogStorageError) as error:
        return ReadRefused(_STORAGE_ERROR, error)
    return NO_ROOM if records is None else records


def aborted_transactions(
    partition: Partition, from_offset: int, records: LogSlice
) -> list[tuple[int, int]] | ReadRefused:
    """Pairs of producer id and first offset: the transactions whose records a reader of committed records
    leaves out."""
    try:
        return partition.log.aborted_transactions(from_offset, records)
    except OffsetOutOfRange:
        return ReadRefused(_OFFSET_OUT_OF_RANGE)
    except (OSError, LogStorageError) as error:
        return ReadRefused(_STORAGE_ERROR, error)


def note_unnamed_partitions(session: FetchSession, params: FetchParams, every_ms: int) -> None:
    """Notes the fetches of partitions that a follower's request does not name. It asks for every partition of
    its session; those that it does not name have nothing new: the follower is at the same offset as before,
    and was not refused there.

    So all that is new of them is the time, and it need not be exact: a session of thousands of partitions is
    walked after `every_ms`, and at once after a change of the brokers, by which a replica may be able to join
    an ISR. While records come a follower fetches hundreds of times a second.
    """
    follower = params.follower
    if follower is None:
        return
    if session.noted is not None and follower.says_as_much_as(session.noted, every_ms):
        return
    session.noted = follower
    for wanted in session.wanted.values():
        partition = wanted.partition
        if partition is None or wanted.key in session.active:
            continue
        if _note_follower(params.replica_id, follower, partition, wanted):
            session.active[wanted.key] = wanted  # it is looked at, and the error is told


def _obstacle(
    params: FetchParams, partition: Partition, wanted: WantedPartition
) -> DivergingEpoch | ReadRefused | None:
    """The error that prevents reading, in Kafka's order. None if there is none."""
    refusal = partition.refusal(wanted.current_leader_epoch, leader_only=params.leader_only)
    if not refusal and params.replica_id >= 0:
        refusal = partition.follower_refusal(params.replica_id, wanted.current_leader_epoch)
    if refusal:
        return ReadRefused(refusal)
    log = partition.log
    offset = wanted.fetch_offset
    if wanted.last_fetched_epoch >= 0 and params.can_tell_divergence:
        epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if end_offset < 0 or epoch < 0 or offset < log.log_start_offset:
            return ReadRefused(_OFFSET_OUT_OF_RANGE)
        if epoch < wanted.last_fetched_epoch or end_offset < offset:
            return DivergingEpoch(epoch, end_offset)
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return ReadRefused(_OFFSET_OUT_OF_RANGE)
    return None


def _note_follower(
    replica_id: int, follower: FollowerFetch, partition: Partition, wanted: WantedPartition
) -> int:
    """Tells the leader's partition how far a follower has fetched. Returns the error code to answer."""
    refusal = partition.follower_refusal(replica_id, wanted.current_leader_epoch)
    return refusal or partition.follower_fetched(
        replica_id,
        wanted.fetch_offset,
        wanted.replica_log_start_offset,
        now_ms=follower.now_ms,
        broker_epoch=follower.broker_epoch,
        registered_epoch=follower.registered_epoch,
    )
