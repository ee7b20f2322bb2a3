"""Variable-length integers as Kafka's records use them: seven bits a byte, the lowest group first, the high
bit saying "more follows".

    300 = 0b10_0101100          ->  1010_1100  0000_0010
          unsigned varint            (44 | 128)     (2)

Records store signed numbers, zigzagged first so that small negative ones stay short: 0, -1, 1, -2, 2 … become
0, 1, 2, 3, 4 …: `(value << 1) ^ (value >> 63)`, and back by `(raw >> 1) ^ -(raw & 1)`. A length of -1, which
means null, is therefore the single byte 1. An `int` takes at most five bytes, a `long` at most ten; a sixth
or eleventh, or a buffer that ends within the number, raises `MalformedVarint`.

The loops that read whole batches (`records.walk`, `records.reader`) unroll the one- and two-byte cases
themselves and come here for the rest.
"""

from typing import Final

MAX_INT_BYTES: Final = 5
MAX_LONG_BYTES: Final = 10


class MalformedVarint(ValueError):
    """The bytes at a position are not a varint of the expected width."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"varint at byte {position} {problem}")
        self.position = position


def read_unsigned(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Reads an unsigned 32-bit varint, and returns it with the position after it."""
    value, after = _read_groups(buffer, position, MAX_INT_BYTES)
    if value > 0xFFFFFFFF:
        raise MalformedVarint(position, "does not fit into 32 bits")
    return value, after


def read_int(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Reads a zigzag-encoded 32-bit varint, and returns it with the position after it."""
    if 0 <= position < len(buffer) - 1:  # one or two bytes: nearly all
        raw = buffer[position]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        second = buffer[position + 1]
        if second < 0x80:
            raw = raw & 0x7F | second << 7
            return (raw >> 1) ^ -(raw & 1), position + 2
    raw, after = read_unsigned(buffer, position)
    return (raw >> 1) ^ -(raw & 1), after


def read_long(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Reads a zigzag-encoded 64-bit varint, and returns it with the position after it."""
    if 0 <= position < len(buffer) - 1:  # one or two bytes: nearly all
        raw = buffer[position]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        second = buffer[position + 1]
        if second < 0x80:
            raw = raw & 0x7F | second << 7
            return (raw >> 1) ^ -(raw & 1), position + 2
    raw, after = _read_groups(buffer, position, MAX_LONG_BYTES)
    if raw > 0xFFFFFFFFFFFFFFFF:
        raise MalformedVarint(position, "does not fit into 64 bits")
    return (raw >> 1) ^ -(raw & 1), after


def append_unsigned(target: bytearray, value: int) -> None:
    """Appends a number that is not negative."""
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)


def append_signed(target: bytearray, value: int) -> None:
    """Write a number of up to 64 bits zigzagged; int and long look the same."""
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        target.append(raw)
    else:
        append_unsigned(target, raw)


def wrapped_long(value: int) -> int:
    """The sum or difference of two longs as Java computes it: of more than 64 bits the lowest 64 remain."""
    return ((value + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)


def size_of_unsigned(value: int) -> int:
    """The number of bytes that `append_unsigned` would append."""
    return (value.bit_length() + 6) // 7 if value else 1


def size_of_signed(value: int) -> int:
    """The number of bytes that `append_signed` would append."""
    return size_of_unsigned((value << 1) ^ (value >> 63))


def _read_groups(buffer: bytes | bytearray | memoryview, position: int, limit: int) -> tuple[int, int]:
    if position < 0:
        raise MalformedVarint(position, "lies before the buffer")
    value = shift = 0
    end = len(buffer)
    for index in range(position, position + limit):
        if index >= end:
            raise MalformedVarint(position, "is cut off by the end of the buffer")
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise MalformedVarint(position, f"is longer than {limit} bytes")
