"""Truncates a log at its end: that of a follower whose history diverges from its leader's, or one that begins
anew.

All that lay behind is forgotten everywhere: in segments and indexes, producers (their state is found again
from the newest snapshot and the headers behind it), leader epochs, high watermark and recovery point. Batches
are never split: if the offset lies within one, the whole batch is removed.

    look      where the log will end; a marker (`truncation_markers`) is written. Nothing has changed yet
    cut       in memory the log ends there, which cannot fail: nobody reads further any more
    finish    files are renamed and truncated, and producers are loaded. If the disk refuses a step, all of it
              is done again (`finish`) before the log takes an append, begins a segment, is truncated again or
              is closed

The truncation itself waits for no disk. The marker keeps the next start from believing the checkpoints, and a
sync is noted, here and by a start that finds the marker. Until that is done a power cut may bring the
truncated records back, and the follower then truncates them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from protocol.errors import invariant
from storage.compaction_marker import lower_compaction_marker
from storage.errors import LogStorageError
from storage.loaded_producers import load_producers
from storage.producer_state import ProducerState
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Removes everything from `offset` on. Raises LogStorageError."""
    _require_nothing_prepared(log)
    finish(log)
    segments, durability = log.segments, log.durability
    if offset >= segments.log_end_offset:
        log.leader_epochs.truncate_from_end(offset)
        return
    if offset < segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return
    try:
        number, size_bytes, end_offset = segments.find_end(offset)
        durability.mark_truncation(end_offset, min(log.log_start_offset, end_offset))
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot be cut to offset {offset}: {error}") from error
    leaving = segments.end_at(number, size_bytes, end_offset)
    log.limit_offsets()
    durability.limit_recovery_point(end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    _begin(log, partial(_cut_files, log, leaving))


def truncate_fully_and_start_at(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Removes everything; the next record gets `offset`. Raises LogStorageError."""
    _require_nothing_prepared(log)
    finish(log)
    try:
        log.durability.mark_truncation(offset, min(offset, log.log_start_offset))
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot start anew at offset {offset}: {error}") from error
    gone = log.segments.begin_anew(offset, now_ms)
    log.begin_at_log_end()
    log.durability.start_anew(offset)
    log.leader_epochs.clear()
    log.producer_state.replace_by(ProducerState())
    _begin(log, partial(_remove_files, log, gone))


def finish(log: PartitionLog) -> None:
    """Finishes a truncation that the disk has not let through, if there is one. Raises LogStorageError."""
    segments = log.segments
    if segments.unfinished_cut is None:
        return
    try:
        segments.unfinished_cut()
    except OSError as error:
        raise LogStorageError(
            f"{log.directory} cannot be cut to offset {segments.log_end_offset}: {error}. It takes no "
            "records until it can"
        ) from error
    segments.unfinished_cut = None
    log.appends.lane_changed()
    log.durability.flush()


def _begin(log: PartitionLog, cut: Callable[[], None]) -> None:
    log.segments.unfinished_cut = cut
    log.appends.lane_changed()
    finish(log)


def _cut_files(log: PartitionLog, leaving: Sequence[Segment]) -> None:
    """Brings what the log is in memory to the files. It may be repeated. Raises OSError."""
    segments, durability = log.segments, log.durability
    end_offset = segments.log_end_offset
    segments.cut_files(leaving)
    durability.forget_from(end_offset)
    lower_compaction_marker(log.files, log.directory, end_offset)
    log.producer_state.replace_by(
        load_producers(log.files, log.directory, segments[:], durability.snapshot_offsets, end_offset)
    )


def _remove_files(log: PartitionLog, gone: Sequence[Segment]) -> None:
    """Does as `_cut_files` for a log that begins anew."""
    log.durability.forget_from(-1)
    lower_compaction_marker(log.files, log.directory, log.log_end_offset)
    log.segments.replace_files(gone)  # is the last step: the new file may have the name of an old one


def _require_nothing_prepared(log: PartitionLog) -> None:
    if log.appends.queue.prepared:
        invariant(False, "Nothing is cut off under a prepared batch", log=log.name)
