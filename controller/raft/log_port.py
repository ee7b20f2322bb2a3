"""The log as the node reads it: what the driver has executed so far.

The node itself remembers where its log begins and ends, which epoch begins where, and who votes; it reads
records only to send them to others, and all of it once, when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from controller.raft.identity import SnapshotId
from protocol.primitives import Records
from protocol.quorum import VotersRecord

__all__ = ["RaftLog", "SnapshotControl"]


class SnapshotControl(msgspec.Struct, frozen=True):
    """The control records of a snapshot, which the quorum needs. voters: None if it holds none."""

    kraft_version: int = 0
    voters: VotersRecord | None = None


class RaftLog(Protocol):
    """The read side of the replica's log. It changes only when the driver executes a Ready."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read: 0, or the end offset of a snapshot."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset at which the next append is written, whether the records before it are synced or not.

        When a node is made, this is the end of what was found intact on the disk, and all of it is durable.
        It is not below the end of the newest snapshot, because in that case the log is begun anew behind the
        snapshot first.
        """
        ...

    def epochs(self) -> Sequence[tuple[int, int]]:
        """Pairs of an epoch and the offset of its first record, both ascending, for all records that are in
        the log."""
        ...

    def read(self, offset: int, max_bytes: int) -> Records:
        """Batches from the one with `offset` on: at least one whole batch, then as many bytes as fit into
        max_bytes. The last batch may be incomplete. start_offset <= offset < end_offset. Returns `bytes`, or
        a slice of a file."""
        ...

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """Reads as `read` does, but copies the batches into memory, and the last one is complete too."""
        ...

    def snapshots(self) -> Sequence[SnapshotId]:
        """The complete snapshots, the oldest first. (0, 0) is among them if the node was formatted with
        voters."""
        ...

    def snapshot_control(self, snapshot: SnapshotId) -> SnapshotControl:
        """Reads the voters and the kraft.version of a snapshot, which must be there."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Bytes of a snapshot from a position within it: at least one, and at most max_bytes."""
        ...

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """The size of a snapshot in bytes; None if there is no such snapshot."""
        ...
