"""What only the records of a batch can tell, and the batch anew where it cannot be stored as it came.

Large batches cost milliseconds here, in the compression libraries and in the walk. So the work is written
down as steps: a generator that yields a call for a helper thread (one call of a library that lets other
threads run meanwhile) and is sent its result, or yields None where others on the loop should have their
turn. `finish` takes all steps at once, for whoever has no loop, and `finish_without_pause` for small batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from protocol.errors import InvariantViolated
from protocol.records.compression import NONE, compress, decompress
from protocol.records.errors import (
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    RecordError,
    RecordsError,
)
from protocol.records.header import (
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadBuffer,
    patch_offset_and_epoch,
    seal,
)
from protocol.records.reader import DEFAULT_LIMIT_BYTES
from protocol.records.verdict import ValidatedBatch, ValidationRules
from protocol.records.walk import RecordFront, WalkResult, record_fronts, walk_in_slices
from protocol.varint import append_signed

T = TypeVar("T")
Plain: TypeAlias = bytes | bytearray | memoryview
Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]
"""Yields a call for a helper thread and is sent its result, or None for a pause; returns what came of it."""

_LATEST: Final = (1 << 63) - 1
_EARLIEST: Final = -(1 << 63)
_ERRORS_IN_TEXT: Final = 3
_ERRORS_IN_LIST: Final = 1000
"""Kafka lists every record; a request of 1 MB could then ask for an answer of 20 MB."""
_FRONTS_PER_SLICE: Final = 500
"""The number of records that are looked at one by one, or renumbered, in about a millisecond."""


def finish(steps: Steps[T]) -> T:
    """Runs all steps at once, and returns the result."""
    result: Any = None
    try:
        while True:
            call = steps.send(result)
            result = None if call is None else call()
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome


def finish_without_pause(steps: Steps[T]) -> T | None:
    """Runs the steps up to the first pause: the result if there is none, else None and the steps given up."""
    result: Any = None
    try:
        while (call := steps.send(result)) is not None:
            result = call()
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome
    steps.close()
    return None


def judge_records(
    buffer: ReadBuffer,
    position: int,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Steps[ValidatedBatch]:
    """The second half of the verdict on a batch whose header is good. Raises RecordsError.

    limit_bytes: the most that it may unfold into, if that is less than the rules'; BatchTooLarge beyond.
    """
    plain: Plain = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    if header.codec != NONE:
        plain = yield partial(decompress, header.codec, plain, min(limit_bytes, rules.limit_bytes))
    if header.codec == NONE and isinstance(buffer, bytearray) and len(buffer) == position + header.size_bytes:
        walked = yield from walk_in_slices(buffer, header.record_count, position + HEADER_BYTES)
    else:
        walked = yield from walk_in_slices(plain, header.record_count)
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
        yield from _refuse_offending_records(plain, header, rules, now_ms, claims_append_time)
    is_recompressed = rules.codec is not None and rules.codec != header.codec
    must_rebuild = is_recompressed or not walked.offsets_are_sequential
    if must_rebuild and (claims_append_time or not walked.offsets_are_sequential):
        plain = yield from _renumbered(plain, header)
    if rules.log_append_time:
        return ValidatedBatch(header, now_ms, header.last_offset_delta, True, True, must_rebuild, plain)
    if claims_append_time:
        largest, delta = header.max_timestamp, header.last_offset_delta
    else:
        largest = header.base_timestamp + walked.max_timestamp_delta
        delta = walked.max_timestamp_index
    restamp = claims_append_time or largest != header.max_timestamp
    return ValidatedBatch(header, largest, delta, False, restamp, must_rebuild, plain)


def rebuild_in_steps(batch: ValidatedBatch, rules: ValidationRules) -> Steps[bytearray]:
    """The batch anew, in the topic's codec and with offset deltas 0, 1, 2 …; base offset 0, no leader epoch.

    Of its attributes only that it is part of a transaction is taken over, as in Kafka: a delete horizon is
    for the cleaner to set, and other bits mean nothing.

    `batch` may still refer to the request's buffer. Raises BatchTooLarge if the topic's codec makes it larger
    than `max.message.bytes`.
    """
    header, plain = batch.header, batch.plain
    if plain is None:
        raise InvariantViolated(f"a batch of {rules.partition_name} is rebuilt that has not been walked")
    codec = header.codec if rules.codec is None else rules.codec
    section: Plain = plain
    if codec != NONE:
        section = yield partial(compress, codec, plain, rules.level)
    size_bytes = HEADER_BYTES + len(section)
    if size_bytes > rules.max_message_bytes:
        raise BatchTooLarge(
            f"Message batch size is {size_bytes} bytes in append to partition {rules.partition_name}, which "
            f"exceeds the maximum configured size of {rules.max_message_bytes}."
        )
    attributes = header.attributes & TRANSACTIONAL_BIT | codec
    if batch.log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    base_timestamp = header.max_timestamp if header.timestamp_type else header.base_timestamp
    rebuilt = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        rebuilt, 0,
        0, size_bytes - LOG_OVERHEAD_BYTES, -1, MAGIC, 0, attributes,
        header.record_count - 1, base_timestamp, batch.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.record_count,
    )  # fmt: skip
    rebuilt += section
    seal(rebuilt, 0, size_bytes)
    return rebuilt


def rebuild(batch: ValidatedBatch, rules: ValidationRules, base_offset: int, leader_epoch: int) -> bytearray:
    """`rebuild_in_steps` at once, and the batch put at its place in the log."""
    rebuilt = batch.rebuilt if batch.rebuilt is not None else finish(rebuild_in_steps(batch, rules))
    patch_offset_and_epoch(rebuilt, 0, base_offset, leader_epoch)
    return rebuilt


def judge_and_rebuild(
    buffer: ReadBuffer,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: int,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Steps[ValidatedBatch]:
    """Checks the records of a large batch before it gets its offset, and rebuilds it if it must be.

    limit_bytes: see `judge_records`.
    """
    batch = yield from judge_records(buffer, 0, header, rules, now_ms, limit_bytes)
    if batch.must_rebuild:
        batch.rebuilt = yield from rebuild_in_steps(batch, rules)
    batch.plain = None
    return batch


def _within_bounds(header: BatchHeader, walked: WalkResult, rules: ValidationRules, now_ms: int) -> bool:
    """Whether no record can be out of bounds; a record without timestamp (-1) makes this say no at times."""
    earliest = header.base_timestamp + walked.min_timestamp_delta
    latest = header.base_timestamp + walked.max_timestamp_delta
    return now_ms - earliest <= rules.before_max_ms and latest - now_ms <= rules.after_max_ms


def _refuse_offending_records(
    plain: Plain, header: BatchHeader, rules: ValidationRules, now_ms: int, claims_append_time: bool
) -> Steps[None]:
    """Look at each record; return if there is nothing to blame after all (records without timestamp)."""
    total = 0
    verdict: type[RecordsError] = InvalidRecord
    errors: list[RecordError] = []
    for index, front in enumerate(record_fronts(plain, header.record_count)):
        if index % _FRONTS_PER_SLICE == _FRONTS_PER_SLICE - 1:
            yield None
        fault = _fault_of(front, header, rules, now_ms, claims_append_time)
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
    front: RecordFront, header: BatchHeader, rules: ValidationRules, now_ms: int, claims_append_time: bool
) -> tuple[type[RecordsError], str] | None:
    """The error class and Kafka's message for a record that breaks a rule; None if it breaks none."""
    if rules.compacted and front.key_length < 0:
        where = f"in topic partition {rules.partition_name}"
        return InvalidRecord, f"Compacted topic cannot accept message without key {where}"
    offset, timestamp = header.base_offset + front.offset_delta, _timestamp_of(front, header)
    if not rules.log_append_time and timestamp != NO_TIMESTAMP:
        earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
        if earliest <= timestamp <= latest:
            return None
        return InvalidTimestamp, (
            f"Timestamp {timestamp} of message with offset {offset} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if claims_append_time:
        return InvalidTimestamp, (
            f"Invalid timestamp type in message DefaultRecord(offset={offset}, "
            f"timestamp={timestamp}, key={max(front.key_length, 0)} bytes, "
            f"value={max(front.value_length, 0)} bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _renumbered(plain: Plain, header: BatchHeader) -> Steps[bytearray]:
    """The records with offset deltas 0, 1, 2 … in the order in which they stand.

    Those of a batch that claims to be of append time all have its largest timestamp, which becomes the base
    timestamp. What stands behind the offset delta is copied as it is.
    """
    claims_append_time = header.timestamp_type != 0
    view, renumbered = memoryview(plain), bytearray()
    for index, front in enumerate(record_fronts(plain, header.record_count)):
        if index % _FRONTS_PER_SLICE == _FRONTS_PER_SLICE - 1:
            yield None
        start = bytearray(1)  # attributes
        append_signed(start, 0 if claims_append_time else front.timestamp_delta)
        append_signed(start, index)
        append_signed(renumbered, len(start) + front.end - front.behind_offset_delta)
        renumbered += start
        renumbered += view[front.behind_offset_delta : front.end]
    return renumbered


def _timestamp_of(front: RecordFront, header: BatchHeader) -> int:
    """The timestamp of a record, which is the batch's if that claims to be of append time."""
    if header.timestamp_type:
        return header.max_timestamp
    return header.base_timestamp + front.timestamp_delta
