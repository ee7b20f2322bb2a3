"""Checks of a valid batch against the log: against the history of its producer, and for its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.records.control import TransactionMarker
from protocol.records.header import BatchHeader, ReadBuffer
from storage.append import marker_of
from storage.errors import AppendRefused
from storage.producer_state import (
    ProducerBatch,
    ProducerEntry,
    check_epoch,
    check_marker,
    check_sequence,
    check_transaction,
)

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def check_producer(
    log: PartitionLog, known: ProducerEntry | None, header: BatchHeader
) -> ProducerBatch | None:
    """The batch that this one repeats, or None if it is the next one. Raises AppendRefused.

    A coordinator's batch has no sequences, which tell a repetition: it repeats nothing."""
    has_sequence = header.base_sequence >= 0
    try:
        if header.is_transactional and (verifications := log.producer_state.verifications).is_required:
            repeated = (
                has_sequence
                and known is not None
                and known.duplicate_of(header.producer_epoch, header.base_sequence, header.last_sequence)
            )
            if not repeated:
                verifications.check(known, header)
        if not has_sequence:
            check_epoch(known, header.producer_id, header.producer_epoch)
            return None
        duplicate = check_sequence(
            known, header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
        )
    except AppendRefused as refused:
        refused.message += f" in {log.name} at offset {log.log_end_offset}"
        refused.log_start_offset = log.log_start_offset
        raise
    if duplicate is None:
        check_transaction(known, header, log.name)
    return duplicate


def marker_in(
    log: PartitionLog,
    known: ProducerEntry | None,
    records: ReadBuffer,
    header: BatchHeader,
    transaction_version: int,
) -> TransactionMarker | None:
    """The transaction marker in a control batch of a producer. Raises AppendRefused."""
    marker = marker_of(records, header)
    if marker is not None:
        check_marker(known, header, marker, log.name, transaction_version)
        log.producer_state.verifications.forget(header.producer_id)
    return marker


def too_large_for_segment(log: PartitionLog, size_bytes: int) -> AppendRefused:
    return AppendRefused(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"A batch of {size_bytes} bytes does not fit into a segment of {log.name}: segment.bytes is "
        f"{log.config.segment_bytes}",
        (),
        log.log_start_offset,
    )
