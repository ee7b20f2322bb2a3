"""The batches of a segment's file from end to end, for those who read all of it: the cleaner, the dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from config.ports import File
from protocol.records.errors import CorruptRecord
from protocol.records.header import HEADER_BYTES, BatchHeader, read_header

_READ_BYTES: Final = 1 << 20


def stored_batches(file: File, size_bytes: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each whole batch, up to the first place that holds none.

    A mebibyte is read at a time; a batch's bytes stay valid as long as they are held. Checksums are not
    looked at. Raises OSError.
    """
    start = position = 0
    data = memoryview(b"")
    while position + HEADER_BYTES <= size_bytes:
        if position + HEADER_BYTES > start + len(data):
            data, start = memoryview(file.pread(_READ_BYTES, position)), position
        try:
            header = read_header(data, position - start)
        except CorruptRecord:
            return
        end = position + header.size_bytes
        if end > size_bytes:
            return
        if end > start + len(data):
            data, start = memoryview(file.pread(max(_READ_BYTES, header.size_bytes), position)), position
            if len(data) < header.size_bytes:
                return
        yield position, header, data[position - start : end - start]
        position = end
