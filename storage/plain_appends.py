"""Plain batches of producers, several of them appended to a log by one write.

`PartitionLog.append_as_leader` appends one batch of any kind. The function here is quicker, for batches that
lie in a receive buffer and need nothing but an offset. A batch that is not plain is left, before anything has
changed, to `append_as_leader`, which decides by the same rules::

    judge    the header is valid (`validation.is_plain`), the sequence is the next one, the segment has room;
             nothing changes
    write    if no append waits and the disk is quick: offset and leader epoch are written into the batches,
             and these into the file by one system call. If that fails, the batches get their bytes back
    note     the batches are in the log from here on

No batch is plain where an append has to wait for a helper thread, a segment is to be rolled, or a failed
write is to be repaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from protocol.records.header import HEADER, patch_place
from protocol.records.validation import is_plain
from storage.file_io import write_fully
from storage.log_disk import SLOW_NS
from storage.producer_state import LAST_SEQUENCE, ProducerBatch, ProducerEntry
from storage.segment import MAX_RELATIVE_OFFSET, PlacedBatch

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

__all__ = ["append_plain"]

_read: Final = HEADER.unpack_from

BatchRange = tuple[int, int]
"""The position of a batch in the buffer, and its size in bytes."""

Appended = tuple[ProducerEntry, list[ProducerBatch]]
"""What is known of a producer, and its batches that follow."""


def append_plain(
    log: PartitionLog,
    buffer: memoryview,
    batches: Sequence[BatchRange],
    *,
    leader_epoch: int,
    now_ms: int,
    request_version: int,
) -> list[int]:
    """Appends batches of clients, in order, up to the first that is not plain. Returns the base offsets of
    those that were appended.

    If the write fails, none is in the log and the list is empty; `append_as_leader` raises the error then.
    """
    segments, appends = log.segments, log.appends
    if segments.has_failed_write or leader_epoch != log.leader_epochs.latest_epoch:
        return []
    placed, sequences = _judge(log, buffer, batches, now_ms, request_version)
    if not placed:
        return []
    now_ns = None
    if now_ms != appends.inline_ms:
        if appends.must_detour(now_ms):
            return []
        now_ns = appends.disk.now_ns
    buffers = []
    for (at, size_bytes), batch in zip(batches, placed, strict=False):
        patch_place(buffer, at, batch[2], size_bytes, leader_epoch)
        buffers.append(buffer[at : at + size_bytes])
    began_ns = 0 if now_ns is None else now_ns()
    if not _write(log, buffers, placed):
        return []
    if now_ns is not None and (took_ns := now_ns() - began_ns) > SLOW_NS:
        appends.write_was_slow(took_ns)
    for entry, appended in sequences.values():
        log.producer_state.put(entry.followed_by_all(appended))
    segments.note_appends(placed)
    return [batch[2] for batch in placed]


def _judge(
    log: PartitionLog, buffer: memoryview, batches: Sequence[BatchRange], now_ms: int, request_version: int
) -> tuple[list[PlacedBatch], dict[int, Appended]]:
    """Those of the batches that are plain, with the places that they would get; and of each producer its
    entry so far, with what would follow."""
    placed: list[PlacedBatch] = []
    sequences: dict[int, Appended] = {}
    rules, segments = log.rules, log.segments
    segment, config, roll_timestamp = segments.active, segments.config, segments.roll_timestamp
    if segment.is_full or segment.size_bytes == 0:
        return placed, sequences
    most = segment.index_entries_left(config.segment_index_bytes)
    largest_offset = segment.base_offset + MAX_RELATIVE_OFFSET
    position, base_offset = segment.size_bytes, segments.log_end_offset
    for at, size_bytes in batches[:most] if most < len(batches) else batches:
        fields = _read(buffer, at)
        if not is_plain(fields, buffer, at, size_bytes, rules, now_ms, request_version):
            break
        end = position + size_bytes
        last_offset = base_offset + fields[6]
        max_timestamp = fields[8]
        if end > config.segment_bytes or max_timestamp > roll_timestamp or last_offset > largest_offset:
            break
        producer_id = fields[9]
        if producer_id >= 0:
            first, own = fields[11], sequences.get(producer_id)
            if own is None:
                entry = log.producer_state.get(producer_id)
                if entry is None or first != entry.sequence_after(fields[10]):
                    break
                own = sequences[producer_id] = (entry, [])
            elif fields[10] != own[0].epoch or first != own[1][-1].last_sequence + 1:
                break
            last = (first + fields[6]) & LAST_SEQUENCE
            own[1].append(ProducerBatch(first, last, base_offset, last_offset, max_timestamp))
        placed.append((position, size_bytes, base_offset, last_offset, max_timestamp))
        position, base_offset = end, last_offset + 1
    return placed, sequences


def _write(log: PartitionLog, buffers: Sequence[memoryview], placed: Sequence[PlacedBatch]) -> bool:
    """Writes batches to the end of the segment; whether that succeeded. If not, the buffers are as they came
    but for the leader epoch, which has no meaning in a batch of a client."""
    segments, segment = log.segments, log.active
    position = placed[0][0]
    size_bytes = placed[-1][0] + placed[-1][1] - position
    try:
        if segments.active_write(buffers, position) != size_bytes:
            write_fully(segment.log.file(), buffers, size_bytes, position, segment.log.path)
    except OSError:
        segments.cut_off_failed_write(whole=len(buffers) > 1)
        for buffer in buffers:
            patch_place(buffer, 0, 0, len(buffer), 0)
        return False
    return True
