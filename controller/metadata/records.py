"""A batch of metadata records, encoded and decoded.

The version in which a record is written follows from `metadata.version` (see `metadata_version`). Readers
accept every version of a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from config.limits import METADATA_RECORDS_PER_STEP
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.metadata_version import LATEST_METADATA_VERSION, record_version
from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.metadata_log.frame import decode_metadata_record, encode_metadata_record
from protocol.record_types import metadata_record
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import ReadBuffer, headers
from protocol.records.reader import records as read_records

__all__ = [
    "build_metadata_batch",
    "metadata_batches",
    "metadata_batches_in_steps",
    "read_metadata_batches",
    "record_values",
]

_record_class: Final = cache(metadata_record)
"""The class of a record type. It is cached, because a log has thousands of records of some twenty types."""


def build_metadata_batch(
    records: Iterable[Message],
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    metadata_version: int = LATEST_METADATA_VERSION,
) -> bytearray:
    """One uncompressed batch of records, with the raft epoch as its leader epoch."""
    values = record_values(records, metadata_version)
    return build_batch(
        (SimpleRecord(value=value, timestamp=timestamp_ms) for value in values),
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def record_values(records: Iterable[Message], metadata_version: int = LATEST_METADATA_VERSION) -> list[bytes]:
    """The records encoded as the values of a batch, in the versions that belong to the metadata version."""
    return [encode_metadata_record(record, record_version(record, metadata_version)) for record in records]


def read_metadata_batches(buffer: ReadBuffer) -> list[MetadataBatch]:
    """All whole batches in the buffer, decoded. An incomplete last one is left out. Control batches are
    empty.

    Raises ProtocolError for records that cannot be decoded, and RecordsError for broken batches.
    """
    return list(metadata_batches(buffer))


def metadata_batches(buffer: ReadBuffer) -> Iterator[MetadataBatch]:
    """Does as `read_metadata_batches`, and decodes each batch when it is asked for: a record takes some 20
    µs."""
    return (batch for batch in metadata_batches_in_steps(buffer) if batch is not None)


def metadata_batches_in_steps(buffer: ReadBuffer) -> Iterator[MetadataBatch | None]:
    """Does as `metadata_batches`, but yields None now and then, so that the loop can serve others: a batch
    may hold ten thousand records."""
    for position, header in headers(buffer):
        decoded: list[Message] = []
        if not header.is_control:
            for record in read_records(buffer, position, check_crc=True):
                try:
                    decoded.append(decode_metadata_record(record.value or b"", _record_class))
                except ProtocolError as fault:
                    offset = header.base_offset + len(decoded)
                    raise ProtocolError(f"the record at offset {offset}: {fault}") from fault
                if len(decoded) % METADATA_RECORDS_PER_STEP == 0:
                    yield None
        yield MetadataBatch(
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            header.max_timestamp,
            decoded,
        )
