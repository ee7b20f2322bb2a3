"""Functions that generated encoders call for values that are rare: long strings, tags, large arrays."""

from struct import Struct as Layout
from typing import Any, Final

from protocol.codec.reading import MAX_STRING_BYTES
from protocol.errors import EncodeError

__all__ = [
    "SMALL",
    "cannot_carry",
    "error_text",
    "long_text_length",
    "pack_numbers",
    "records_size",
    "tag_section",
    "uuid",
    "uvarint_bytes",
]

SMALL: Final = tuple(bytes((value,)) for value in range(128))
"""The encodings of the varints from 0 to 127, which take one byte."""

_CUT: Final = "…".encode()


def uvarint_bytes(value: int) -> bytes:
    """Encodes an unsigned varint: seven bits in each byte, the lowest first."""
    if 0 <= value <= 127:
        return SMALL[value]
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def long_text_length(length: int) -> bytes:
    """The compact length, one more than its bytes, of a text of more than 126 bytes."""
    if length > MAX_STRING_BYTES + 1:
        raise EncodeError(f"a text of {length - 1} bytes, no more than {MAX_STRING_BYTES} can travel")
    return uvarint_bytes(length)


def error_text(text: str) -> bytes:
    """An explanation of an error, in as many bytes as can travel.

    It may quote what a client sent, and that may be as long as a string can be. What does not fit is cut
    off: the error itself is in the code beside it.
    """
    raw = text.encode()
    if len(raw) <= MAX_STRING_BYTES:
        return raw
    whole = raw[: MAX_STRING_BYTES - len(_CUT)].decode("utf-8", "ignore").encode()
    return whole + _CUT


def pack_numbers(code: str, values: list[Any]) -> bytes:
    """Encodes the numbers of an array, without their count."""
    return Layout(f">{len(values)}{code}").pack(*values)


def tag_section(fields: list[tuple[int, bytes]]) -> bytes:
    """Encodes the tagged fields of a struct, which may be given in any order."""
    parts = [uvarint_bytes(len(fields))]
    for tag, payload in sorted(fields):
        size = len(payload)
        parts += (
            SMALL[tag] if tag < len(SMALL) else uvarint_bytes(tag),
            SMALL[size] if size < len(SMALL) else uvarint_bytes(size),
            payload,
        )
    return b"".join(parts)


def records_size(records: Any) -> int:
    """The number of bytes of a records field that is not null."""
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    size_bytes: int | None = getattr(records, "size_bytes", None)  # isinstance with a Protocol takes a µs
    if size_bytes is None:
        raise EncodeError(f"records of an unknown size cannot be encoded: {records!r}")
    return size_bytes


def uuid(value: bytes) -> bytes:
    """Returns the UUID after a check of its length, because `struct` would pad or cut it silently."""
    if len(value) != 16:
        raise EncodeError(f"a UUID has 16 bytes, this one has {len(value)}: {value!r}")
    return value


def cannot_carry(message: str, version: int, field: str, value: object) -> None:
    raise EncodeError(f"{message} {version} has no field {field}, its value {value!r} would be lost")
