"""The batches of a segment's file from end to end: for recovery, repair, the cleaner, the dump."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from config.ports import File
from protocol.records.errors import CorruptRecord
from protocol.records.header import HEADER_BYTES, BatchHeader, read_header

READ_BYTES: Final = 1 << 20

Note = Callable[[int], None]
"""Told of so many bytes read; may sleep."""


def nothing(_size_bytes: int) -> None:
    """The `Note` of a caller that does not count what is read."""


def stored_batches(
    file: File, size_bytes: int, note: Note = nothing, begin: int = 0
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch that is all there, up to the first place that holds none.

    A mebibyte is read at a time; a batch's bytes stay valid as long as they are held. Checksums are not
    looked at (`is_intact`). Raises OSError.
    """
    start = position = begin
    data = memoryview(b"")
    while position + HEADER_BYTES <= size_bytes:
        if position + HEADER_BYTES > start + len(data):
            data, start = memoryview(file.pread(READ_BYTES, position)), position
            note(len(data))
        try:
            header = read_header(data, position - start)
        except CorruptRecord:
            return
        end = position + header.size_bytes
        if end > size_bytes:
            return
        if end > start + len(data):
            data, start = memoryview(file.pread(max(READ_BYTES, header.size_bytes), position)), position
            note(len(data))
            if len(data) < header.size_bytes:
                return
        yield position, header, data[position - start : end - start]
        position = end
