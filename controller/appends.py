"""Makes the batches that are appended from the records of a decision: one batch, or a metadata transaction if
they are too many for one.

A batch is committed whole or not at all, and it has bounds, a number of records and of bytes, because
replicas and their readers take whole batches. A decision beyond them (a broker that leaves ten thousand
partitions) becomes a metadata transaction (KIP-868)::

    [Begin, records …] [records …] [records …, End]

Nobody sees any of it before its end is committed, and if the leader dies half-way nothing of it counts,
because its successor aborts it. If the metadata version is below that of transactions, each batch stands for
itself, as in Kafka of that version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from config.limits import METADATA_RECORDS_PER_REQUEST
from controller.metadata.metadata_version import TRANSACTIONS_LEVEL
from protocol.codec.message import Message
from protocol.metadata_log.cluster import BeginTransactionRecord, ConfigRecord, EndTransactionRecord
from protocol.metadata_log.security import AccessControlEntryRecord
from protocol.metadata_log.topics import PartitionRecord

__all__ = ["appends"]

TRANSACTION_NAME: Final = "Large batch"
RECORD_BYTES: Final = 300
"""An upper bound of the size of any record, apart from the types whose size is computed."""


def appends(
    records: Sequence[Message],
    level: int,
    *,
    max_bytes: int,
    max_records: int = METADATA_RECORDS_PER_REQUEST,
) -> list[list[Message]]:
    """level: that of metadata.version. max_bytes: the largest size of a batch, by a generous estimate."""
    parts = list(_parts(records, max_records - 2, max_bytes))
    if len(parts) > 1 and level >= TRANSACTIONS_LEVEL:
        parts[0].insert(0, BeginTransactionRecord(name=TRANSACTION_NAME))
        parts[-1].append(EndTransactionRecord())
    return parts


def _parts(records: Sequence[Message], max_records: int, max_bytes: int) -> Iterator[list[Message]]:
    part: list[Message] = []
    part_bytes = 0
    for record in records:
        size_bytes = _estimate(record)
        if part and (len(part) >= max_records or part_bytes + size_bytes > max_bytes):
            yield part
            part, part_bytes = [], 0
        part.append(record)
        part_bytes += size_bytes
    if part:
        yield part


def _estimate(record: Message) -> int:
    if isinstance(record, ConfigRecord):
        value = record.value or ""
        return RECORD_BYTES + 3 * (len(record.resource_name) + len(record.name) + len(value))
    if isinstance(record, PartitionRecord):
        return RECORD_BYTES + 64 * len(record.replicas)
    if isinstance(record, AccessControlEntryRecord):
        return RECORD_BYTES + 3 * (len(record.resource_name) + len(record.principal) + len(record.host))
    return RECORD_BYTES
