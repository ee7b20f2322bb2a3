"""What is kept of one batch without the records that later ones replace, old tombstones and aborted
transactions.

    all records are kept        the batch as it lies in the log
    some are kept               a batch with the same offsets, sequences and producer, and fewer records
    none, but it is the last    an empty batch: a header, so that the producer is still known after a restart
      batch of its producer
    none                        nothing

A batch that holds a tombstone (or a marker of an emptied transaction) for the first time gets its delete
horizon, now + delete.retention.ms, in the place of its base timestamp. Until then consumers that are behind
can still read that the key was deleted. KIP-534.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from config.limits import DECOMPRESSED_BATCH_BYTES
from protocol.records.builder import build_empty_batch
from protocol.records.compression import NONE, compress
from protocol.records.header import (
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    seal,
)
from protocol.records.reader import plain_records
from protocol.varint import append_signed, wrapped_long
from storage.append import stored_marker_of
from storage.cleaner.aborted import CleanedTransactions
from storage.cleaner.keyed import KeyedRecord, keyed_records
from storage.cleaner.offset_map import OffsetMap

NO_DATA_OFFSET = -1


class LastBatch(msgspec.Struct, frozen=True):
    """What must be kept of a producer that may write on."""

    last_data_offset: int
    """The offset of its last data record, or -1 if only a marker of its epoch is known."""
    epoch: int


class FilterCounts(msgspec.Struct):
    """The records and bytes that a pass has read and kept."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class BatchFilter:
    """The filter of one pass over one partition. It is shown the batches in the order of the log."""

    def __init__(
        self,
        last_offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_batches: Mapping[int, LastBatch],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._last_offsets = last_offsets
        self._transactions = transactions
        self._last_batches = last_batches
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.counts = FilterCounts()
        self.end_offset = -1
        """The end of the part that is cleaned, once it is known. The last batch before it is kept, if only
        its header: otherwise a consumer could not come to the end of a log that has nothing behind it."""

    def remains(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """The batch that takes the place of this one: `batch` itself if nothing of it is removed, or None if
        all is.

        Raises RecordsError for a batch whose records cannot be read.
        """
        counts = self.counts
        counts.bytes_read += len(batch)
        counts.records_read += header.record_count
        remains = self._remains(header, batch)
        if remains is not None:
            counts.bytes_written += len(remains)
        return remains

    def _remains(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        if header.is_control:
            return self._remains_of_marker(header, batch)
        if self._transactions.data(header):
            return self._empty(header)
        if header.base_offset > self._last_offsets.latest_offset:
            self.counts.records_kept += header.record_count
            return batch
        data = bytes(plain_records(batch, 0, header, DECOMPRESSED_BATCH_BYTES))
        records = keyed_records(data, header.record_count)
        kept = self._kept(header, records)
        self.counts.records_kept += len(kept)
        if not kept:
            return self._empty(header)
        needs_horizon = not header.has_delete_horizon and not all(has_value for *_, has_value in kept)
        if len(kept) == len(records) and not needs_horizon:
            return batch
        return _rebuilt(header, data, kept, self._horizon_ms if needs_horizon else None)

    def _remains_of_marker(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        can_go = self._transactions.marker(header, stored_marker_of(batch, header))
        if can_go and header.has_delete_horizon and header.base_timestamp <= self._now_ms:
            return self._empty(header)
        if header.record_count == 0:
            return self._empty(header)
        self.counts.records_kept += header.record_count
        if not can_go or header.has_delete_horizon:
            return batch
        data = bytes(plain_records(batch, 0, header, DECOMPRESSED_BATCH_BYTES))
        return _rebuilt(header, data, keyed_records(data, header.record_count), self._horizon_ms)

    def _kept(self, header: BatchHeader, records: list[KeyedRecord]) -> list[KeyedRecord]:
        last_offset, latest_offset = self._last_offsets.get, self._last_offsets.latest_offset
        base_offset = header.base_offset
        keeps_tombstones = not header.has_delete_horizon or self._now_ms < header.base_timestamp
        kept = [
            record
            for record in records
            for _, _, _, _, offset_delta, key, has_value in (record,)
            if base_offset + offset_delta > latest_offset
            or (
                key is not None
                and (has_value or keeps_tombstones)
                and base_offset + offset_delta >= last_offset(key, -1)
            )
        ]
        if len(kept) < len(records):
            self.counts.records_without_key += sum(
                key is None and base_offset + offset_delta <= latest_offset
                for _, _, _, _, offset_delta, key, _ in records
            )
        return kept

    def _empty(self, header: BatchHeader) -> bytearray | None:
        """The header alone, if the state of its producer depends on this batch, or the end of the log
        does."""
        if header.next_offset == self.end_offset:
            return build_empty_batch(header)
        last = self._last_batches.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return None
        if last.last_data_offset == NO_DATA_OFFSET:
            is_last = header.is_control and header.producer_epoch == last.epoch
        else:
            is_last = header.last_offset == last.last_data_offset
        return build_empty_batch(header) if is_last else None


def _rebuilt(header: BatchHeader, data: bytes, kept: list[KeyedRecord], horizon_ms: int | None) -> bytearray:
    """The batch with these records only. All else in it is kept, apart from what the delete horizon
    changes."""
    base_timestamp, attributes = header.base_timestamp, header.attributes
    if horizon_ms is None:
        records = b"".join([data[start:end] for start, end, *_ in kept])
    else:
        shift = base_timestamp - horizon_ms
        base_timestamp, attributes = horizon_ms, attributes | DELETE_HORIZON_BIT
        records = b"".join([_shifted(data, record, shift) for record in kept])
    max_timestamp = header.max_timestamp
    if not header.timestamp_type:
        max_timestamp = max(
            wrapped_long(header.base_timestamp + timestamp_delta) for _, _, timestamp_delta, *_ in kept
        )
    section = compress(header.codec, records) if header.codec != NONE else records
    size_bytes = HEADER_BYTES + len(section)
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch, 0,
        header.base_offset, size_bytes - LOG_OVERHEAD_BYTES, header.partition_leader_epoch, header.magic, 0,
        attributes, header.last_offset_delta, base_timestamp, max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, len(kept),
    )  # fmt: skip
    batch += section
    seal(batch, 0, size_bytes)
    return batch


def _shifted(data: bytes, record: KeyedRecord, shift: int) -> bytes:
    """The bytes of a record, with a timestamp delta that is larger by `shift`. The delta wraps as a long does
    in Java, and so does the sum of horizon and delta where records are read."""
    _, end, timestamp_delta, after_timestamp, *_ = record
    body = bytearray(1)
    append_signed(body, wrapped_long(timestamp_delta + shift))
    body += data[after_timestamp:end]
    target = bytearray()
    append_signed(target, len(body))
    return bytes(target + body)
