"""A batch on its way into the log, in stages.

    prepare   judged, numbered, offsets and leader epoch written into its bytes; nothing visible changes
    write     one system call for all that one wake-up prepared
    commit    log end, producers, indexes: from here on it is in the log, and may be answered
    rollback  the file is cut to its old size, the prepared batches are forgotten, and each gets an error

Prepared batches see each other: the second continues the first one's offsets and sequences. They stand in
one queue per partition, are written and committed in its order, and a rollback takes the whole queue,
since the offsets of the later ones count on the earlier.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from protocol.errors import invariant
from protocol.records.control import TransactionMarker, read_marker
from protocol.records.errors import CorruptRecord, NoEntry, RecordsError
from protocol.records.header import BatchHeader, ReadBuffer, read_header
from protocol.records.reader import records as records_of
from protocol.records.record_validation import rebuild
from protocol.records.validation import validate_client_batch
from protocol.records.verdict import ValidatedBatch, ValidationRules
from storage.errors import AppendRefused
from storage.producer_state import ProducerBatch, ProducerEntry

if TYPE_CHECKING:
    from storage.segment import Segment

LATEST_PRODUCE_VERSION: Final = 13
NO_LOG_APPEND_TIME: Final = -1

_logger: Final = logging.getLogger("barnabas.storage")


class AppendResult(msgspec.Struct, gc=False):
    """Where a batch lies in the log. For a duplicate it is the place of the first batch."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The time of the append with LogAppendTime, -1 with CreateTime."""
    log_start_offset: int
    is_duplicate: bool = False


class PreparedAppend(msgspec.Struct):
    """A batch with its offsets, which is not in the log yet. The collector sees it, as it may wait for a disk
    while its node, whose segment it names, is given up."""

    records: memoryview | bytearray
    """The bytes as they will lie in the file. A view into a receive buffer must be written while the buffer
    holds them."""
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    log_append_time_ms: int = NO_LOG_APPEND_TIME
    producer: ProducerEntry | None = None
    """The entry of its producer once the batch is committed."""
    marker: TransactionMarker | None = None
    """The transaction marker in the batch, if it ends a transaction of its producer."""
    is_duplicate: bool = False
    """Nothing is written, and the result names the place of the first batch."""
    segment: Segment | None = None
    """The segment into which the batch is written; set by `AppendQueue.write`."""
    position: int = -1


def judge_client_batch(
    records: memoryview | bytearray | bytes,
    rules: ValidationRules,
    log_start_offset: int,
    *,
    now_ms: int,
    walk: bool = False,
    request_version: int = LATEST_PRODUCE_VERSION,
    inline_bytes: int = 0,
) -> ValidatedBatch:
    """Validates a client's batch. Raises AppendRefused with the error of the validation."""
    try:
        return validate_client_batch(
            records, 0, len(records), rules, now_ms=now_ms, walk=walk,
            request_version=request_version, inline_bytes=inline_bytes,
        )  # fmt: skip
    except RecordsError as error:
        raise refusal(error, log_start_offset) from error


def trusted_batch(records: memoryview | bytearray | bytes) -> ValidatedBatch:
    """A batch that this broker has made itself (markers, records of the coordinators and of the quorum). It
    is not validated."""
    try:
        header = read_header(records)
    except CorruptRecord as error:
        invariant(False, "The broker's own batch is one", problem=error.message)
        raise
    if header.size_bytes != len(records) or header.last_offset_delta < 0:
        invariant(
            False,
            "The broker's own batch is exactly one",
            size_bytes=header.size_bytes,
            given_bytes=len(records),
            last_offset_delta=header.last_offset_delta,
        )
    return ValidatedBatch(header, header.max_timestamp, header.last_offset_delta, False, False, False, None)


def marker_of(batch: ReadBuffer, header: BatchHeader, position: int = 0) -> TransactionMarker | None:
    """The transaction marker in a producer's control batch. Raises RecordsError for a broken one."""
    if not header.is_control or header.producer_id < 0:
        return None
    for record in records_of(batch, position):
        return read_marker(record.key, record.value)
    return None


def stored_marker_of(batch: ReadBuffer, header: BatchHeader) -> TransactionMarker | None:
    """Does as `marker_of` for a batch that is in a log already. A broken marker ends no transaction, and is
    kept."""
    try:
        return marker_of(batch, header)
    except RecordsError as error:
        _logger.error(
            "The marker of producer %d at offset %d cannot be read, its transaction stays open: %s",
            header.producer_id, header.base_offset, error.message,
        )  # fmt: skip
        return None


def rebuilt_batch(
    batch: ValidatedBatch, rules: ValidationRules, base_offset: int, leader_epoch: int, log_start_offset: int
) -> bytearray:
    """The batch, compressed with the topic's codec. Raises AppendRefused if that made it too large."""
    try:
        return rebuild(batch, rules, base_offset, leader_epoch)
    except RecordsError as error:
        raise refusal(error, log_start_offset) from error


def refusal(error: RecordsError, log_start_offset: int) -> AppendRefused:
    is_told = isinstance(error, NoEntry)
    return AppendRefused(error.code, error.message, error.record_errors, log_start_offset, is_told=is_told)


def placed_header(batch: ValidatedBatch, base_offset: int) -> BatchHeader:
    """The header of a batch as it will be in the log. The producer's entry is made from it."""
    header = batch.header
    header.base_offset = base_offset
    header.max_timestamp = batch.max_timestamp
    return header


def result_of_copies(results: list[AppendResult], log_end_offset: int, log_start_offset: int) -> AppendResult:
    """One result for the batches that a follower has appended. If there are none, it ends before it
    begins."""
    base_offset = results[0].base_offset if results else log_end_offset
    return AppendResult(base_offset, log_end_offset - 1, NO_LOG_APPEND_TIME, log_start_offset)


def result_of_duplicate(first: ProducerBatch, log_start_offset: int) -> AppendResult:
    """The first answer once more. The append time is the timestamp of the batch, whatever timestamps the
    topic uses, as in Kafka."""
    return AppendResult(first.first_offset, first.last_offset, first.timestamp, log_start_offset, True)
