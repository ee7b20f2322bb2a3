"""Looks for the next whole batch behind damage.

    │ batch │ batch │ bat…                     nothing valid behind it: the torn end of an append
    │ batch │ batch │ ░░░░░ │ batch │ batch │  valid batches behind it: the disk has damaged what was written
                            ▲
                            found by its shape: magic 2, an offset that may come next, a length that
                            fits into the file, and the right checksum

A search for the next batch looks at one byte in 256 or so of arbitrary data, and computes a checksum only
where a whole header could stand: that happens by chance once in four billion bytes.
"""

from __future__ import annotations

import re
from typing import Final

from config.ports import File
from protocol.records.errors import CorruptRecord
from protocol.records.header import HEADER_BYTES, MAGIC_POSITION, BatchHeader, is_intact, read_header
from storage.stored_batches import READ_BYTES, Note, nothing

_LONGEST_OFFSET_RANGE: Final = 0x7FFFFFFF
_MAGIC_AND_ATTRIBUTES: Final = re.compile(rb"\x02.{4}\x00[\x00-\x7f]", re.DOTALL)
_TAIL_BYTES: Final = 6
"""The part of the pattern that lies behind its first byte, in bytes."""


def next_whole_batch(
    file: File, position: int, file_bytes: int, least_offset: int, note: Note = nothing
) -> tuple[int, BatchHeader] | None:
    """The first whole batch at or behind `position` whose base offset is `least_offset` or not far above."""
    start = position
    while start + HEADER_BYTES <= file_bytes:
        data = file.pread(READ_BYTES, start)
        note(len(data))
        if len(data) < HEADER_BYTES:
            return None
        at = MAGIC_POSITION
        while (found := _MAGIC_AND_ATTRIBUTES.search(data, at)) is not None:
            at = found.start() + 1
            candidate = start + found.start() - MAGIC_POSITION
            header = _whole_batch_at(file, candidate, file_bytes, least_offset)
            if header is not None:
                return candidate, header
        if start + len(data) >= file_bytes:
            return None
        start += len(data) - MAGIC_POSITION - _TAIL_BYTES
    return None


def _whole_batch_at(file: File, position: int, file_bytes: int, least_offset: int) -> BatchHeader | None:
    try:
        header = read_header(file.pread(HEADER_BYTES, position))
    except CorruptRecord:
        return None
    if (
        not least_offset <= header.base_offset <= least_offset + _LONGEST_OFFSET_RANGE
        or header.last_offset_delta < 0
        or header.record_count < 0
        or position + header.size_bytes > file_bytes
    ):
        return None
    return header if is_intact(file.pread(header.size_bytes, position), 0, header) else None
