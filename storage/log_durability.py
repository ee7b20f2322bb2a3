"""How what one log has in memory reaches the disk, and what its checkpoints may be believed.

Nothing here waits for the disk: syncs and small files are background tasks for the helper threads. What a
start finds after a crash is an older state of each, and the recovery point says from where on it has to look
for itself.

    segments         synced; then the recovery point moves up to where the log ended when the sync began
    producers        `<log end>.snapshot`, at each roll and at the end
    leader epochs    `leader-epoch-checkpoint`, before each sync
    truncation       `cut-below-checkpoint`, before a cut; then a sync (`truncation_markers`)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from storage.background_tasks import BackgroundTasks, TaskKind
from storage.checkpoints import encode_leader_epochs
from storage.file_io import sync_files
from storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    segment_file,
)
from storage.leader_epochs import LeaderEpochs
from storage.log_segments import LogSegments
from storage.producer_snapshot import encode_snapshot
from storage.producer_state import ProducerState
from storage.retention import remove_file
from storage.truncation_markers import (
    MaxCheckpointedOffset,
    TruncationMarker,
    not_checkpointed,
    unlink_truncation_marker,
    write_truncation_marker,
)


class Sync(NamedTuple):
    """A sync of a log. `call` is for a helper thread; one of the two callbacks follows on the loop."""

    call: Callable[[], None]
    done: Callable[[], None]
    failed: Callable[[], None]


class LogDurability:
    """Brings one log to the disk. The log owns it. All calls come from the loop."""

    __slots__ = (
        "_background_tasks",
        "_durable_names",
        "_flushed_ms",
        "_has_new_directory",
        "_leader_epochs",
        "_max_checkpointed_offset",
        "_producer_state",
        "_segments",
        "has_unsynced_truncation",
        "recovery_point",
        "snapshot_offsets",
        "truncation_marker",
    )

    def __init__(
        self,
        segments: LogSegments,
        producer_state: ProducerState,
        leader_epochs: LeaderEpochs,
        background_tasks: BackgroundTasks,
        recovery_point: int,
        snapshot_offsets: list[int],
    ) -> None:
        self._segments = segments
        self._producer_state = producer_state
        self._leader_epochs = leader_epochs
        self._background_tasks = background_tasks
        self.recovery_point = recovery_point
        """Everything below it is on the disk."""
        self.snapshot_offsets = snapshot_offsets
        """The producer snapshots in the directory, ascending."""
        self.truncation_marker: TruncationMarker | None = None
        """The content of `cut-below-checkpoint` in the log's directory, if the file is there."""
        self.has_unsynced_truncation = False
        """Whether a power cut may bring back what was truncated."""
        self._max_checkpointed_offset: MaxCheckpointedOffset = not_checkpointed
        self._flushed_ms = 0
        self._durable_names = -1
        """The number of changes of segment names that are on the disk for certain."""
        self._has_new_directory = False

    # Syncs

    def note_new_directory(self) -> None:
        """Notes that the log's directory was created or renamed, so that the next sync includes the parent
        directory."""
        self._has_new_directory = True

    def flush(self) -> None:
        """Notes background tasks after which everything up to the present log end is on the disk.

        Leader epochs are written first, because after a crash the log below a recovery point is not read
        again to find them.
        """
        self.write_leader_epochs()
        sync = self.plan_sync(self._segments.log_end_offset)
        directory = self._segments.directory
        self._background_tasks.add(TaskKind.SYNC, directory, directory, sync.call, sync.done, sync.failed)

    def plan_sync(self, up_to_offset: int) -> Sync:
        """The sync after which everything below `up_to_offset` is on the disk. The caller has it run.

        The active segment's indexes are left out, because recovery makes them anew.
        """
        segments = self._segments
        paths: list[str] = []
        for segment in segments[segments.number_of(self.recovery_point) :]:
            if segment.base_offset <= up_to_offset:
                paths.append(segment.path(LOG_SUFFIX))
                if segment.is_sealed:
                    # Whether there is a .txnindex need not be known: another process may have made it.
                    paths += [segment.path(suffix) for suffix in SEGMENT_SUFFIXES[1:]]
        name_changes = segments.name_changes
        directories = [segments.directory] if name_changes > self._durable_names else []
        if self._has_new_directory:
            directories.append(segments.directory.rpartition("/")[0])
        segments.sync_began()
        call = partial(sync_files, segments.files, directories, paths)
        return Sync(
            call,
            partial(self._synced, up_to_offset, segments.truncations, name_changes),
            segments.sync_ended,
        )

    def _synced(self, up_to_offset: int, truncations: int, name_changes: int) -> None:
        """Raises the recovery point, unless the leader epochs could not be written."""
        segments = self._segments
        segments.sync_ended()
        if self._leader_epochs.has_failed:
            return
        self._durable_names = max(self._durable_names, name_changes)
        if segments.truncations == truncations and segments.unfinished_cut is None:
            self._has_new_directory = False
            self.has_unsynced_truncation = False
            self.recovery_point = max(self.recovery_point, up_to_offset)

    def is_on_disk(self, offset: int) -> bool:
        """Whether the log's directory is on the disk with everything below `offset` that is in the log."""
        return not self._has_new_directory and self.recovery_point >= min(
            offset, self._segments.log_end_offset
        )

    @property
    def checkpointed_recovery_point(self) -> int:
        """The recovery point that a start may be told. It lies below the first epoch that is not in
        `leader-epoch-checkpoint` yet: an append's own sync does not wait for that file, and segments below
        the recovery point are not read to find it."""
        return min(self.recovery_point, self._leader_epochs.unwritten_offset)

    def checkpointed_high_watermark(self, high_watermark: int) -> int:
        """The high watermark that a start may be told. While a power cut may bring back what was truncated,
        it lies below all of that: otherwise it would speak of records that came later, and be believed of
        those that are back."""
        marker = self.truncation_marker
        if marker is None or not self.has_unsynced_truncation:
            return high_watermark
        return min(high_watermark, marker.end_offset)

    def is_flush_due(self, end_offset: int) -> bool:
        """Whether a log that ends there has `flush.messages` records or more that may not be on the disk."""
        return end_offset - self.recovery_point >= self._segments.config.flush_messages

    def flush_if_due(self, now_ms: int) -> None:
        """Applies `flush.ms`, and `flush.messages` to records that no append has synced. By default syncing
        is left to the operating system."""
        log_end_offset = self._segments.log_end_offset
        if log_end_offset == self.recovery_point:
            self._flushed_ms = now_ms
        elif self.is_flush_due(log_end_offset) or now_ms - self._flushed_ms >= self._segments.config.flush_ms:
            self._flushed_ms = now_ms
            self.flush()

    def limit_recovery_point(self, offset: int) -> None:
        """Lowers the recovery point to `offset`, because nothing is known to be on the disk from there on."""
        self.recovery_point = min(self.recovery_point, offset)

    def start_anew(self, offset: int) -> None:
        """The log is empty, and begins at `offset`."""
        self.recovery_point = offset

    # Small files

    def write_snapshot(self) -> None:
        """Notes the background task of writing the producers as they are now to `<log end>.snapshot`."""
        offset = self._segments.log_end_offset
        path = self._snapshot(offset)
        self._write(path, encode_snapshot(self._producer_state.entries()))
        if not self.snapshot_offsets or self.snapshot_offsets[-1] < offset:
            self.snapshot_offsets.append(offset)

    def write_leader_epochs(self) -> None:
        """Notes the background task of writing `leader-epoch-checkpoint`, if the epochs have changed."""
        epochs = self._leader_epochs
        if not epochs.needs_writing(self._segments.log_end_offset):
            return
        written = epochs.note_writing()
        path = f"{self._segments.directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._write(path, encode_leader_epochs(epochs.entries()), written, epochs.note_failure)

    def _write(
        self,
        path: str,
        data: bytes,
        done: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        segments = self._segments
        call = partial(segments.files.write_atomically, path, data)
        self._background_tasks.add(TaskKind.WRITE, path, segments.directory, call, done, failed)

    def remove_snapshots(self, offsets: list[int]) -> None:
        """Notes the removal of producer snapshots that no segment needs any more. The newest one is kept."""
        leaving = [offset for offset in self.snapshot_offsets[:-1] if offset in offsets]
        for offset in leaving:
            self.snapshot_offsets.remove(offset)
            self._remove_later(self._snapshot(offset))

    def keep_snapshots(self, offsets: list[int]) -> None:
        """Forgets the producer snapshots that are not among these, which are the ones in the directory."""
        self.snapshot_offsets[:] = [offset for offset in self.snapshot_offsets if offset in offsets]

    def forget_from(self, offset: int) -> None:
        """Removes the producer snapshots above `offset` at once, because the log was truncated there. Those
        that a helper thread is writing are removed after it: a snapshot of records that are not in the log
        would be believed. Raises OSError."""
        segments = self._segments
        directory = segments.directory
        epochs_path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._background_tasks.drop(directory, TaskKind.WRITE, path=epochs_path)
        self._leader_epochs.note_change()
        while self.snapshot_offsets and self.snapshot_offsets[-1] > offset:
            path = self._snapshot(self.snapshot_offsets[-1])
            self._background_tasks.drop(directory, TaskKind.WRITE, path=path)
            remove_file(segments.files, path)
            self._remove_later(path)
            self.snapshot_offsets.pop()

    def _snapshot(self, offset: int) -> str:
        return f"{self._segments.directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"

    def _remove_later(self, path: str) -> None:
        segments = self._segments
        call = partial(remove_file, segments.files, path)
        self._background_tasks.add(TaskKind.REMOVE, path, segments.directory, call)

    # Truncation markers

    def set_max_checkpointed_offset(self, max_checkpointed_offset: MaxCheckpointedOffset) -> None:
        """Sets the function that tells the largest offset which the checkpoints of the log's directory may
        hold."""
        self._max_checkpointed_offset = max_checkpointed_offset

    def mark_truncation(self, end_offset: int, start_offset: int) -> None:
        """Writes a truncation marker, right before the log is truncated to `end_offset`. A log of which no
        checkpoint is written gets none.

        Raises OSError. Then the log must not be truncated.
        """
        if self._max_checkpointed_offset is not not_checkpointed:
            self._mark(TruncationMarker(end_offset, start_offset))
            self.has_unsynced_truncation = True

    def mark_if_checkpointed(self, end_offset: int, start_offset: int) -> None:
        """Writes a truncation marker if a checkpoint holds more than `end_offset`: it may speak of another
        log, which lay in this directory before. Raises OSError."""
        if self._max_checkpointed_offset() > end_offset:
            self._mark(TruncationMarker(end_offset, start_offset))

    def check_truncation_marker(self, found: TruncationMarker | None, log_start_offset: int) -> None:
        """Takes over the marker that a start has found, with a sync: the truncation may have had none. Or
        writes a marker if the log ends below what the checkpoints say. Raises OSError."""
        self.truncation_marker = found
        if found is not None:
            self.has_unsynced_truncation = True
            self.flush()
        if self._max_checkpointed_offset() > self._segments.log_end_offset:
            self._mark(TruncationMarker(self.recovery_point, log_start_offset))

    def remove_truncation_marker(self) -> None:
        """Removes the marker, because the checkpoints have been written since, unless the truncation may not
        be on the disk yet. Raises OSError."""
        if self.truncation_marker is not None and not self.has_unsynced_truncation:
            unlink_truncation_marker(self._segments.files, self._segments.directory)
            self._durable_names = -1
            self.truncation_marker = None

    def forget_truncation_marker(self) -> None:
        """Forgets the marker, because the log lies in another directory now, which has none."""
        self.truncation_marker = None
        self.has_unsynced_truncation = False

    def _mark(self, marker: TruncationMarker) -> None:
        known = self.truncation_marker
        if known is not None:
            marker = TruncationMarker(
                min(known.end_offset, marker.end_offset), min(known.start_offset, marker.start_offset)
            )
        if marker != known:
            write_truncation_marker(self._segments.files, self._segments.directory, marker)
            self.truncation_marker = marker
