"""What lies in a node's log, as somebody outside reads it: the headers of its batches, each once.

A log only grows between two looks, so a look reads what was added. Where something was cut off, or files
were merged or have gone, all of it is read again. Nothing of the node is used for it but the numbers that say
which files the log has and how far they count; the files are those of the simulated disk.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from protocol.records.control import TransactionMarker, read_marker
from protocol.records.header import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from protocol.records.reader import batch_records
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog

__all__ = ["SeenBatch", "SeenLog", "first_above"]

_MARKER_BITS: Final = CONTROL_BIT | TRANSACTIONAL_BIT


class SeenBatch(NamedTuple):
    """A batch by its header. The checksum stands for the records in it.

    marker: what it says of a transaction, if it is a control batch that does; the cleaner leaves the last
    batch of a producer without its record.
    """

    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    attributes: int
    marker: TransactionMarker | None = None

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.last_offset} of epoch {self.epoch} (crc {self.crc:08x})"

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0


class SeenLog:
    """batches, lasts: all that are known, and their last offsets. cut_offset: where the last look found that
    something had been cut off since the one before, else None. readings: how often all was read.
    is_unreadable: the last look did not find the files as long as the log says.
    """

    def __init__(self, log: PartitionLog, files: MemoryFiles) -> None:
        self.batches: list[SeenBatch] = []
        self.lasts: list[int] = []
        self.cut_offset: int | None = None
        self.readings = 0
        self.is_unreadable = False
        self._log = log
        self._files = files
        self._segment_base = -1
        """Of the segment in which reading goes on, at `_position`."""
        self._position = 0
        self._truncations = log.truncations
        self._merged_before = 0
        """The highest `merged_end` so far; a truncation may lower it."""

    @property
    def end_offset(self) -> int:
        """Up to which all was read."""
        return self.lasts[-1] + 1 if self.lasts else self._log.segments[0].base_offset

    @property
    def is_from_the_beginning(self) -> bool:
        """Nothing of it has been deleted or merged before it was read."""
        first = self.batches[0].base_offset if self.batches else self.end_offset
        return first == 0 and self.merged_end == 0

    @property
    def merged_end(self) -> int:
        """Below it the cleaner may have been at work: batches there may have other bytes than they once had,
        and some may be gone. It never touches the active segment."""
        log = self._log
        return log.segments.active.base_offset if log.config.compact else 0

    def look(self) -> int:
        """Reads what is new. The number of batches that are as they were; the others are to be judged."""
        segments = self._log.segments
        self.cut_offset = None
        self._merged_before = max(self._merged_before, self.merged_end)
        if self.readings == 0 or self._truncations != segments.truncations:
            return self._read_again()
        number = segments.number_of(self._segment_base)
        if segments[number].base_offset != self._segment_base:
            return self._read_again()
        known = len(self.batches)
        self._read_on(number)
        return known

    def _read_again(self) -> int:
        segments = self._log.segments
        before = self.batches
        was_cut = self.readings > 0 and self._truncations != segments.truncations
        self.readings += 1
        self._truncations = segments.truncations
        self.batches, self.lasts, self._position = [], [], 0
        self._segment_base = segments[0].base_offset
        self._read_on(0)
        if not was_cut:
            return 0
        there = dict.fromkeys(self.batches)
        for batch in reversed(before):
            is_merged = batch.base_offset < self._merged_before and batch.last_offset < self.end_offset
            if batch in there or is_merged:
                break
            self.cut_offset = batch.base_offset
        return 0

    def _read_on(self, number: int) -> None:
        segments = self._log.segments
        end_offset = segments.log_end_offset
        self.is_unreadable = False
        while True:
            segment = segments[number]
            content = self._files.content(segment.log.path)
            if len(content or b"") < segment.size_bytes:
                self.is_unreadable = True
            if content is not None:
                self._read_segment(content, min(segment.size_bytes, len(content)), end_offset)
            if number + 1 == len(segments):
                return
            number += 1
            self._segment_base, self._position = segments[number].base_offset, 0

    def _read_segment(self, content: bytearray, size_bytes: int, end_offset: int) -> None:
        position, batches, lasts = self._position, self.batches, self.lasts
        while position + HEADER_BYTES <= size_bytes:
            (
                base, length, epoch, magic, crc, attributes, delta, _, _,
                producer_id, producer_epoch, sequence, _,
            ) = HEADER.unpack_from(content, position)  # fmt: skip
            if magic != MAGIC or base + delta >= end_offset:
                break
            marker = None
            if attributes & _MARKER_BITS == _MARKER_BITS:
                data = content[position : position + length + LOG_OVERHEAD_BYTES]
                record = next(iter(batch_records(data)), None)
                marker = None if record is None else read_marker(record.key, record.value)
            batches.append(
                SeenBatch(
                    base, base + delta, epoch, crc, producer_id, producer_epoch, sequence, attributes, marker
                )
            )
            lasts.append(base + delta)
            position += length + LOG_OVERHEAD_BYTES
        self._position = position


def first_above(lasts: list[int], offset: int) -> int:
    """The number of the first batch that ends at or above an offset."""
    return bisect_left(lasts, offset)
