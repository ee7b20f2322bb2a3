"""Look-ups of what is not among a log's last batches: batches from an offset on, and aborted transactions.

All of them use the sparse indexes, and then read headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import LogStorageError
from storage.slices import LogSlice
from storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def read(
    log: PartitionLog, offset: int, limit: int, max_bytes: int, at_least_one_batch: bool
) -> LogSlice | None:
    """Does what `PartitionLog.read` does for any place in the log. `offset` < `limit` lie in it."""
    try:
        for number in range(log.segments.number_of(offset), len(log.segments)):
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
        raise unreadable(log, error) from error
    return None


def size_between(log: PartitionLog, offset: int, end_offset: int) -> int:
    """Does what `PartitionLog.size_between` does for any place in the log."""
    segments = log.segments
    first, last = segments.number_of(offset), segments.number_of(end_offset)
    try:
        before, end = _end_position(log, first, offset), _end_position(log, last, end_offset)
    except OSError as error:
        raise unreadable(log, error) from error
    return sum(segment.size_bytes for segment in segments[first:last]) + end - before


def _end_position(log: PartitionLog, number: int, limit: int) -> int:
    """The position in a segment at which the batches below `limit` end."""
    segment = log.segments[number]
    is_last = number == len(log.segments) - 1
    segment_end_offset = log.log_end_offset if is_last else log.segments[number + 1].base_offset
    if limit >= segment_end_offset:
        return segment.size_bytes
    found = segment.locate(limit)
    return segment.size_bytes if found is None else found.position


def aborted_transactions(log: PartitionLog, from_offset: int, found: LogSlice) -> list[tuple[int, int]]:
    """See `PartitionLog.aborted_transactions`. The upper bound is as coarse as Kafka's: an index entry."""
    first = log.segments.number_of(found.segment_base_offset)
    segment = log.segments[first]
    try:
        if not any(each.transaction_index.entries() for each in log.segments[first:]):
            return []  # most logs have none, and need no look at another index
        upper_offset = segment.locate_position(found.position + found.size_bytes)
        if upper_offset is None:
            is_last = first == len(log.segments) - 1
            upper_offset = log.log_end_offset if is_last else log.segments[first + 1].base_offset
        aborted: list[AbortedTransaction] = []
        for each in log.segments[first:]:
            if each.transaction_index.collect(from_offset, upper_offset, aborted):
                break
    except OSError as error:
        raise unreadable(log, error) from error
    aborted.sort(key=lambda each: each.first_offset)
    return [(each.producer_id, each.first_offset) for each in aborted]


def unreadable(log: PartitionLog, error: OSError) -> LogStorageError:
    """The error for a reader when the disk has failed."""
    return LogStorageError(f"{log.directory} cannot be read: {error}")
