"""The batches of a segment's file from end to end, which recovery, repair, the cleaner and the dump read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from config.ports import File
from protocol.records.errors import CorruptRecord
from protocol.records.header import HEADER_BYTES, BatchHeader, read_header

READ_BYTES: Final = 1 << 20

Note = Callable[[int], None]
"""Called with the number of bytes that were read. May sleep."""


def nothing(_size_bytes: int) -> None:
    """The `Note` of a caller that does not count the bytes."""


def stored_batches(
    file: File, size_bytes: int, note: Note = nothing, begin: int = 0
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each complete batch, up to the first place without one.

    A mebibyte is read at a time; the bytes of a batch stay valid as long as they are held. Checksums are not
    verified (`is_intact`). Raises OSError.
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
