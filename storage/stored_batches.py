"""The batches of a segment's file from end to end, which recovery, repair, the cleaner and the dump read.

Where one should be and none is, `refuse_legacy_format` tells records of the message formats 0 and 1 from
damage. Damage may be cut off or cut out; those are valid, only not read here, so nothing of them is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from config.ports import File
from protocol.records.errors import CorruptRecord
from protocol.records.header import HEADER_BYTES, BatchHeader, read_header
from protocol.records.legacy import (
    HEADER_UP_TO_MAGIC_BYTES,
    is_intact_message,
    is_legacy_set,
    magic_of,
    size_of_entry,
)
from storage.errors import LegacyFormat

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


def refuse_legacy_format(file: File, position: int, file_bytes: int) -> None:
    """Raises LegacyFormat if a whole message of format 0 or 1, with the right checksum, lies at `position`.

    The magic alone decides nothing: it is a byte that damage can show too. Raises OSError.
    """
    start = file.pread(HEADER_UP_TO_MAGIC_BYTES, position)
    size_bytes = size_of_entry(start, 0)
    if size_bytes is None or not is_legacy_set(start) or position + size_bytes > file_bytes:
        return
    if is_intact_message(file.pread(size_bytes, position)):
        raise LegacyFormat(file.path, position, magic_of(start, 0))
