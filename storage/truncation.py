"""Truncates a log at its end: that of a follower whose history diverges from its leader's, or one that begins
anew.

All that lay behind is forgotten everywhere: in segments and indexes, producers (their state is found again
from the newest snapshot and the headers behind it), leader epochs, high watermark and recovery point. Batches
are never split: if the offset lies within one, the whole batch is removed.

The truncation itself waits for no disk. A marker (`truncation_markers`) keeps the next start from believing
the checkpoints, and a sync is noted, here and by a start that finds the marker. Until that is done a power
cut may bring the truncated records back, and the follower then truncates them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import invariant
from storage.errors import LogStorageError
from storage.loaded_producers import load_producers
from storage.producer_state import ProducerState

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Removes everything from `offset` on. Raises LogStorageError."""
    _require_nothing_prepared(log)
    segments, durability = log.segments, log.durability
    if offset >= segments.log_end_offset:
        log.leader_epochs.truncate_from_end(offset)
        return
    if offset < segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return
    try:
        end_offset = segments.batch_start(offset)
        durability.mark_truncation(end_offset, min(log.log_start_offset, end_offset))
        segments.truncate_to(offset)
        end_offset = segments.log_end_offset
        log.limit_offsets()
        durability.limit_recovery_point(end_offset)
        log.leader_epochs.truncate_from_end(end_offset)
        durability.forget_from(end_offset)
        log.producer_state.replace_by(
            load_producers(log.files, log.directory, segments[:], durability.snapshot_offsets, end_offset)
        )
        durability.flush()
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot be cut to offset {offset}: {error}") from error


def truncate_fully_and_start_at(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Removes everything; the next record gets `offset`. Raises LogStorageError."""
    _require_nothing_prepared(log)
    try:
        log.durability.mark_truncation(offset, min(offset, log.log_start_offset))
        log.segments.start_anew(offset, now_ms)
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot start anew at offset {offset}: {error}") from error
    log.begin_at_log_end()
    log.durability.start_anew(offset)
    log.leader_epochs.clear()
    log.producer_state.replace_by(ProducerState())
    log.durability.forget_from(-1)
    log.durability.flush()


def _require_nothing_prepared(log: PartitionLog) -> None:
    if log.appends.queue.prepared:
        invariant(False, "Nothing is cut off under a prepared batch", log=log.name)
