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

from collections.abc import Iterable
from typing import Final

from protocol.crc import crc32c
from protocol.records.compression import CODECS, NONE, ZSTD
from protocol.records.errors import (
    BatchTooLarge,
    CorruptRecord,
    InvalidRecord,
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
    BatchHeader,
    ReadBuffer,
    WriteBuffer,
    patch_offset_and_epoch,
    patch_timestamps,
)
from protocol.records.record_validation import finish, finish_without_pause, judge_records
from protocol.records.single_batch import (
    FIRST_VERSION_WITH_ZSTD,
    require_known_codec,
    require_one_batch,
    too_short_for_a_batch,
)
from protocol.records.verdict import NO_BOUND_MS, ValidatedBatch, ValidationRules
from protocol.records.walk import RECORDS_PER_SLICE

_read: Final = HEADER.unpack_from
_UNFOLDS_INLINE: Final = 4
"""A batch that is only decompressed, not compressed again, may be so many times larger to be handled inline,
because decompressing is much faster than compressing."""


def validate_client_batch(
    buffer: ReadBuffer,
    position: int,
    size_bytes: int,
    rules: ValidationRules,
    *,
    now_ms: int,
    walk: bool,
    request_version: int,
    inline_bytes: int = 0,
) -> ValidatedBatch:
    """Judge the `size_bytes` at `position`, one partition's records of a Produce request.

    1.2 µs and the checksum for a batch that is not walked; some 0.6 µs for each record of one that is.

    inline_bytes: if given, the most that is compressed or decompressed here. A batch whose records must be
    looked at and that is larger, or has more than `RECORDS_PER_SLICE` or `HEADERS_PER_SLICE`, comes back
    with `is_judged` False: go on with `record_validation.judge_and_rebuild`.

    Raises a RecordsError with code, text and, where single records are at fault, their list. Kafka's broker
    sends the text only along with such a list; all others travel as the bare code.
    """
    if size_bytes < HEADER_BYTES:
        raise too_short_for_a_batch(buffer, position, size_bytes, request_version)
    if not walk:
        for fields in plain_headers(buffer, ((position, size_bytes),), rules, now_ms, request_version):
            header = BatchHeader(*fields)
            return ValidatedBatch(
                header, header.max_timestamp, header.last_offset_delta, False, False, False, None
            )
    header = BatchHeader(*_read(buffer, position))
    batch_bytes = header.batch_length + LOG_OVERHEAD_BYTES
    if batch_bytes != size_bytes or header.magic != MAGIC:
        require_one_batch(buffer, position, size_bytes, header, request_version)
    attributes = header.attributes
    codec = attributes & CODEC_MASK
    if codec == ZSTD:
        require_known_codec(header, request_version)
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
        if inline_bytes:
            return _judge_small_records(buffer, position, header, rules, now_ms, inline_bytes)
        return finish(judge_records(buffer, position, header, rules, now_ms))
    if rules.log_append_time:
        return ValidatedBatch(header, now_ms, last_delta, True, True, False, None)
    return ValidatedBatch(header, header.max_timestamp, last_delta, False, False, False, None)


def plain_headers(
    buffer: ReadBuffer,
    batches: Iterable[tuple[int, int]],
    rules: ValidationRules,
    now_ms: int,
    request_version: int,
) -> list[tuple[int, ...]]:
    """The headers of the batches up to the first that is not plain: good by its header and checksum alone, of
    no transaction, and stored as it came but for its offset and leader epoch. Everything else is looked at in
    the order of Kafka's checks by `validate_client_batch`, which would accept plain ones, too.

    batches: position and size of each; none is smaller than a header. The fields are in the order of
    `BatchHeader`; the attributes hold a codec and nothing else. 0.4 µs a batch and the checksum.
    """
    found: list[tuple[int, ...]] = []
    if rules.compacted or rules.log_append_time or rules.before_max_ms != NO_BOUND_MS:
        return found
    view = buffer if buffer.__class__ is memoryview else memoryview(buffer)
    codec, last_codec = rules.codec, ZSTD if request_version >= FIRST_VERSION_WITH_ZSTD else ZSTD - 1
    largest_bytes, latest_ms = rules.max_message_bytes, now_ms + rules.after_max_ms
    for position, size_bytes in batches:
        fields = _read(view, position)
        (
            base_offset, length, _, magic, crc, attributes, last_delta, _, max_timestamp, producer_id, _,
            base_sequence, count,
        ) = fields  # fmt: skip
        if (
            length != size_bytes - LOG_OVERHEAD_BYTES
            or magic != MAGIC
            or base_offset
            or size_bytes > largest_bytes
            or last_delta + 1 != count
            or count <= 0
            or not 0 <= attributes <= last_codec
            or (codec is not None and codec != attributes)
            or (producer_id >= 0 and base_sequence < 0)
            or max_timestamp > latest_ms
            or crc32c(view[position + CRC_START : position + size_bytes]) != crc
        ):
            break
        found.append(fields)
    return found


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


def _judge_small_records(
    buffer: ReadBuffer,
    position: int,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    inline_bytes: int,
) -> ValidatedBatch:
    """The whole verdict if that takes a moment only, else one that is not judged yet."""
    rebuilds = rules.codec is not None and rules.codec != header.codec
    is_compressed = header.codec != NONE
    if header.record_count <= RECORDS_PER_SLICE and (
        header.size_bytes <= inline_bytes or not (rebuilds or is_compressed)
    ):
        limit_bytes = inline_bytes if rebuilds else inline_bytes * _UNFOLDS_INLINE
        try:
            judged = finish_without_pause(judge_records(buffer, position, header, rules, now_ms, limit_bytes))
            if judged is not None:  # a few records may still have millions of headers
                return judged
        except BatchTooLarge:  # it decompresses into more; a helper thread finds out whether it may
            pass
    return ValidatedBatch(
        header, header.max_timestamp, header.last_offset_delta, False, False, True, None, is_judged=False
    )


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
