"""Message formats 0 and 1, which are known well enough to be refused by name.

    byte  size  field
       0     8  offset                    ┐ the same bytes as in format 2: whoever reads up to the magic
       8     4  message size              │ learns which of the three lies before him
      12     4  crc (CRC-32)              │ (format 2: partition leader epoch)
      16     1  magic: 0 or 1             ┘
      17     1  attributes: bits 0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4), bit 3 timestamp type (format 1)
      18     8  timestamp                   (format 1 only)
       …        int32 key length, key, int32 value length, value

The checksum is that of all bytes behind it. Apache Kafka stopped writing these formats with 3.0 and reading
produce requests in them with 4.0 (KIP-724, KIP-896). Segments of before stay as they are, until retention or
compaction removes them.
"""

import zlib
from struct import Struct
from typing import Final

from protocol.records.header import LOG_OVERHEAD_BYTES, MAGIC_POSITION, ReadBuffer

_SIZE: Final = Struct(">i")
_SIZE_AND_CRC: Final = Struct(">iI")
HEADER_UP_TO_MAGIC_BYTES: Final = MAGIC_POSITION + 1
SMALLEST_MESSAGE_BYTES: Final = 14
"""Overhead of a format 0 message after its size: the least that any format announces."""


def magic_of(buffer: ReadBuffer, position: int) -> int | None:
    """The message format at `position`; None if the buffer ends before that byte. Formats are signed
    bytes."""
    if position < 0 or len(buffer) - position < HEADER_UP_TO_MAGIC_BYTES:
        return None
    magic = memoryview(buffer)[position + MAGIC_POSITION]
    return magic - 256 if magic > 127 else magic


def is_legacy_set(buffer: ReadBuffer, position: int = 0) -> bool:
    """Whether a message set of format 0 or 1 starts here: its magic, and a size that such a message can
    have."""
    if magic_of(buffer, position) not in (0, 1):
        return False
    (size,) = _SIZE.unpack_from(buffer, position + 8)
    return int(size) >= SMALLEST_MESSAGE_BYTES


def is_intact_message(buffer: ReadBuffer, position: int = 0) -> bool:
    """Whether a whole message of format 0 or 1 starts here, with the right checksum."""
    if not is_legacy_set(buffer, position):
        return False
    size_bytes, crc = _SIZE_AND_CRC.unpack_from(buffer, position + 8)
    end = position + LOG_OVERHEAD_BYTES + size_bytes
    return end <= len(buffer) and zlib.crc32(memoryview(buffer)[position + MAGIC_POSITION : end]) == int(crc)


def size_of_entry(buffer: ReadBuffer, position: int) -> int | None:
    """Bytes that the entry at `position`, of any format, announces for itself; None if its size is cut
    off."""
    if position < 0 or len(buffer) - position < LOG_OVERHEAD_BYTES:
        return None
    (size,) = _SIZE.unpack_from(buffer, position + 8)
    return int(size) + LOG_OVERHEAD_BYTES
