"""Finding things that are not among a log's last batches: by offset, by timestamp, the largest timestamp.

All goes through the sparse indexes and ends in reading headers. Records are read only to tell which one
within a batch has a timestamp; a batch whose records cannot be read (produce takes most on the word of
their header) is answered with what its header says, and reported.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.records.errors import RecordsError
from protocol.records.header import BatchHeader
from protocol.records.reader import records
from storage.errors import LogStorageError
from storage.segment import Segment
from storage.slices import LogSlice
from storage.time_index import NO_TIMESTAMP
from storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

_logger: Final = logging.getLogger(__name__)


def read(
    log: PartitionLog, offset: int, limit: int, max_bytes: int, at_least_one_batch: bool
) -> LogSlice | None:
    """`PartitionLog.read` for any place in the log; `offset` < `limit` lie in it."""
    try:
        for number in range(log.segment_index_of(offset), len(log.segments)):
            segment = log.segments[number]
            found = segment.locate(offset)
            if found is None:
                continue  # compaction emptied the rest of this segment
            if found.last_offset >= limit:
                return None
            available = _end_position(log, number, limit) - found.position
            if available > max_bytes:
                if found.size_bytes > max_bytes and not at_least_one_batch:
                    return None
                available = max(max_bytes, found.size_bytes)
            return LogSlice(segment.log, found.position, available, found.base_offset, segment.base_offset)
    except OSError as error:
        raise _unreadable(log, error) from error
    return None


def _end_position(log: PartitionLog, number: int, limit: int) -> int:
    """Where the batches below `limit` end in a segment."""
    segment = log.segments[number]
    is_last = number == len(log.segments) - 1
    segment_end_offset = log.log_end_offset if is_last else log.segments[number + 1].base_offset
    if limit >= segment_end_offset:
        return segment.size_bytes
    found = segment.locate(limit)
    return segment.size_bytes if found is None else found.position


def aborted_transactions(log: PartitionLog, from_offset: int, found: LogSlice) -> list[tuple[int, int]]:
    """See `PartitionLog.aborted_transactions`. The upper bound is as coarse as Kafka's: an index entry."""
    first = log.segment_index_of(found.segment_base_offset)
    segment = log.segments[first]
    try:
        upper_offset = segment.offset_index.offset_behind(found.position + found.size_bytes)
        if upper_offset is None:
            is_last = first == len(log.segments) - 1
            upper_offset = log.log_end_offset if is_last else log.segments[first + 1].base_offset
        aborted: list[AbortedTransaction] = []
        for each in log.segments[first:]:
            if each.transaction_index.collect(from_offset, upper_offset, aborted):
                break
    except OSError as error:
        raise _unreadable(log, error) from error
    aborted.sort(key=lambda each: each.first_offset)
    return [(each.producer_id, each.first_offset) for each in aborted]


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> tuple[int, int, int] | None:
    try:
        for segment in log.segments[log.segment_index_of(log.log_start_offset) :]:
            if segment.size_bytes and segment.largest_timestamp() >= timestamp:
                found = _first_at_or_after(log, segment, timestamp)
                if found is not None:
                    return found
    except OSError as error:
        raise _unreadable(log, error) from error
    return None


def _first_at_or_after(log: PartitionLog, segment: Segment, timestamp: int) -> tuple[int, int, int] | None:
    _, indexed_offset = segment.time_index.lookup(timestamp)
    position = segment.offset_index.lookup(max(indexed_offset, log.log_start_offset))
    for place, header in segment.headers(position):
        if header.max_timestamp >= timestamp and header.last_offset >= log.log_start_offset:
            found = _record_at_or_after(log, segment, place, header, timestamp)
            if found is not None:
                return found
    return None


def max_timestamp_offset(log: PartitionLog) -> tuple[int, int, int] | None:
    try:
        best: Segment | None = None
        for segment in log.segments:
            if best is None or segment.largest_timestamp() > best.largest_timestamp():
                best = segment
        if best is None or best.largest_timestamp() == NO_TIMESTAMP:
            return None
        timestamp, offset = max(
            best.time_index.last(), (best.max_timestamp, best.max_timestamp_offset), key=lambda each: each[0]
        )
        found = best.locate(offset)
        if found is None:
            return None
        header = next(best.headers(found.position))[1]
        return _record_at_or_after(log, best, found.position, header, timestamp)
    except OSError as error:
        raise _unreadable(log, error) from error


def _record_at_or_after(
    log: PartitionLog, segment: Segment, position: int, header: BatchHeader, timestamp: int
) -> tuple[int, int, int] | None:
    """The first record of the batch with that timestamp or a later one, not below the log start."""
    epoch = header.partition_leader_epoch
    if header.timestamp_type == 1 and header.record_count == header.last_offset_delta + 1:
        return header.max_timestamp, max(header.base_offset, log.log_start_offset), epoch
    try:
        for record in records(segment.read(position, header.size_bytes)):
            if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                return record.timestamp, record.offset, epoch
    except RecordsError as error:
        _logger.error(
            "%s: the records of the batch at byte %d (offset %d) cannot be read: %s; its header is believed",
            segment.log.path, position, header.base_offset, error.message,
        )  # fmt: skip
        return header.max_timestamp, header.last_offset, epoch
    return None


def _unreadable(log: PartitionLog, error: OSError) -> LogStorageError:
    return LogStorageError(f"{log.directory} cannot be read: {error}")
