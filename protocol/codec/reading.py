"""What generated decoders call off their straight path: long varints, long strings, tags that nobody knows.

Every function takes the buffer and a position behind what the caller has read already. A read past the buffer
raises IndexError, or leaves a position behind its end, which the decoder checks once at its own end.
"""

from struct import Struct as Layout
from typing import Final, NoReturn, TypeAlias

from protocol.errors import ProtocolError

__all__ = [
    "READ_SHORT_BYTES",
    "Buffer",
    "bad_null",
    "bad_tag",
    "bad_tag_size",
    "cut_off",
    "long_bytes",
    "long_string",
    "long_uvarint",
    "null_or_error",
    "skip_tags",
    "too_many",
    "uvarint",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

READ_SHORT_BYTES: Final = tuple(Layout(f"{size}s").unpack_from for size in range(128))
"""By size: reads that many bytes out of any buffer, quicker than a slice of a memoryview."""

MAX_LENGTH: Final = 0x7FFFFFFF


def uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and the position after it."""
    value = buffer[position]
    if value < 128:
        return value, position + 1
    return long_uvarint(buffer, position + 1, value)


def long_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, `first`, says that more follow."""
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
    if value > MAX_LENGTH + 1:
        raise ProtocolError(f"a length of {value} exceeds int32")
    return value, position


def long_bytes(buffer: Buffer, position: int, first: int, name: str) -> tuple[bytes, int]:
    """Compact bytes whose first length byte, `first`, says null (an error here) or more than 126."""
    if first == 0:
        bad_null(name)
    length, position = long_uvarint(buffer, position, first)
    end = position + length - 1
    return bytes(buffer[position:end]), end


def long_string(buffer: Buffer, position: int, first: int, name: str) -> tuple[str, int]:
    """As `long_bytes`, decoded."""
    raw, end = long_bytes(buffer, position, first, name)
    return raw.decode(), end


def skip_tags(buffer: Buffer, position: int, count: int, size: int) -> int:
    """Step over a tag section of unknown tags; `count` is its first byte, `size` the buffer's end."""
    if count > 127:
        count, position = long_uvarint(buffer, position, count)
    if count * 2 > size - position:
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


def null_or_error(length: int, name: str) -> None:
    """A negative length is null when it is -1, and nonsense otherwise."""
    if length != -1:
        raise ProtocolError(f"{name} has the length {length}")


def bad_null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} cannot be null")


def too_many(count: int, name: str) -> NoReturn:
    raise ProtocolError(f"{count} {name} cannot lie in the bytes that are left")


def cut_off(message: str, missing: int) -> NoReturn:
    raise ProtocolError(f"{message} is cut off: {missing} bytes are missing")


def bad_tag(tag: int, last: int) -> NoReturn:
    raise ProtocolError(f"tag {tag} after tag {last}: tags must ascend")


def bad_tag_size(tag: int, size: int, announced: int) -> NoReturn:
    raise ProtocolError(f"tagged field {tag} has {size} bytes, its header announced {announced}")
