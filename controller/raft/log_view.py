"""The replica's log as the node remembers it: where it begins and ends, whose epochs it holds, what is
synced.

    snapshots     (0,0)       (20,3)
                                ├───────────┬─────────────┤
    log                       start       synced         end

    end      the next append goes here: in memory, or in the page cache
    synced   below it everything is durable

Changes become effects at once (`operations`), and count at once: the driver will have executed them before
the next input. Until then what was appended is read from here.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from controller.raft.effects import (
    AdvanceLogStart,
    Append,
    DropPart,
    InstallSnapshot,
    LogOperation,
    SnapshotChunk,
    Truncate,
)
from controller.raft.identity import SnapshotId
from controller.raft.log_port import RaftLog
from protocol.errors import invariant
from protocol.primitives import Records
from storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs

__all__ = ["BOOTSTRAP_SNAPSHOT", "Fit", "LogView"]

BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)
"""The snapshot that `storage format` writes. It is not replicated: the first leader writes its voters into
the log."""


class Fit(NamedTuple):
    """How the end of another replica's log fits this log: its end offset, and the epoch of the record before
    it.

    If both fields are None, the other log is the beginning of this one. diverging: the other log must be
    truncated to the end of this epoch, the largest one known here that is not above its own. snapshot: the
    other log ends before this one begins, so the replica must load this snapshot first.
    """

    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None


FITS = Fit()


class LogView:
    """The offsets are plain attributes. Read them freely, and change them through the methods."""

    __slots__ = (
        "_base_epoch",
        "_is_dirty",
        "_sync_number",
        "_unexecuted",
        "_unsynced",
        "end_offset",
        "epochs",
        "operations",
        "port",
        "snapshots",
        "start_offset",
        "synced_offset",
    )

    def __init__(self, port: RaftLog) -> None:
        self.port = port
        self.start_offset = port.start_offset
        self.end_offset = port.end_offset
        self.synced_offset = port.end_offset
        self.epochs = LeaderEpochs(port.epochs())
        self.snapshots = list(port.snapshots())
        self.operations: list[LogOperation] = []
        self._base_epoch = self.snapshots[-1].epoch if self.snapshots else 0
        self._unexecuted: list[Append] = []
        self._unsynced: deque[tuple[int, int]] = deque()
        self._sync_number = 0
        self._is_dirty = False

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot behind which the log begins; 0 if there is
        neither."""
        latest = self.epochs.latest_epoch
        return latest if latest != UNDEFINED_EPOCH else self._base_epoch

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot, apart from the one without state that formatting writes."""
        newest = self.snapshots[-1] if self.snapshots else None
        return None if newest == BOOTSTRAP_SNAPSHOT else newest

    # Comparing

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest epoch here that is not above `epoch`, and its end offset. If `epoch` is above all of
        them, that is the end of the log."""
        known, end_offset = self.epochs.end_offset_for(epoch, self.end_offset)
        if known == UNDEFINED_EPOCH:
            return self.last_epoch, self.end_offset
        return known, end_offset

    def fit(self, offset: int, epoch: int) -> Fit:
        """How the log of a replica fits that fetches from `offset` and has a record of `epoch` before it."""
        latest = self.latest_snapshot
        if offset == 0 and latest is not None:
            return Fit(snapshot=latest)  # shorter than the log that led to it
        start = self.start_offset
        if start == 0:
            if offset == 0 and epoch == 0:
                return FITS
        elif latest is not None:
            earliest = next(each for each in self.snapshots if each != BOOTSTRAP_SNAPSHOT)
            if offset < start or epoch < earliest.epoch or (offset == start and epoch != earliest.epoch):
                return Fit(snapshot=latest)
        known, end_offset = self.end_offset_for(epoch)
        if known != epoch or end_offset < offset:
            return Fit(diverging=(known, end_offset))
        return FITS

    def read(self, offset: int, max_bytes: int) -> Records:
        """Batches from the one at `offset` on: at least one, otherwise at most max_bytes. Empty at the end of
        the log."""
        if offset >= self.end_offset:
            return b""
        unexecuted = self._unexecuted
        if not unexecuted or offset < unexecuted[0].base_offset:
            return self.port.read(offset, max_bytes)
        pieces: list[bytes] = []
        size_bytes = 0
        for append in unexecuted:
            if append.end_offset <= offset:
                continue
            size_bytes += len(append.records)
            if pieces and size_bytes > max_bytes:
                break
            pieces.append(append.records)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # Changing

    def append(self, records: bytes, end_offset: int, epoch: int) -> None:
        """Appends batches to the end of the log. All are of one epoch, which is not below the last one."""
        if epoch < self.last_epoch or end_offset <= self.end_offset:
            invariant(
                False, "a log grows, and its epochs do not fall",
                epoch=epoch, last_epoch=self.last_epoch, end_offset=end_offset, was=self.end_offset,
            )  # fmt: skip
        append = Append(self.end_offset, end_offset, records)
        self.epochs.assign(epoch, self.end_offset)
        self.operations.append(append)
        self._unexecuted.append(append)
        self.end_offset = end_offset
        self._is_dirty = True

    def truncate(self, offset: int) -> None:
        invariant(
            self.start_offset <= offset < self.end_offset,
            "a log is cut within",
            offset=offset, start=self.start_offset, end=self.end_offset,
        )  # fmt: skip
        self.operations.append(Truncate(offset))
        self.epochs.truncate_from_end(offset)
        self.end_offset = offset
        self.synced_offset = min(self.synced_offset, offset)
        self._unsynced = deque((number, min(end, offset)) for number, end in self._unsynced)
        self._unexecuted = [append for append in self._unexecuted if append.base_offset < offset]

    def add_chunk(self, snapshot: SnapshotId, position: int, content: bytes) -> None:
        self.operations.append(SnapshotChunk(snapshot, position, content))

    def drop_part(self, snapshot: SnapshotId) -> None:
        """Removes what has been received of a snapshot."""
        self.operations.append(DropPart(snapshot))

    def ask_install(self, snapshot: SnapshotId) -> None:
        """Has the driver install a snapshot. The node learns the outcome as an input of its own."""
        self.operations.append(InstallSnapshot(snapshot))

    def installed(self, snapshot: SnapshotId) -> None:
        """The log now begins and ends behind this snapshot, and older snapshots are not used any more."""
        self.snapshots = [snapshot]
        self.epochs.clear()
        self._base_epoch = snapshot.epoch
        self.start_offset = self.end_offset = self.synced_offset = snapshot.end_offset
        self._unsynced.clear()

    def snapshot_taken(self, snapshot: SnapshotId) -> None:
        self.snapshots.append(snapshot)

    def advance_start(self, snapshot: SnapshotId) -> None:
        """Has the log begin at this snapshot: what lies before it is removed."""
        self.operations.append(AdvanceLogStart(snapshot))
        self.snapshots = [each for each in self.snapshots if each >= snapshot]
        self.start_offset = snapshot.end_offset
        self._base_epoch = snapshot.epoch
        if snapshot.end_offset >= self.end_offset:
            self.epochs.clear()
        else:
            self.epochs.truncate_from_start(snapshot.end_offset)

    # The driver's side

    def take(self) -> tuple[list[LogOperation], int]:
        """Returns the operations since the last call, and the number of the sync that they need, or 0."""
        operations = self.operations
        if not operations:
            return operations, 0
        self.operations = []
        self._unexecuted = []
        if not self._is_dirty:
            return operations, 0
        self._is_dirty = False
        self._sync_number += 1
        self._unsynced.append((self._sync_number, self.end_offset))
        return operations, self._sync_number

    def synced(self, sync: int) -> None:
        """That sync has ended, and so have all that were asked for before it."""
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= sync:
            self.synced_offset = max(self.synced_offset, unsynced.popleft()[1])
