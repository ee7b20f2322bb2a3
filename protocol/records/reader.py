"""Records as objects.

For those who look into batches one record at a time: coordinators at their start, the cleaner, look-up by
timestamp, tools. Serving produce and fetch never comes here.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from protocol.records.compression import NONE, decompress
from protocol.records.errors import CorruptRecord, InvalidRecord
from protocol.records.header import HEADER_BYTES, BatchHeader, ReadBuffer, is_intact, read_header
from protocol.varint import MalformedVarint, read_int, read_long, wrapped_long

DEFAULT_LIMIT_BYTES: Final = 128 * 1024 * 1024
"""The most decompressed bytes of one batch that are held unless the caller says otherwise."""

_NULL: Final = 1
"""The varint byte of the length -1, which stands for null."""
_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1

RecordHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, gc=False):
    """One record, with its offset in the log."""

    offset: int
    """The offset as the record says it. It is in order only if the batch was walked before it was stored."""
    timestamp: int
    """Milliseconds; the batch's append time if its type is LogAppendTime; -1 for none."""
    key: bytes | None
    value: bytes | None
    """The value; None in a compacted topic is a tombstone."""
    headers: RecordHeaders = ()
    """The headers in the producer's order; names may repeat. Names that are not UTF-8 have surrogate
    escapes."""
    attributes: int = 0
    """The attributes of the record. Kafka has not used them so far, they are always 0."""


def plain_records(
    buffer: ReadBuffer, position: int, header: BatchHeader, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> bytes | memoryview:
    """The records of a batch as one run of bytes: a view if they are not compressed.

    Raises CorruptRecord if the batch goes beyond the buffer; what `compression.decompress` raises.
    """
    end = position + header.size_bytes
    if end > len(buffer) or header.size_bytes < HEADER_BYTES:
        raise CorruptRecord(
            f"Record batch at byte {position} is cut off: it takes {header.size_bytes} bytes, "
            f"{len(buffer) - position} are there"
        )
    section = memoryview(buffer)[position + HEADER_BYTES : end]
    return section if header.codec == NONE else decompress(header.codec, section, limit_bytes)


def records(
    buffer: ReadBuffer,
    position: int = 0,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    check_crc: bool = False,
) -> Iterator[Record]:
    """The records of the batch at `position`, control records included.

    Raises RecordsError of a kind that says what is wrong, possibly after some records have been yielded: they
    were whole. `limit_bytes` bounds what a compressed batch may unfold into.
    """
    header = read_header(buffer, position)
    if check_crc and not is_intact(buffer, position, header):
        raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc}) at offset {header.base_offset}")
    if header.record_count < 0:
        raise InvalidRecord(f"Found invalid record count {header.record_count} in magic v2 batch")
    yield from records_in(plain_records(buffer, position, header, limit_bytes), header)


def records_in(plain: ReadBuffer, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch that is decompressed already. Raises as `records`."""
    data = bytes(plain)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type else None
    cursor = 0
    for index in range(header.record_count):
        if cursor >= len(data):
            raise InvalidRecord(f"Incorrect declared batch size, premature EOF reached at record {index}")
        record, cursor = _read_record(data, cursor, base_offset, base_timestamp)
        if append_time is not None:
            record.timestamp = append_time
        yield record
    if cursor != len(data):
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")


def batch_records(buffer: ReadBuffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Iterator[Record]:
    """The records of all complete batches in a buffer, one after another."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_BYTES:
        size_bytes = read_header(buffer, position).size_bytes
        if position + size_bytes > end:
            return
        yield from records(buffer, position, limit_bytes=limit_bytes)
        position += size_bytes


def _read_record(data: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """The record at `position` and the position after it; every length is checked before bytes are taken.

    Numbers of one byte, nearly all that are no lengths, are read in place.
    """
    try:
        length, start = read_int(data, position)
        end = start + length
        if length < 0 or end > len(data):
            raise InvalidRecord(
                f"Invalid record size: expected {length} bytes in record payload, but instead the buffer has "
                f"only {len(data) - start} remaining bytes."
            )
        if length == 0:
            raise InvalidRecord("Found invalid record structure: a record of no bytes")
        position = start + 1
        if position < end and (raw := data[position]) < 0x80:
            timestamp_delta, position = (raw >> 1) ^ -(raw & 1), position + 1
        else:
            timestamp_delta, position = read_long(data, position)
        if position < end and (raw := data[position]) < 0x80:
            offset_delta, position = (raw >> 1) ^ -(raw & 1), position + 1
        else:
            offset_delta, position = read_int(data, position)
        key = None
        if position < end and data[position] == _NULL:
            position += 1
        else:
            key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers: RecordHeaders = ()
        if position == end - 1 and data[position] == 0:
            position = end
        else:
            header_count, position = read_int(data, position)
            if not 0 <= header_count <= end - position:
                raise InvalidRecord(f"Found invalid number of record headers {header_count}")
            if header_count:
                headers, position = _read_headers(data, position, end, header_count)
    except MalformedVarint as error:
        raise InvalidRecord(f"Found invalid record structure: {error} of the records") from None
    if position != end:
        raise InvalidRecord(
            f"Invalid record size: expected to read {length} bytes in record payload, but instead read "
            f"{position - start}"
        )
    timestamp = base_timestamp + timestamp_delta
    if not _EARLIEST <= timestamp <= _LATEST:  # from the cleaner's delete horizon to a tombstone's own time
        timestamp = wrapped_long(timestamp)
    return Record(base_offset + offset_delta, timestamp, key, value, headers, data[start]), end


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[RecordHeaders, int]:
    pairs: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise InvalidRecord("Invalid negative header key size")
        value, position = _read_bytes(data, position, end)
        pairs.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(pairs), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, start = read_int(data, position)
    if length < 0:
        return None, start
    after = start + length
    if after > end:
        raise InvalidRecord(f"Found invalid record structure: {length} bytes announced, {end - start} there")
    return data[start:after], after
