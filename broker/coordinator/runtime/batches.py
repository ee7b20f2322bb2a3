"""Between a coordinator's records and the batches in its log.

Writing: one operation's records are one batch, uncompressed, all with the operation's time. A batch of a
transaction names the producer and has no sequence, since the coordinator writes it for the producer.

Reading: of a million records at start only keys and values matter, so they are picked out of the batch in one
loop, without an object for each. Numbers of one and two bytes are read in place, the rest by
`protocol.varint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.errors import ErrorCode
from protocol.records.builder import BatchBuilder
from protocol.records.control import read_marker
from protocol.records.errors import CorruptRecord, InvalidRecord, RecordsError
from protocol.records.header import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    is_intact,
    read_header,
)
from protocol.records.reader import plain_records
from protocol.varint import MalformedVarint, read_int, read_long

RECORD_OVERHEAD_BYTES: Final = 32
"""An upper bound of the bytes that the lengths, deltas and attributes of a record take."""

KeyValues = list[tuple[bytes, bytes | None]]


def coordinator_batch(
    records: Sequence[CoordinatorRecord],
    *,
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """One batch with base offset 0; the log gives it its place. With a producer id it belongs to that
    producer's transaction."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id != NO_PRODUCER_ID,
    )
    for key, value in records:
        builder.append(key, value, timestamp_ms)
    return bytes(builder.build())


def least_batch_bytes(records: Sequence[CoordinatorRecord]) -> int:
    """A lower bound of the size of a batch of these records: the size of their keys and values."""
    return sum(len(key) + (0 if value is None else len(value)) for key, value in records)


def split_records(records: Sequence[CoordinatorRecord], max_bytes: int) -> list[Sequence[CoordinatorRecord]]:
    """The records in order, in groups that each fit into a batch of `max_bytes`. A larger single record is a
    group of its own."""
    runs: list[Sequence[CoordinatorRecord]] = []
    start, size = 0, HEADER_BYTES
    for index, (key, value) in enumerate(records):
        needed = RECORD_OVERHEAD_BYTES + len(key) + (0 if value is None else len(value))
        if index > start and size + needed > max_bytes:
            runs.append(records[start:index])
            start, size = index, HEADER_BYTES
        size += needed
    if start < len(records):
        runs.append(records[start:])
    return runs


class LoadedBatch(msgspec.Struct, gc=False):
    """A batch in the form in which loading gets it.

    next_offset: the offset after it. marker: of a control batch that ends a transaction, whether it has
    committed. problem: the reason for which the records are missing; empty if there is none. is_in_doubt: the
    checksum is wrong, so the header may be, too.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    producer_id: int = -1
    is_transactional: bool = False
    marker: bool | None = None
    records: KeyValues = []
    problem: str = ""
    is_in_doubt: bool = False


def loaded_batches(data: bytes, from_offset: int) -> Iterator[LoadedBatch]:
    """The whole batches of `data`, the first of which contains `from_offset` or lies behind it.

    Raises CorruptRecord if a header is not valid, or its offsets do not lie behind those of the batch before.
    """
    position, offset = 0, from_offset
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        if header.last_offset_delta < 0 or header.base_offset < offset:
            raise CorruptRecord(
                f"a batch of the offsets {header.base_offset} to {header.next_offset - 1} stands where "
                f"offset {offset} should be"
            )
        if position + header.size_bytes > len(data):
            return
        yield _loaded(data, position, header)
        position += header.size_bytes
        offset = header.next_offset


def _loaded(data: bytes, position: int, header: BatchHeader) -> LoadedBatch:
    batch = LoadedBatch(
        header.base_offset,
        header.next_offset,
        header.size_bytes,
        header.producer_id,
        header.is_transactional,
    )
    if not is_intact(data, position, header):
        batch.is_in_doubt = True
        batch.problem = f"the checksum of the batch at offset {header.base_offset} is wrong"
        return batch
    try:
        section = bytes(plain_records(data, position, header))
        pairs = key_values(section, header.record_count)
        if header.is_control:
            marker = read_marker(*pairs[0]) if pairs else None
            if marker is not None:
                batch.marker = marker.committed
        else:
            batch.records = pairs
    except (RecordsError, ArithmeticError, LookupError) as error:
        name = error.code.name if isinstance(error, RecordsError) else ErrorCode.CORRUPT_MESSAGE.name
        batch.problem = f"{name} in the batch at offset {header.base_offset}: {error}"
    return batch


def key_values(section: bytes, count: int) -> KeyValues:
    """The key and the value of each record in a batch's decompressed records.

    Records without a key are left out, because a coordinator writes none. Raises InvalidRecord if the bytes
    are not `count` records.
    """
    pairs: KeyValues = []
    add = pairs.append
    position, size = 0, len(section)
    try:
        for _ in range(count):
            begun, length = position, section[position]
            if length < 0x80:
                length, position = (length >> 1) ^ -(length & 1), position + 1
            elif section[position + 1] < 0x80:
                length = length & 0x7F | section[position + 1] << 7
                length, position = (length >> 1) ^ -(length & 1), position + 2
            else:
                length, position = read_int(section, position)
            end = position + length
            if length < 1 or end > size:
                raise InvalidRecord(f"a record of {length} bytes at byte {begun} of {size}")
            # attributes, then the deltas, of which all but the first offset deltas are small
            position = position + 2 if section[position + 1] < 0x80 else read_long(section, position + 1)[1]
            position = position + 1 if section[position] < 0x80 else read_int(section, position)[1]
            key_length = section[position]
            if key_length < 0x80:
                key_length, position = (key_length >> 1) ^ -(key_length & 1), position + 1
            else:
                key_length, position = read_int(section, position)
            key = section[position : position + key_length] if key_length > 0 else b""
            position += len(key)
            value_length = section[position]
            if value_length < 0x80:
                value_length, position = (value_length >> 1) ^ -(value_length & 1), position + 1
            elif section[position + 1] < 0x80:
                value_length = value_length & 0x7F | section[position + 1] << 7
                value_length, position = (value_length >> 1) ^ -(value_length & 1), position + 2
            else:
                value_length, position = read_int(section, position)
            if position + value_length > end:
                raise InvalidRecord(f"a value of {value_length} bytes goes beyond its record")
            if key_length >= 0:
                add((key, None if value_length < 0 else section[position : position + value_length]))
            position = end
    except (IndexError, MalformedVarint) as error:
        raise InvalidRecord(f"the records end too early: {error}") from None
    if position != size:
        raise InvalidRecord(f"{size - position} bytes are left behind the last of {count} records")
    return pairs
