"""What the raft node persists: its log, its snapshots, the quorum-state file.

    <metadata.log.dir>/__cluster_metadata-0/
        00000000000000000000.log …                      batches as in any partition; leader epoch = raft epoch
        00000000000000000000-0000000000.checkpoint      first voters, from `storage format`
        <end offset>-<epoch>.checkpoint                 snapshots of the state
        <end offset>-<epoch>.checkpoint.part            one that is being written or fetched
        quorum-state                                    epoch, leader and vote
        leader-epoch-checkpoint, partition.metadata

Appends are written at once and synced by helper threads: what was written while a sync ran shares the next
one. All else is durable before its `done` is called. If a write or a sync fails nothing after it can be
trusted: `MetadataLogFailed` goes up to the loop and ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from config.ports import Clock, Files, Offload
from controller.raft.effects import HardState
from controller.raft.identity import NOBODY, ReplicaKey, SnapshotId
from controller.raft.log_failure import named_refusals, raise_if_refused
from controller.raft.log_port import SnapshotControl
from controller.raft.quorum_state import QuorumStateFile
from controller.raft.quorum_state import write as write_quorum_state
from controller.raft.snapshot_directory import SnapshotDirectory
from controller.raft.snapshot_files import (
    PART_SUFFIX,
    MalformedMetadataSnapshot,
    check_snapshot,
    list_snapshots,
    read_control,
    snapshot_name,
)
from protocol.errors import invariant
from protocol.primitives import Records
from protocol.values import ZERO_UUID
from storage.background_tasks import BackgroundTask, TaskKind
from storage.file_io import write_fully
from storage.partition_log import PartitionLog
from storage.retention import SNAPSHOT_GENERATED

__all__ = ["ReplicaDisk", "hard_state_of"]


class ReplicaDisk:
    """Implements `controller.raft.log_port.RaftLog` for the node, and the changes that the driver makes. All
    calls are made on the loop."""

    def __init__(
        self,
        log: PartitionLog,
        snapshots: SnapshotDirectory,
        files: Files,
        clock: Clock,
        offload: Offload,
    ) -> None:
        """The background tasks of the log must be used by this log alone, because a sync waits for all of
        them."""
        self.log = log
        self.snapshot_directory = snapshots
        self.files = files
        self._clock = clock
        self._offload = offload
        self._asked_sync = 0
        self._running_sync = 0
        self.on_synced: Callable[[int], None] = lambda sync: None
        """Called with the number of the latest sync that has ended."""

    @property
    def directory(self) -> str:
        return self.log.directory

    # The reads of the node

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    def epochs(self) -> Sequence[tuple[int, int]]:
        """The epochs of the records in the log. The log's own list may hold one more: the epoch of the
        records before its start, of which none is left. After a crash that may even be the epoch of a log
        that a snapshot has replaced."""
        end_offset = self.end_offset
        return [each for each in self.log.leader_epochs.entries() if each[1] < end_offset]

    def read(self, offset: int, max_bytes: int) -> Records:
        """A slice of the log. It is retained for the one that sends it, who releases it. Raises
        MetadataLogFailed."""
        with named_refusals(self.directory, "read"):
            piece = self.log.read(offset, max_bytes=max_bytes)
        if piece is None:
            return b""
        piece.retain()
        return piece

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """What the node itself has to know, as it is committed. Raises MetadataLogFailed."""
        with named_refusals(self.directory, "read"):
            piece = self.log.read(offset, max_bytes=max_bytes)
            return b"" if piece is None else piece.read()

    def snapshots(self) -> Sequence[SnapshotId]:
        return list_snapshots(self.files, self.directory)

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self.directory}/{snapshot_name(snapshot)}"

    def snapshot_control(self, snapshot: SnapshotId) -> SnapshotControl:
        """The control records of a snapshot. Raises MalformedSnapshot and OSError."""
        return read_control(self.files, self._path(snapshot))

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """A part of a snapshot. Raises MetadataLogFailed."""
        with named_refusals(self.directory, "read"):
            file = self.files.open(self._path(snapshot))
            try:
                return file.pread(max_bytes, position)
            finally:
                file.close()

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        path = self._path(snapshot)
        return self.files.status(path).size_bytes if self.files.exists(path) else None

    # The changes of the driver

    def persist(
        self, state: HardState, kraft_version: int, voters: Sequence[int], done: Callable[[], None]
    ) -> None:
        """Replaces the quorum-state file, and calls `done` when that is durable."""
        content = quorum_state_file(state, kraft_version, voters)
        call = partial(write_quorum_state, self.files, self.directory, content)
        self._offload.submit(call, partial(self._after, done))

    def persist_now(self, state: HardState, kraft_version: int, voters: Sequence[int]) -> None:
        """Replaces the quorum-state file and waits until that is durable. It is used before the node serves
        anybody."""
        write_quorum_state(self.files, self.directory, quorum_state_file(state, kraft_version, voters))

    def append(self, records: bytes) -> None:
        """Writes record batches to the end of the log, without a sync. Raises MetadataLogFailed."""
        with named_refusals(self.directory):
            self.log.append_as_follower(records, now_ms=self._clock.wall_ms())

    def _check(self, outcome: object) -> None:
        """Looks at the result of a helper thread. If the disk has refused, the error goes up to the loop."""
        raise_if_refused(self.directory, outcome)

    def _after(self, done: Callable[[], None], outcome: object) -> None:
        self._check(outcome)
        done()

    def truncate(self, offset: int, done: Callable[[], None]) -> None:
        """Truncates the log, and calls `done` when that is durable: truncated records must not come back
        under new ones. Raises MetadataLogFailed."""
        with named_refusals(self.directory):
            self.log.truncate_to(offset, now_ms=self._clock.wall_ms())
        invariant(self.log.log_end_offset == offset, "a log is cut between batches", offset=offset)
        file = self.log.active.log.file()

        def sync() -> None:
            file.fdatasync()
            self.files.fsync_directory(self.directory)  # segments that went must not come back either

        self._offload.submit(sync, partial(self._after, done))

    def add_chunk(self, snapshot: SnapshotId, position: int, content: bytes) -> None:
        """Writes a part of a snapshot into its `.part` file. Position 0 creates the file anew. Raises
        MetadataLogFailed."""
        with named_refusals(self.directory):
            file = self.files.open(self._part(snapshot), create=True)
            try:
                if position == 0:
                    file.truncate(0)
                write_fully(file, (content,), len(content), position, self._part(snapshot))
            finally:
                file.close()

    def drop_part(self, snapshot: SnapshotId) -> None:
        """Removes the `.part` file of a snapshot, if it is there. Raises MetadataLogFailed."""
        with named_refusals(self.directory):
            if self.files.exists(self._part(snapshot)):
                self.files.unlink(self._part(snapshot))

    def _part(self, snapshot: SnapshotId) -> str:
        return self._path(snapshot).removesuffix(".checkpoint") + PART_SUFFIX

    def install(self, snapshot: SnapshotId, done: Callable[[SnapshotControl | None], None]) -> None:
        """Checks the snapshot that was fetched. If it is complete, it is synced and renamed, and the log
        begins anew behind it. After a crash that follows the renaming, the next start completes the rest.
        Raises MetadataLogFailed."""
        part, path = self._part(snapshot), self._path(snapshot)
        with named_refusals(self.directory, "read"):
            content = self.files.read_bytes(part)
        try:
            control = check_snapshot(content, part)
        except MalformedMetadataSnapshot:
            with named_refusals(self.directory):
                self.files.unlink(part)
            done(None)
            return
        self._offload.submit(
            partial(_sync_and_rename, self.files, part, path, self.directory),
            partial(self._after, partial(self._installed, snapshot, control, done)),
        )

    def _installed(
        self,
        snapshot: SnapshotId,
        control: SnapshotControl,
        done: Callable[[SnapshotControl | None], None],
    ) -> None:
        self.snapshot_directory.fetched(snapshot)
        self.begin_log_behind(snapshot)
        done(control)

    def begin_log_behind(self, snapshot: SnapshotId) -> None:
        """Removes the whole log. The snapshot holds everything that was in it."""
        with named_refusals(self.directory):
            self.log.truncate_fully_and_start_at(snapshot.end_offset, now_ms=self._clock.wall_ms())
        self.forget_snapshots_before(snapshot.end_offset)

    def advance_start(self, snapshot: SnapshotId) -> None:
        """Moves the log start to the end of a snapshot: whole segments before it are removed, and older
        snapshots."""
        self.log.increase_log_start(snapshot.end_offset, SNAPSHOT_GENERATED)
        with named_refusals(self.directory):
            self.log.delete_old_segments(self._clock.wall_ms())
        self.forget_snapshots_before(snapshot.end_offset)

    def forget_snapshots_before(self, offset: int) -> None:
        with named_refusals(self.directory):
            self.snapshot_directory.forget_before(offset)

    # Syncing

    @property
    def is_syncing(self) -> bool:
        return self._running_sync > 0

    def sync(self, number: int) -> None:
        """Begins a sync. Everything written so far is durable when `on_synced` is called with this number or
        a later one."""
        self._asked_sync = number
        if not self._running_sync:
            self._begin_sync()

    def _begin_sync(self) -> None:
        number = self._running_sync = self._asked_sync
        self.log.flush()
        due = self.log.background_tasks.take_due(self._clock.wall_ms())
        background_tasks = [task for task in due if task.kind is not TaskKind.REMOVE]
        for removal in due:
            if removal.kind is TaskKind.REMOVE:
                self._offload.submit(removal.call, self._check)
        waiting = [len(background_tasks)]

        def finished(task: BackgroundTask, outcome: object) -> None:
            self._check(outcome)
            if task.done is not None:
                task.done()
            waiting[0] -= 1
            if not waiting[0]:
                self._end_sync(number)

        if not background_tasks:
            self._end_sync(number)
        for task in background_tasks:
            self._offload.submit(task.call, partial(finished, task))

    def _end_sync(self, number: int) -> None:
        self._running_sync = 0
        self.on_synced(number)  # what was gathered meanwhile is written now, and shares the next sync
        if self._asked_sync > number and not self._running_sync:
            self._begin_sync()

    def sync_now(self) -> None:
        """Syncs, and waits for it. It is used before the node serves anybody, and when it shuts down."""
        self.log.flush()
        for task in self.log.background_tasks.take_all():
            task.call()
            if task.done is not None:
                task.done()

    def close(self) -> None:
        self.log.durability.write_snapshot()
        self.sync_now()
        self.log.close()


def quorum_state_file(state: HardState, kraft_version: int, voters: Sequence[int]) -> QuorumStateFile:
    """The content of the quorum-state file. Version 0 of it repeats the voters of the config, version 1 holds
    directory ids."""
    voted = state.voted
    return QuorumStateFile(
        leader_epoch=state.epoch,
        leader_id=state.leader_id,
        voted_id=NOBODY if voted is None else voted.id,
        voted_directory_id=ZERO_UUID if voted is None else voted.directory_id,
        data_version=1 if kraft_version > 0 else 0,
        voters=() if kraft_version > 0 else tuple(voters),
    )


def hard_state_of(file: QuorumStateFile) -> HardState:
    """The content of the quorum-state file in the form in which the node gets it."""
    voted = None
    if file.voted_id != NOBODY:
        voted = ReplicaKey(file.voted_id, file.voted_directory_id or ZERO_UUID)
    return HardState(file.leader_epoch, file.leader_id, voted)


def _sync_and_rename(files: Files, part: str, path: str, directory: str) -> None:
    file = files.open(part, write=True)
    try:
        file.fsync()
    finally:
        file.close()
    files.rename(part, path)
    files.fsync_directory(directory)
