"""Functions that generated decoders call in rare cases: long varints, long strings, unknown tags.

A length below zero is null, whatever its number, and a string has at most 32,767 bytes in every encoding, as
in Apache Kafka's generated classes.

Every function takes the buffer and a position behind what the caller has read already. A read past the buffer
raises IndexError, or leaves a position behind its end, which the decoder checks once at its own end.
"""

import re
from struct import Struct as Layout
from typing import Final, NoReturn, TypeAlias

from protocol.errors import ProtocolError

__all__ = [
    "MAX_STRING_BYTES",
    "MOST_TAGS",
    "READ_SHORT_BYTES",
    "Buffer",
    "bad_null",
    "bad_tag",
    "bad_tag_size",
    "cut_off",
    "lenient_text",
    "long_bytes",
    "long_string",
    "long_uvarint",
    "nullable_long_bytes",
    "nullable_long_string",
    "skip_tags",
    "text",
    "too_many",
    "uvarint",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

READ_SHORT_BYTES: Final = tuple(Layout(f"{size}s").unpack_from for size in range(128))
"""By size, a function that reads that many bytes out of any buffer, quicker than a slice of a memoryview."""

MAX_STRING_BYTES: Final = 0x7FFF
"""The largest size of a string as UTF-8. It holds for the compact form too."""

_INT32_SIGN: Final = 0x80000000
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()

MOST_TAGS: Final = 1000
"""The most tagged fields of one struct. No message of Kafka has ten; a frame full of tags would take a
second."""


def uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Reads an unsigned varint, a tag or the size of a tagged field, and returns it with the position after
    it."""
    value = buffer[position]
    if value < 128:
        return value, position + 1
    value, position = long_uvarint(buffer, position + 1, value)
    if value < 0:
        raise ProtocolError(f"a tag or its size is {value}")
    return value, position


def long_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Reads the rest of a varint whose first byte, `first`, says that more follow. It is an int32, so it may
    be below 0.

    Five bytes carry 35 bits; as in Apache Kafka the upper three are dropped.
    """
    value, shift = first & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than five bytes")
    value &= 0xFFFFFFFF
    if value == _INT32_SIGN:
        raise ProtocolError("a length exceeds int32")
    return (value - 2 * _INT32_SIGN if value > _INT32_SIGN else value), position


def nullable_long_bytes(buffer: Buffer, position: int, first: int, name: str) -> tuple[bytes | None, int]:
    """Reads compact bytes whose first length byte, `first`, says more than 126, or a negative number, which
    is null."""
    length, position = long_uvarint(buffer, position, first)
    if length < 0:
        return None, position
    end = position + length - 1
    return bytes(buffer[position:end]), end


def long_bytes(buffer: Buffer, position: int, first: int, name: str) -> tuple[bytes, int]:
    """Does as `nullable_long_bytes`, where null is an error; also for a `first` of 0, which is null."""
    raw, end = nullable_long_bytes(buffer, position, first, name) if first else (None, position)
    return (bad_null(name) if raw is None else raw), end


def nullable_long_string(
    buffer: Buffer, position: int, first: int, name: str, lenient: bool = False
) -> tuple[str | None, int]:
    """Does as `nullable_long_bytes`, and decodes the string. One that is too long is not looked at."""
    length, position = long_uvarint(buffer, position, first)
    if length < 0:
        return None, position
    end = position + length - 1
    if length - 1 > MAX_STRING_BYTES:
        too_long(name, length - 1)
    raw = bytes(buffer[position:end])
    return (text(raw, name) if lenient else raw.decode()), end


def long_string(
    buffer: Buffer, position: int, first: int, name: str, lenient: bool = False
) -> tuple[str, int]:
    """Does as `nullable_long_string`, where null is an error; also for a `first` of 0, which is null."""
    found, end = nullable_long_string(buffer, position, first, name, lenient) if first else (None, position)
    return (bad_null(name) if found is None else found), end


def text(raw: bytes, name: str) -> str:
    """Decodes a string that may not be valid UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return lenient_text(raw, name)


def lenient_text(raw: bytes, name: str) -> str:
    """Text from bytes that are no UTF-8, as Java reads them: U+FFFD stands for each malformed sequence.

    Java and Python see the same sequences but for one: a surrogate, whole or cut off, is a single one to
    Java, and two or three to Python. A replacement takes three bytes, so the text may become longer than its
    bytes were. Where no message could carry it any longer it is refused: Apache Kafka fails at whatever
    repeats such a string, and everything that was decoded here can be encoded again.
    """
    decoded = _SURROGATE.sub(_REPLACEMENT, raw).decode("utf-8", "replace")
    size = len(decoded.encode())
    if size > MAX_STRING_BYTES:
        too_long(name, size)
    return decoded


def skip_tags(buffer: Buffer, position: int, count: int, size: int) -> int:
    """Skips a section of unknown tags; `count` is its first byte, `size` the end of the buffer."""
    if count > 127:
        count, position = long_uvarint(buffer, position, count)
    if count * 2 > size - position or count > MOST_TAGS:
        too_many(count, "tagged fields")
    last = -1
    for _ in range(count):
        tag, position = uvarint(buffer, position)
        length, position = uvarint(buffer, position)
        if tag <= last:
            bad_tag(tag, last)
        last = tag
        position += length
    return position


def too_long(name: str, size: int) -> NoReturn:
    raise ProtocolError(f"{name} has {size} bytes of text, allowed are {MAX_STRING_BYTES}")


def bad_null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} cannot be null")


def too_many(count: int, name: str) -> NoReturn:
    raise ProtocolError(f"{count} {name} cannot lie in the bytes that are left, or are more than anybody has")


def cut_off(message: str, missing: int) -> NoReturn:
    raise ProtocolError(f"{message} is cut off: {missing} bytes are missing")


def bad_tag(tag: int, last: int) -> NoReturn:
    raise ProtocolError(f"tag {tag} after tag {last}: tags must ascend")


def bad_tag_size(tag: int, size: int, announced: int) -> NoReturn:
    raise ProtocolError(f"tagged field {tag} has {size} bytes, its header announced {announced}")
