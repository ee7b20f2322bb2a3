"""A row of segments with what is remembered of them, and how all of it reaches the disk.

Nothing here waits for the disk: syncs and small files are background tasks for the helper threads. What a
start finds after a crash is an older state of each, and the recovery point says from where on it has to look
for itself.
"""

from __future__ import annotations

from functools import partial

from config.ports import Files
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.checkpoints import encode_leader_epochs
from storage.file_names import LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, segment_file
from storage.loaded_log import LoadedLog
from storage.log_config import LogConfig
from storage.log_segments import LogSegments, Sync
from storage.producer_snapshot import encode_snapshot


class DurableLog(LogSegments):
    """`PartitionLog` without its ways in and out."""

    __slots__ = ("_flushed_ms", "leader_epochs", "producer_state", "snapshot_offsets")

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        background_tasks: BackgroundTasks,
        found: LoadedLog,
    ) -> None:
        """Raises OSError."""
        super().__init__(
            files, directory, topic, partition, config, background_tasks,
            found.segments, found.log_end_offset, found.recovery_point,
        )  # fmt: skip
        self.producer_state = found.producer_state
        self.leader_epochs = found.leader_epochs
        self.snapshot_offsets = found.snapshot_offsets
        """The producer snapshots in the directory, ascending."""
        self._flushed_ms = 0

    def note_sync(self, up_to_offset: int) -> None:
        """Leader epochs first: what lies below a recovery point is not read again to find them."""
        self.write_leader_epochs()
        super().note_sync(up_to_offset)

    def plan_sync(self, up_to_offset: int) -> Sync:
        """If the leader epochs could not be written the recovery point stays where it is."""
        sync = super().plan_sync(up_to_offset)
        return sync._replace(done=partial(self._synced, sync))

    def _synced(self, sync: Sync) -> None:
        (sync.failed if self.leader_epochs.has_failed else sync.done)()

    def flush(self) -> None:
        """Notes background tasks after which everything up to the present log end is on the disk."""
        self.note_sync(self.log_end_offset)

    def is_flush_due(self, end_offset: int) -> bool:
        """Whether a log that ends there has `flush.messages` records or more that may not be on the disk."""
        return end_offset - self.recovery_point >= self.config.flush_messages

    def flush_if_due(self, now_ms: int) -> None:
        """Applies `flush.ms`, and `flush.messages` to what no append has synced; by default the disk is left
        to the operating system."""
        if self.log_end_offset == self.recovery_point:
            self._flushed_ms = now_ms
        elif self.is_flush_due(self.log_end_offset) or now_ms - self._flushed_ms >= self.config.flush_ms:
            self._flushed_ms = now_ms
            self.flush()

    def write_snapshot(self) -> None:
        """Notes the background task of writing the producers as they are now to `<log end>.snapshot`."""
        offset = self.log_end_offset
        path = f"{self.directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"
        data = encode_snapshot(self.producer_state.entries())
        call = partial(self.files.write_atomically, path, data)
        self.background_tasks.add(TaskKind.WRITE, path, self.directory, call)
        if not self.snapshot_offsets or self.snapshot_offsets[-1] < offset:
            self.snapshot_offsets.append(offset)

    def write_leader_epochs(self) -> None:
        """Notes the background task of writing `leader-epoch-checkpoint`, if there is anything new to say."""
        epochs = self.leader_epochs
        if not epochs.changed or epochs.latest_start_offset >= self.log_end_offset:
            return  # an epoch without records is forgotten by a restart, which begins another
        epochs.changed = False
        path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
        data = encode_leader_epochs(epochs.entries())
        call = partial(self.files.write_atomically, path, data)
        self.background_tasks.add(
            TaskKind.WRITE, path, self.directory, call, epochs.note_written, epochs.note_failure
        )
