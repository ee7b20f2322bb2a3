"""Record batches from records: coordinators, the controller's log, control markers, recompression and tests.

A batch is built as Kafka's own builder does it: the first record's timestamp is the base, offsets count from
0 unless the caller leaves gaps (the cleaner does), the records are compressed as one block, the checksum
comes last.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from protocol.errors import invariant
from protocol.records.compression import NONE, compress
from protocol.records.errors import BatchTooLarge
from protocol.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    seal,
)
from protocol.records.reader import RecordHeaders
from protocol.varint import append_signed, size_of_signed

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
_LARGEST_BATCH_BYTES: Final = 0x7FFFFFFF


class SimpleRecord(msgspec.Struct, gc=False):
    """A record that has no offset yet."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    """The timestamp in milliseconds, or -1 for none."""
    headers: RecordHeaders = ()


class BatchBuilder:
    """Collects records and seals them into one batch.

    `max_bytes` bounds the batch: `has_room_for` says whether a record still fits (the first always does, as
    in Kafka), `build` raises BatchTooLarge if the result is larger. Sizes are those before compression, so a
    compressed batch comes out smaller than estimated.
    """

    def __init__(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        codec: int = NONE,
        level: int | None = None,
        timestamp_type: int = CREATE_TIME,
        append_time_ms: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        delete_horizon_ms: int | None = None,
        max_bytes: int = _LARGEST_BATCH_BYTES,
    ) -> None:
        """`append_time_ms` is every record's timestamp if the type is LogAppendTime. `delete_horizon_ms`
        takes the place of the base timestamp (KIP-534)."""
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._codec = codec
        self._level = level
        self._append_time_ms = append_time_ms if timestamp_type == LOG_APPEND_TIME else None
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._max_bytes = max_bytes
        self._attributes = (
            codec
            | (LOG_APPEND_TIME_BIT if timestamp_type == LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._records = bytearray()
        self._count = 0
        self._last_offset_delta = -1

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def next_offset(self) -> int:
        return self._base_offset + self._last_offset_delta + 1

    @property
    def estimated_size_bytes(self) -> int:
        """The batch as it stands; exact without compression, an upper bound with most data otherwise."""
        return HEADER_BYTES + len(self._records)

    def has_room_for(self, key: bytes | None, value: bytes | None, headers: RecordHeaders = ()) -> bool:
        """Whether the batch stays within `max_bytes` with one more such record."""
        if not self._count:
            return True
        return self.estimated_size_bytes + largest_record_size(key, value, headers) <= self._max_bytes

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int = NO_TIMESTAMP,
        headers: RecordHeaders = (),
        offset_delta: int | None = None,
    ) -> int:
        """Add a record; returns its offset. `offset_delta` may leave a gap but never go back."""
        delta = self._last_offset_delta + 1 if offset_delta is None else offset_delta
        if delta <= self._last_offset_delta:
            invariant(False, "offsets of a batch ascend", delta=delta, last=self._last_offset_delta)
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        append_record(self._records, delta, timestamp - self._base_timestamp, key, value, headers)
        self._last_offset_delta = delta
        self._count += 1
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return self._base_offset + delta

    def build(self, *, last_offset_delta: int | None = None) -> bytearray:
        """The finished batch. `last_offset_delta` keeps the range of a batch that lost its last records, or
        all of them. The builder can go on collecting afterwards."""
        last_delta = self._last_offset_delta if last_offset_delta is None else last_offset_delta
        if last_delta < self._last_offset_delta or last_delta < 0:
            invariant(False, "a batch has a last offset", delta=last_delta, last=self._last_offset_delta)
        section = compress(self._codec, self._records, self._level) if self._codec else self._records
        size_bytes = HEADER_BYTES + len(section)
        if size_bytes > self._max_bytes:
            raise BatchTooLarge(
                f"The batch takes {size_bytes} bytes, which exceeds the maximum of {self._max_bytes}"
            )
        batch = bytearray(HEADER_BYTES)
        base_timestamp = NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp
        max_timestamp = self._max_timestamp if self._append_time_ms is None else self._append_time_ms
        HEADER.pack_into(
            batch, 0,
            self._base_offset, size_bytes - LOG_OVERHEAD_BYTES, self._leader_epoch, MAGIC, 0,
            self._attributes, last_delta, base_timestamp, max_timestamp, *self._producer, self._count,
        )  # fmt: skip
        batch += section
        seal(batch, 0, size_bytes)
        return batch


def build_batch(
    records: Iterable[SimpleRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: int = NONE,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    append_time_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    max_bytes: int = _LARGEST_BATCH_BYTES,
) -> bytearray:
    """One batch of these records (at least one), offsets counting up from `base_offset`."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        append_time_ms=append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        max_bytes=max_bytes,
    )
    for record in records:
        builder.append(record.key, record.value, record.timestamp, record.headers)
    return builder.build()


def build_empty_batch(header: BatchHeader) -> bytearray:
    """The batch without records that the cleaner leaves: a header, for offsets and producer state."""
    batch = bytearray(HEADER_BYTES)
    base_timestamp = header.base_timestamp if header.has_delete_horizon else NO_TIMESTAMP
    HEADER.pack_into(
        batch, 0,
        header.base_offset, HEADER_BYTES - LOG_OVERHEAD_BYTES, header.partition_leader_epoch, MAGIC, 0,
        header.attributes & ~CODEC_MASK, header.last_offset_delta, base_timestamp, header.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, 0,
    )  # fmt: skip
    seal(batch, 0, HEADER_BYTES)
    return batch


def largest_record_size(key: bytes | None, value: bytes | None, headers: RecordHeaders = ()) -> int:
    """An upper bound of what a record takes in a batch, a few bytes above the truth."""
    size = 5 + 1 + 10 + 5 + _sized(key) + _sized(value) + size_of_signed(len(headers))
    for name, header_value in headers:
        size += _sized(name.encode("utf-8", "surrogateescape")) + _sized(header_value)
    return size


def _sized(data: bytes | None) -> int:
    return 1 if data is None else size_of_signed(len(data)) + len(data)


def append_record(
    target: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: RecordHeaders,
) -> None:
    """Appends the encoding of one record of a batch to `target`, its length first."""
    body = bytearray(1)  # attributes
    append_signed(body, timestamp_delta)
    append_signed(body, offset_delta)
    _append_bytes(body, key)
    _append_bytes(body, value)
    append_signed(body, len(headers))
    for name, header_value in headers:
        _append_bytes(body, name.encode("utf-8", "surrogateescape"))
        _append_bytes(body, header_value)
    append_signed(target, len(body))
    target += body


def _append_bytes(target: bytearray, data: bytes | None) -> None:
    if data is None:
        target.append(1)
    else:
        append_signed(target, len(data))
        target += data
