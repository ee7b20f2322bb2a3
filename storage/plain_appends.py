"""Plain batches of producers, several of them appended to a log by one write.

`PartitionLog.append_as_leader` appends one batch of any kind. The function here is quicker, for batches that
lie in a receive buffer and need nothing but an offset. A batch that is not plain is left, before anything has
changed, to `append_as_leader`, which decides by the same rules::

    judge    the header is valid (`validation.plain_headers`), the sequence is the next one, the segment has
             room: then offset and leader epoch are written into the batch
    write    if no append waits and the disk is quick: all of them are written into the file by one system
             call. If that fails, the batches get their bytes back
    note     the batches are in the log from here on

No batch is plain where an append has to wait for a helper thread, a segment is to be rolled, or a failed
write is to be repaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from protocol.records.header import LOG_OVERHEAD_BYTES, patch_place
from protocol.records.validation import plain_headers
from storage.file_io import write_fully
from storage.log_disk import SLOW_NS
from storage.producer_state import LAST_SEQUENCE, ProducerBatch, ProducerEntry
from storage.segment import MAX_RELATIVE_OFFSET, IndexedBatch

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

__all__ = ["append_plain"]

BatchRange = tuple[int, int]
"""The position of a batch in the buffer, and its size in bytes."""

Sequences = dict[int, tuple[ProducerEntry, list[ProducerBatch]]]
"""By producer id: what is known of the producer, and its batches that follow."""


def append_plain(
    log: PartitionLog,
    buffer: memoryview,
    batches: Sequence[BatchRange],
    leader_epoch: int,
    now_ms: int,
    request_version: int,
) -> tuple[list[int], int]:
    """Appends batches of clients, in order, up to the first that is not plain; none is smaller than a header.
    Returns the base offsets of those that were appended, and their size.

    If the write fails, none is in the log and the list is empty; `append_as_leader` raises the error then.
    """
    segments = log.segments
    segment = segments.active
    if (
        segments.has_failed_write
        or leader_epoch != log.leader_epochs.latest_epoch
        or segment.is_full
        or now_ms > segments.roll_time_ms
        or not segment.size_bytes
    ):
        return [], 0
    config = segments.config
    if segment.index_room < len(batches):
        batches = batches[: segment.index_entries_left(config.segment_index_bytes)]
    indexed: list[IndexedBatch] = []
    base_offsets: list[int] = []
    positions: list[int] = []
    buffers: list[memoryview] = []
    sequences: Sequences = {}
    begin = position = segment.size_bytes
    base_offset = segments.log_end_offset
    segment_bytes, roll_timestamp = config.segment_bytes, segments.roll_timestamp
    largest_offset = segment.base_offset + MAX_RELATIVE_OFFSET
    interval, since_entry = config.index_interval_bytes, segment.bytes_since_index_entry
    newest, newest_offset = segment.max_timestamp, segment.max_timestamp_offset
    headers = plain_headers(buffer, batches, log.rules, now_ms, request_version)
    for header, (at, size_bytes) in zip(headers, batches, strict=False):
        end = position + size_bytes
        last_offset = base_offset + header[6]
        max_timestamp = header[8]
        if end > segment_bytes or max_timestamp > roll_timestamp or last_offset > largest_offset:
            break
        if header[9] >= 0 and not _is_next(log, sequences, header, base_offset, last_offset):
            break
        patch_place(buffer, at, base_offset, header[1], leader_epoch)
        buffers.append(buffer[at : at + size_bytes])
        if max_timestamp > newest:
            newest, newest_offset = max_timestamp, last_offset
        if since_entry > interval:
            indexed.append((position, end, last_offset, newest, newest_offset))
            since_entry = 0
        since_entry += size_bytes
        base_offsets.append(base_offset)
        positions.append(position)
        position, base_offset = end, last_offset + 1
    if not buffers or not _write(log, buffers, begin, position, now_ms):
        return [], 0
    if sequences:
        for entry, appended in sequences.values():
            log.producer_state.put(entry.followed_by_all(appended))
    segment.appended_in_row(position, since_entry, (newest, newest_offset), indexed)
    segments.note_appends(base_offsets, positions, base_offset, bool(indexed))
    return base_offsets, position - begin


def _is_next(
    log: PartitionLog, sequences: Sequences, header: tuple[int, ...], base_offset: int, last_offset: int
) -> bool:
    """Whether a producer's batch is the one that follows, and nothing else is to be said of it. If so, it is
    noted among the sequences."""
    producer_id, epoch, first = header[9:12]
    own = sequences.get(producer_id)
    if own is None:
        entry = log.producer_state.get(producer_id)
        if entry is None or first != entry.sequence_after(epoch):
            return False
        own = sequences[producer_id] = (entry, [])
    elif epoch != own[0].epoch or first != own[1][-1].last_sequence + 1:
        return False
    last = (first + header[6]) & LAST_SEQUENCE
    own[1].append(ProducerBatch(first, last, base_offset, last_offset, header[8]))
    return True


def _write(log: PartitionLog, buffers: Sequence[memoryview], position: int, end: int, now_ms: int) -> bool:
    """Writes batches to the end of the segment. Returns whether that has succeeded. If not, the buffers are
    as they were, apart from the leader epoch, which has no meaning in a batch of a client."""
    segments, appends = log.segments, log.appends
    now_ns, began_ns = None, 0
    if now_ms != appends.inline_ms:
        if appends.must_detour(now_ms):
            _take_back(buffers)
            return False
        now_ns = appends.disk.now_ns
        began_ns = now_ns()
    try:
        if segments.active_write(buffers, position) != end - position:
            file = segments.active.log
            write_fully(file.file(), buffers, end - position, position, file.path)
    except OSError:
        segments.cut_off_failed_write(whole=len(buffers) > 1)
        _take_back(buffers)
        return False
    if now_ns is not None and (took_ns := now_ns() - began_ns) > SLOW_NS:
        appends.write_was_slow(took_ns)
    return True


def _take_back(buffers: Sequence[memoryview]) -> None:
    for buffer in buffers:
        patch_place(buffer, 0, 0, len(buffer) - LOG_OVERHEAD_BYTES, 0)
