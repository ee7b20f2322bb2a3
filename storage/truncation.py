"""Cutting a log at its end: a follower whose history parts from its leader's, or one that starts anew.

Whatever lay behind the cut is forgotten everywhere: segments and indexes, producers (their state is found
again from the newest snapshot and the headers behind it), leader epochs, high watermark and recovery
point. Batches are never split: a cut within one takes the whole of it.

The cut itself waits for no disk. A mark (`truncation_markers`) keeps the checkpoints from being believed of
what comes now, and a sync is noted: until it is done a power cut may bring back what was cut off, in which
case whoever cut it does so again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from protocol.errors import invariant
from storage.background_tasks import TaskKind
from storage.errors import LogStorageError
from storage.file_names import LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, segment_file
from storage.loaded_producers import load_producers
from storage.producer_state import ProducerState
from storage.retention import remove_file, remove_files
from storage.segment import Segment
from storage.truncation_markers import mark_truncation

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Everything from `offset` on goes. Raises LogStorageError."""
    if log.queue.prepared:
        invariant(False, "Nothing is cut off under a prepared batch", log=log.name)
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(offset)
        return
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return
    try:
        kept = log.segment_index_of(offset) + 1
        found = log.segments[kept - 1].locate(offset)
        end_offset = offset if found is None else min(offset, found.base_offset)
        mark_truncation(log, end_offset, min(log.log_start_offset, end_offset))
        leaving = log.segments[kept:]
        del log.segments[kept:]
        log.note_cut()
        remove_files(log, leaving[::-1], 0)  # from the end: a crash in between leaves no gap
        end_offset = log.segments[-1].truncate_to(offset)
        log.activate(log.segments[-1])
        _set_end(log, end_offset)
        log.leader_epochs.truncate_from_end(end_offset)
        _remove_snapshots_above(log, end_offset)
        log.producer_state = load_producers(
            log.files, log.directory, log.segments, log.snapshot_offsets, end_offset
        )
        log.flush()
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot be cut to offset {offset}: {error}") from error


def truncate_fully_and_start_at(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Everything goes, and the next record gets `offset`. Raises LogStorageError."""
    if log.queue.prepared:
        invariant(False, "Nothing is cut off under a prepared batch", log=log.name)
    try:
        mark_truncation(log, offset, min(offset, log.log_start_offset))
        leaving = log.segments[::-1]
        log.note_cut()
        remove_files(log, leaving, 0)
        segment = Segment(log.files, log.directory, offset, fresh=True, created_ms=now_ms)
        segment.create()
        log.segments[:] = [segment]
        log.activate(segment)
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot start anew at offset {offset}: {error}") from error
    _set_end(log, offset)
    log.log_start_offset = log.high_watermark = offset
    log.recovery_point = offset
    log.leader_epochs.clear()
    log.producer_state = ProducerState()
    _remove_snapshots_above(log, -1)
    log.flush()


def _set_end(log: PartitionLog, end_offset: int) -> None:
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)
    log.recovery_point = min(log.recovery_point, end_offset)


def _remove_snapshots_above(log: PartitionLog, offset: int) -> None:
    """At once, and once more behind what of them a helper thread is writing: a snapshot of what never was
    would be believed."""
    log.background_tasks.drop(
        log.directory, TaskKind.WRITE, path=f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}"
    )
    log.leader_epochs.note_change()
    while log.snapshot_offsets and log.snapshot_offsets[-1] > offset:
        path = f"{log.directory}/{segment_file(log.snapshot_offsets[-1], SNAPSHOT_SUFFIX)}"
        log.background_tasks.drop(log.directory, TaskKind.WRITE, path=path)
        remove_file(log.files, path)
        log.background_tasks.add(TaskKind.REMOVE, path, log.directory, partial(remove_file, log.files, path))
        log.snapshot_offsets.pop()
