"""How a metadata record lies in the value of a record of `__cluster_metadata`. The record's key is null.

    frame version   uvarint, 1
    record type     uvarint, see `MetadataRecordType`
    version         uvarint, of the record's fields
    fields          to the end of the value, in the flexible encoding

The records of `__remote_log_metadata` are framed in the same way, with record types of their own: give
`remote_log_record` as `find`.
"""

from collections.abc import Callable
from typing import Final

from protocol.codec.compiler import decoder, encode
from protocol.codec.message import Message
from protocol.codec.reading import Buffer, uvarint
from protocol.codec.writing import uvarint_bytes
from protocol.errors import EncodeError, ProtocolError
from protocol.record_types import metadata_record

__all__ = ["decode_metadata_record", "decode_versioned_record", "encode_metadata_record"]

FRAME_VERSION: Final = 1


def encode_metadata_record(record: Message, version: int) -> bytes:
    """The value of one record, at one of the versions that it has."""
    record_type = record.declaration.key
    if record.declaration.kind != "metadata" or record_type is None:
        raise EncodeError(f"{type(record).__name__} is no record of the metadata log")
    head = (uvarint_bytes(FRAME_VERSION), uvarint_bytes(record_type), uvarint_bytes(version))
    return b"".join((*head, encode(record, version)))


def decode_metadata_record(value: Buffer, find: Callable[[int], type[Message]] = metadata_record) -> Message:
    """The record that fills the value; a ProtocolError for other bytes and for a type that we do not know."""
    return decode_versioned_record(value, find)[0]


def decode_versioned_record(
    value: Buffer, find: Callable[[int], type[Message]] = metadata_record
) -> tuple[Message, int]:
    """Decodes as `decode_metadata_record` does, and also returns the version in which the record was
    written."""
    try:
        frame_version, record_type, version, position = value[0], value[1], value[2], 3
        if (
            frame_version | record_type | version
        ) > 0x7F:  # a varint of more than one byte; so far all have one
            frame_version, position = uvarint(value, 0)
            record_type, position = uvarint(value, position)
            version, position = uvarint(value, position)
    except IndexError:
        raise ProtocolError(f"a metadata record of {len(value)} bytes is cut off in its frame") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"a metadata record of frame version {frame_version}, we read {FRAME_VERSION}")
    cls = find(record_type)
    record, end = decoder(cls, version)(value, position)
    if end != len(value):
        raise ProtocolError(f"{len(value) - end} bytes are left after {cls.__name__} {version}")
    return record, version
