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

_logger: Final = logging.getLogger(__name__)


class AppendResult(msgspec.Struct, gc=False):
    """Where a batch lies. For a duplicate: where it has lain since the first time."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The time of the append with LogAppendTime, -1 with CreateTime."""
    log_start_offset: int
    is_duplicate: bool = False


class PreparedAppend(msgspec.Struct, gc=False):
    """A batch with its offsets, which is not in the log yet."""

    records: memoryview | bytearray
    """The bytes as they will lie in the file. A view into a receive buffer must be written while it holds."""
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    log_append_time_ms: int = NO_LOG_APPEND_TIME
    producer: ProducerEntry | None = None
    """The entry of its producer once the batch is committed."""
    marker: TransactionMarker | None = None
    """What the batch says, if it ends a transaction of its producer."""
    is_duplicate: bool = False
    """There is nothing to write: the result names the place of the first one."""
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
    """What the validation says, with its errors as the log's. Raises AppendRefused."""
    try:
        return validate_client_batch(
            records, 0, len(records), rules, now_ms=now_ms, walk=walk,
            request_version=request_version, inline_bytes=inline_bytes,
        )  # fmt: skip
    except RecordsError as error:
        raise refusal(error, log_start_offset) from error


def trusted_batch(records: memoryview | bytearray | bytes) -> ValidatedBatch:
    """A batch that this broker made itself (markers, coordinators' and quorum's records): taken as it is."""
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
    """What a producer's control batch says about its transaction. Raises RecordsError for a broken one."""
    if not header.is_control or header.producer_id < 0:
        return None
    for record in records_of(batch, position):
        return read_marker(record.key, record.value)
    return None


def stored_marker_of(batch: ReadBuffer, header: BatchHeader) -> TransactionMarker | None:
    """As `marker_of`, for a batch that is in some log already: a broken one ends nothing, and is kept."""
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
    """The batch in the topic's codec. Raises AppendRefused if that made it too large."""
    try:
        return rebuild(batch, rules, base_offset, leader_epoch)
    except RecordsError as error:
        raise refusal(error, log_start_offset) from error


def refusal(error: RecordsError, log_start_offset: int) -> AppendRefused:
    is_told = isinstance(error, NoEntry)
    return AppendRefused(error.code, error.message, error.record_errors, log_start_offset, is_told=is_told)


def placed_header(batch: ValidatedBatch, base_offset: int) -> BatchHeader:
    """The batch's header as it will be in the log, for the producer's entry."""
    header = batch.header
    header.base_offset = base_offset
    header.max_timestamp = batch.max_timestamp
    return header


def result_of_copies(results: list[AppendResult], log_end_offset: int, log_start_offset: int) -> AppendResult:
    """One result for what a follower appended: of no batch at all it ends before it begins."""
    base_offset = results[0].base_offset if results else log_end_offset
    return AppendResult(base_offset, log_end_offset - 1, NO_LOG_APPEND_TIME, log_start_offset)


def result_of_duplicate(first: ProducerBatch, log_start_offset: int) -> AppendResult:
    """The first answer once more; for the time of the append the batch's own is told, whatever the topic's
    timestamps are, as Kafka does."""
    return AppendResult(first.first_offset, first.last_offset, first.timestamp, log_start_offset, True)
