"""What a leader asks of a batch that a client sends, and how it makes the batch its own.

In Kafka's order, each with Kafka's code:

    CORRUPT_MESSAGE               an impossible length or magic, a checksum that differs
    INVALID_RECORD                no whole batch, a second batch, format 0 or 1, a base offset other than 0
    UNSUPPORTED_COMPRESSION_TYPE  zstd before Produce v7, a codec that does not exist
    MESSAGE_TOO_LARGE             more bytes than max.message.bytes
    INVALID_RECORD                offsets that disagree with the record count, a control batch, a producer id
                                  without a sequence
and, if the records are walked:

    INVALID_RECORD                lengths that do not add up, damaged compression
    INVALID_RECORD                records without key in a compacted topic, each of them named
    INVALID_TIMESTAMP             timestamps outside the topic's bounds, LogAppendTime claimed by a client;
                                  each record named

The records are walked when the header alone cannot answer (compacted topic, `before.max.ms`, a largest
timestamp beyond the bound, another codec than the topic's, LogAppendTime claimed) or when the caller wants
it; otherwise the batch is taken on the word of its header and checksum.

Two differences from Kafka 4.3, both for the better: damaged compressed data, which Kafka answers with
UNKNOWN_SERVER_ERROR, is INVALID_RECORD here, an unknown codec UNSUPPORTED_COMPRESSION_TYPE; and a batch whose
offset deltas are not 0, 1, 2 … is rebuilt, where Kafka fails (compressed) or stores it as it is (not
compressed). Bytes after the one batch that are no second batch are ignored as Kafka does: append
`header.size_bytes` only.
"""

from typing import Final

import msgspec

from protocol.crc import crc32c
from protocol.errors import InvariantViolated
from protocol.records.builder import append_record
from protocol.records.compression import CODECS, NONE, ZSTD, compress
from protocol.records.errors import (
    BatchTooLarge,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    RecordsError,
    UnsupportedCompression,
)
from protocol.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    ReadBuffer,
    WriteBuffer,
    patch_offset_and_epoch,
    patch_timestamps,
    seal,
)
from protocol.records.reader import DEFAULT_LIMIT_BYTES, Record, plain_records, records
from protocol.records.single_batch import require_one_batch, too_short_for_a_batch
from protocol.records.walk import Walked
from protocol.records.walk import walk as walk_records

NO_BOUND_MS: Final = (1 << 63) - 1
_LATEST: Final = (1 << 63) - 1
_EARLIEST: Final = -(1 << 63)
_ONE_HOUR_MS: Final = 3_600_000
_FIRST_VERSION_WITH_ZSTD: Final = 7
_ERRORS_IN_TEXT: Final = 3
_ERRORS_IN_LIST: Final = 1000
"""Kafka lists every record; a request of 1 MB could then ask for an answer of 20 MB."""


class ValidationRules(msgspec.Struct, frozen=True, gc=False):
    """What a topic's configuration asks of its batches."""

    partition_name: str
    """`topic-0`, for error texts."""
    max_message_bytes: int
    compacted: bool = False
    log_append_time: bool = False
    """`message.timestamp.type`: every record gets the append time."""
    before_max_ms: int = NO_BOUND_MS
    after_max_ms: int = _ONE_HOUR_MS
    codec: int | None = None
    """The codec that batches are stored in; None keeps the producer's (`compression.type=producer`)."""
    level: int | None = None
    """Level for that codec; None is the codec's default."""
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    """The most that a compressed batch may unfold into."""


class ValidatedBatch(msgspec.Struct, gc=False):
    """An accepted batch, not yet at its place."""

    header: BatchHeader
    """As the client sent it."""
    max_timestamp: int
    """What the stored batch will say: the append time, or the records' largest if they were walked."""
    max_timestamp_delta: int
    """Offset delta of the record with that timestamp; the batch's last if the records were not walked."""
    log_append_time: bool
    """The timestamp type that the stored batch will have."""
    restamp: bool
    """Largest timestamp or timestamp type differ from what the client sent: the checksum must be renewed."""
    must_rebuild: bool
    """The batch cannot be stored as it is (other codec, offset deltas with gaps): see `rebuild`."""
    plain: bytes | bytearray | memoryview | None
    """The decompressed records if they were walked, numbered 0, 1, 2 …; may be a view into the request."""


def validate_client_batch(
    buffer: ReadBuffer,
    position: int,
    size_bytes: int,
    rules: ValidationRules,
    *,
    now_ms: int,
    walk: bool,
    request_version: int,
) -> ValidatedBatch:
    """Judge the `size_bytes` at `position`, one partition's records of a Produce request.

    1.2 µs and the checksum for a batch that is not walked; some 0.6 µs for each record of one that is.

    Raises a RecordsError with code, text and, where single records are at fault, their list. Kafka's broker
    sends the text only along with such a list; all others travel as the bare code.
    """
    if size_bytes < HEADER_BYTES:
        raise too_short_for_a_batch(buffer, position, size_bytes, request_version)
    header = BatchHeader(*HEADER.unpack_from(buffer, position))
    batch_bytes = header.batch_length + LOG_OVERHEAD_BYTES
    if batch_bytes != size_bytes or header.magic != MAGIC:
        require_one_batch(buffer, position, size_bytes, header, request_version)
    attributes = header.attributes
    codec = attributes & CODEC_MASK
    if codec == ZSTD and request_version < _FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompression(
            f"Produce requests with version {request_version} are not allowed to use ZStandard compression"
        )
    if header.base_offset or batch_bytes > rules.max_message_bytes or batch_bytes < HEADER_BYTES:
        raise _misplaced_or_missized(header, rules)
    if crc32c(memoryview(buffer)[position + CRC_START : position + batch_bytes]) != header.crc:
        raise CorruptRecord(
            f"Record is corrupt (stored crc = {header.crc}) in topic partition {rules.partition_name}."
        )
    last_delta = header.last_offset_delta
    if (
        last_delta + 1 != header.record_count
        or last_delta < 0
        or attributes & CONTROL_BIT
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or codec >= len(CODECS)
    ):
        raise _contradictory(header, rules)
    if (
        walk
        or rules.compacted
        or rules.before_max_ms != NO_BOUND_MS
        or (rules.codec is not None and rules.codec != codec)
        or attributes & LOG_APPEND_TIME_BIT
        or (not rules.log_append_time and header.max_timestamp - now_ms > rules.after_max_ms)
    ):
        return _validate_records(buffer, position, header, rules, now_ms)
    if rules.log_append_time:
        return ValidatedBatch(header, now_ms, last_delta, True, True, False, None)
    return ValidatedBatch(header, header.max_timestamp, last_delta, False, False, False, None)


def place(
    buffer: WriteBuffer, position: int, batch: ValidatedBatch, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch into the batch in the buffer, and its timestamps if they change.

    For batches that need no rebuilding. 0.3 µs, and a checksum more with `restamp`.
    """
    patch_offset_and_epoch(buffer, position, base_offset, leader_epoch)
    if batch.restamp:
        patch_timestamps(
            buffer,
            position,
            batch.header.size_bytes,
            max_timestamp=batch.max_timestamp,
            log_append_time=batch.log_append_time,
        )


def rebuild(batch: ValidatedBatch, rules: ValidationRules, base_offset: int, leader_epoch: int) -> bytearray:
    """The batch anew, in the topic's codec and with offset deltas 0, 1, 2 …, at its place in the log.

    Large batches take milliseconds in the compression library, which lets other threads run meanwhile.
    `batch` still refers to the request's buffer. Raises BatchTooLarge if the topic's codec makes it larger
    than `max.message.bytes`.
    """
    header, plain = batch.header, batch.plain
    if plain is None:
        raise InvariantViolated(f"a batch of {rules.partition_name} is rebuilt that has not been walked")
    codec = header.codec if rules.codec is None else rules.codec
    section = plain if codec == NONE else compress(codec, plain, rules.level)
    size_bytes = HEADER_BYTES + len(section)
    if size_bytes > rules.max_message_bytes:
        raise BatchTooLarge(
            f"Message batch size is {size_bytes} bytes in append to partition {rules.partition_name}, which "
            f"exceeds the maximum configured size of {rules.max_message_bytes}."
        )
    attributes = header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME_BIT) | codec
    if batch.log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    rebuilt = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        rebuilt, 0,
        base_offset, size_bytes - LOG_OVERHEAD_BYTES, leader_epoch, MAGIC, 0, attributes,
        header.record_count - 1, header.base_timestamp, batch.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.record_count,
    )  # fmt: skip
    rebuilt += section
    seal(rebuilt, 0, size_bytes)
    return rebuilt


def _validate_records(
    buffer: ReadBuffer, position: int, header: BatchHeader, rules: ValidationRules, now_ms: int
) -> ValidatedBatch:
    """The second half of the verdict: what only the records can tell."""
    plain: bytes | bytearray | memoryview
    plain = plain_records(buffer, position, header, rules.limit_bytes)
    walked = walk_records(plain, header.record_count)
    if not header.base_timestamp + walked.min_timestamp_delta >= _EARLIEST or (
        header.base_timestamp + walked.max_timestamp_delta > _LATEST
    ):
        raise InvalidRecord(f"Timestamps go beyond 64 bits in topic partition {rules.partition_name}")
    claims_append_time = header.attributes & LOG_APPEND_TIME_BIT != 0
    if (
        (rules.compacted and walked.first_without_key >= 0)
        or claims_append_time
        or (not rules.log_append_time and not _within_bounds(header, walked, rules, now_ms))
    ):
        _refuse_offending_records(buffer, position, rules, now_ms, claims_append_time)
    must_rebuild = not walked.offsets_are_sequential
    if must_rebuild:
        plain = _renumbered(buffer, position, header, rules)
    if rules.codec is not None and rules.codec != header.codec:
        must_rebuild = True
    if rules.log_append_time:
        return ValidatedBatch(header, now_ms, header.last_offset_delta, True, True, must_rebuild, plain)
    if claims_append_time:
        largest, delta = header.max_timestamp, header.last_offset_delta
    else:
        largest = header.base_timestamp + walked.max_timestamp_delta
        delta = walked.max_timestamp_index
    restamp = claims_append_time or largest != header.max_timestamp
    return ValidatedBatch(header, largest, delta, False, restamp, must_rebuild, plain)


def _within_bounds(header: BatchHeader, walked: Walked, rules: ValidationRules, now_ms: int) -> bool:
    """Whether no record can be out of bounds; a record without timestamp (-1) makes this say no at times."""
    earliest = header.base_timestamp + walked.min_timestamp_delta
    latest = header.base_timestamp + walked.max_timestamp_delta
    return now_ms - earliest <= rules.before_max_ms and latest - now_ms <= rules.after_max_ms


def _refuse_offending_records(
    buffer: ReadBuffer, position: int, rules: ValidationRules, now_ms: int, claims_append_time: bool
) -> None:
    """Look at each record; return if there is nothing to blame after all (records without timestamp)."""
    total = 0
    verdict: type[RecordsError] = InvalidRecord
    errors: list[RecordError] = []
    for index, record in enumerate(records(buffer, position, limit_bytes=rules.limit_bytes)):
        fault = _fault_of(record, rules, now_ms, claims_append_time)
        if fault is None:
            continue
        kind, text = fault
        if kind is InvalidTimestamp:  # one such record decides about the whole batch
            verdict = kind
        total += 1
        if len(errors) < _ERRORS_IN_LIST:
            errors.append(RecordError(index, text))
    if not errors:
        return
    if verdict is InvalidTimestamp:
        text = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
            for error in errors[:_ERRORS_IN_TEXT]
        )
        text = (
            f"One or more records have been rejected due to {total} record errors in total, and only "
            f"showing the first three errors at most: [{shown}]"
        )
    raise verdict(text, tuple(errors))


def _fault_of(
    record: Record, rules: ValidationRules, now_ms: int, claims_append_time: bool
) -> tuple[type[RecordsError], str] | None:
    """What is wrong with one record, in Kafka's words, or None."""
    if rules.compacted and record.key is None:
        where = f"in topic partition {rules.partition_name}"
        return InvalidRecord, f"Compacted topic cannot accept message without key {where}"
    if not rules.log_append_time and record.timestamp != NO_TIMESTAMP:
        earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
        if earliest <= record.timestamp <= latest:
            return None
        return InvalidTimestamp, (
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if claims_append_time:
        return InvalidTimestamp, (
            f"Invalid timestamp type in message DefaultRecord(offset={record.offset}, "
            f"timestamp={record.timestamp}, key={len(record.key or b'')} bytes, "
            f"value={len(record.value or b'')} bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _renumbered(buffer: ReadBuffer, position: int, header: BatchHeader, rules: ValidationRules) -> bytearray:
    """The records with offset deltas 0, 1, 2 … in the order in which they stand."""
    renumbered = bytearray()
    for index, record in enumerate(records(buffer, position, limit_bytes=rules.limit_bytes)):
        delta = record.timestamp - header.base_timestamp
        append_record(renumbered, index, delta, record.key, record.value, record.headers)
    return renumbered


def _misplaced_or_missized(header: BatchHeader, rules: ValidationRules) -> RecordsError:
    if header.base_offset:
        return InvalidRecord(
            f"The baseOffset of the record batch in the append to {rules.partition_name} should be 0, "
            f"but it is {header.base_offset}"
        )
    if header.size_bytes > rules.max_message_bytes:
        return BatchTooLarge(
            f"The record batch size in the append to {rules.partition_name} is {header.size_bytes} bytes "
            f"which exceeds the maximum configured value of {rules.max_message_bytes}."
        )
    return CorruptRecord(
        f"Record batch is corrupt (the size {header.size_bytes} is smaller than the minimum allowed overhead "
        f"{HEADER_BYTES})"
    )


def _contradictory(header: BatchHeader, rules: ValidationRules) -> RecordsError:
    """The first fault of a header that is intact and yet cannot be meant, in Kafka's order."""
    where = f"in topic partition {rules.partition_name}"
    if header.codec >= len(CODECS):
        return UnsupportedCompression(f"Unknown compression type id: {header.codec} {where}")
    offsets = f"[{header.base_offset}, {header.last_offset}]"
    if header.last_offset_delta < 0:
        return InvalidRecord(f"Batch has an invalid offset range: {offsets} {where}")
    if header.record_count <= 0:
        return InvalidRecord(f"Invalid reported count for record batch: {header.record_count} {where}")
    if header.last_offset_delta + 1 != header.record_count:
        return InvalidRecord(
            f"Inconsistent batch offset range {offsets} and count of records {header.record_count} {where}"
        )
    if header.is_control:
        return InvalidRecord(f"Clients are not allowed to write control records {where}")
    return InvalidRecord(
        f"Invalid sequence number {header.base_sequence} in record batch with producerId "
        f"{header.producer_id} {where}"
    )
