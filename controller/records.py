"""Metadata records as they lie in the log: which version of each we write, and a batch of them.

The version follows from `metadata.version` (we write for 30, Kafka 4.3, alone); as in Kafka, a change of a
registration takes the least version that can carry it. Readers take any version that the record has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from controller.image.replayer import MetadataBatch
from protocol.codec.message import Message
from protocol.metadata_log.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from protocol.metadata_log.frame import decode_metadata_record, encode_metadata_record
from protocol.metadata_log.topics import PartitionChangeRecord, PartitionRecord
from protocol.record_types import metadata_record
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import ReadBuffer, headers
from protocol.records.reader import records as read_records

__all__ = [
    "build_metadata_batch",
    "read_metadata_batches",
    "record_version",
]

_VERSIONS: Final[Mapping[type[Message], int]] = MappingProxyType(
    {RegisterBrokerRecord: 4, PartitionRecord: 2, PartitionChangeRecord: 2}
)
"""For metadata.version 30; every other record has version 0 alone, except the one below."""


_record_class: Final = cache(metadata_record)
"""A log has thousands of records of some twenty types."""


def record_version(record: Message) -> int:
    """The version in which we write this record."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return _VERSIONS.get(type(record), 0)


def build_metadata_batch(
    records: Iterable[Message], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytearray:
    """One uncompressed batch, the raft epoch as its leader epoch."""
    return build_batch(
        (
            SimpleRecord(value=encode_metadata_record(record, record_version(record)), timestamp=timestamp_ms)
            for record in records
        ),
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def read_metadata_batches(buffer: ReadBuffer) -> list[MetadataBatch]:
    """All whole batches in the buffer, decoded; a cut-off last one is left out. Control batches are empty.

    Raises ProtocolError for records that are none, RecordsError for broken batches.
    """
    batches = []
    for position, header in headers(buffer):
        decoded: Sequence[Message] = ()
        if not header.is_control:
            decoded = [
                decode_metadata_record(record.value or b"", _record_class)
                for record in read_records(buffer, position, check_crc=True)
            ]
        batches.append(
            MetadataBatch(
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.max_timestamp,
                decoded,
            )
        )
    return batches
