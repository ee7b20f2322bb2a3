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
    """The control records of a snapshot: what the quorum needs to know of it. voters: None for none."""

    kraft_version: int = 0
    voters: VotersRecord | None = None


class RaftLog(Protocol):
    """The read side of the replica's log. Nothing here changes but by the driver executing a Ready."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read: 0, or the end offset of a snapshot."""
        ...

    @property
    def end_offset(self) -> int:
        """Where the next append goes, synced or not. When a node is made: the end of what was found whole on
        the disk, and is durable; not before the end of the newest snapshot (else the log is begun anew behind
        that one first)."""
        ...

    def epochs(self) -> Sequence[tuple[int, int]]:
        """(epoch, offset of its first record), both ascending, for all records that are in the log."""
        ...

    def read(self, offset: int, max_bytes: int) -> Records:
        """Batches from the one with `offset` on: at least one whole one, then as many bytes as fit into
        max_bytes; the last may be cut. start_offset <= offset < end_offset. `bytes` or a slice of a file."""
        ...

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """As `read`, but the batches are copied into memory, and the last one is whole too."""
        ...

    def snapshots(self) -> Sequence[SnapshotId]:
        """The whole ones, ascending; (0, 0) is among them in a node that was formatted with voters."""
        ...

    def snapshot_control(self, snapshot: SnapshotId) -> SnapshotControl:
        """Reads the voters and the kraft.version of a snapshot, which must be there."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Bytes of a snapshot from a position within it, at most max_bytes and at least one."""
        ...

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """Its length in bytes; None if there is no such snapshot."""
        ...
