"""How keys and values lie in the records of a coordinator's topic.

    key     record type int16, then the key's fields, always at version 0
    value   version int16, then the value's fields at that version; a null value is a tombstone

`__transaction_state` and `__share_group_state` are framed alike: give `transaction_log_record` or
`share_log_record` as `find`.
"""

from collections.abc import Callable
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812
from typing import Final, TypeVar

from protocol.codec.compiler import decoder, encode
from protocol.codec.message import Message
from protocol.codec.reading import Buffer
from protocol.errors import EncodeError, ProtocolError
from protocol.record_types import LogRecord, group_log_record

__all__ = ["decode_key", "decode_record", "decode_value", "encode_key", "encode_value", "read_record_type"]

M = TypeVar("M", bound=Message)

KEY_VERSION: Final = 0
_INT16: Final = Layout(">h")


def encode_key(key: Message) -> bytes:
    """A record's key. Equal keys have equal bytes: the cleaner compares those."""
    if key.declaration.kind != "coordinator-key":
        raise EncodeError(f"{type(key).__name__} is no key of a coordinator's topic")
    return _INT16.pack(key.declaration.key) + encode(key, KEY_VERSION)


def encode_value(value: Message, version: int) -> bytes:
    """Encodes the value of a record at one of its versions."""
    if value.declaration.kind != "coordinator-value":
        raise EncodeError(f"{type(value).__name__} is no value of a coordinator's topic")
    return _INT16.pack(version) + encode(value, version)


def read_record_type(key: Buffer) -> int:
    """The record type of a key, which may be one that we do not know."""
    return _read_int16(key, "key")


def decode_key(key: Buffer, find: Callable[[int], LogRecord] = group_log_record) -> Message:
    """A record's key; a ProtocolError for an unknown type and for any other bytes."""
    return _decode(find(read_record_type(key)).key, KEY_VERSION, key)


def decode_value(cls: type[M], value: Buffer) -> tuple[M, int]:
    """A record's value, whose class its key tells, and the version in which it was written."""
    version = _read_int16(value, "value")
    return _decode(cls, version, value), version


def decode_record(
    key: Buffer, value: Buffer | None, find: Callable[[int], LogRecord] = group_log_record
) -> tuple[Message, Message | None]:
    """Decodes the key and the value of a record. The value is None for a tombstone."""
    found = find(read_record_type(key))
    decoded = _decode(found.key, KEY_VERSION, key)
    return decoded, None if value is None else decode_value(found.value, value)[0]


def _read_int16(buffer: Buffer, what: str) -> int:
    try:
        return int(_INT16.unpack_from(buffer)[0])
    except StructError:
        raise ProtocolError(f"a coordinator's {what} of {len(buffer)} bytes is cut off") from None


def _decode(cls: type[M], version: int, buffer: Buffer) -> M:
    message, end = decoder(cls, version)(buffer, 2)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes are left after {cls.__name__} {version}")
    return message
