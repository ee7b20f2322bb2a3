"""A simulated disk: what a replica has written, what of it is synced, and what a crash leaves.

    start_offset          synced_end          end_offset
         │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ │ ░░░░░░░░░░░░░░░░░ │
           survives a crash      any part from its beginning may survive; the batch behind it may be torn,
                                 and recovery finds whole batches only

quorum-state, truncations, finished snapshots and the log's start are durable as soon as they are done: the
driver's contract says so. It is a model of its own, not `storage.memory_files`: a run of a hundred thousand
seeds asks it some hundred million times, and bytes in files are not what is on trial here.

The same object is the node's `controller.raft.log_port.RaftLog`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from broker.simulation.quorum.library import EMPTY_CHAIN, Batch, Library
from broker.simulation.quorum.observed_log import ObservedLog, voters_of
from broker.simulation.verdict import Violation
from controller.raft.effects import HardState
from controller.raft.identity import SnapshotId
from controller.raft.log_port import SnapshotControl
from protocol.codec.compiler import decode, encode
from protocol.quorum import VotersRecord

__all__ = ["Disk", "DiskSnapshot", "whole_snapshot"]

_SNAPSHOT: Final = Struct(">qiqhi")
"""end offset | epoch | fingerprint | kraft.version | bytes of the voters record, -1 for none"""
_CRC: Final = Struct(">I")


class DiskSnapshot(NamedTuple):
    """A whole snapshot: header, voters record, filling, checksum. `chain` stands for all state."""

    id: SnapshotId
    chain: int
    control: SnapshotControl
    content: bytes

    @classmethod
    def of(cls, id_: SnapshotId, chain: int, control: SnapshotControl, filling_bytes: int) -> DiskSnapshot:
        voters = b"" if control.voters is None else encode(control.voters, 0)
        length = -1 if control.voters is None else len(voters)
        body = _SNAPSHOT.pack(id_.end_offset, id_.epoch, chain, control.kraft_version, length)
        body += voters + bytes(filling_bytes)
        return cls(id_, chain, control, body + _CRC.pack(crc32(body)))


def whole_snapshot(id_: SnapshotId, content: bytes) -> DiskSnapshot | None:
    """The snapshot in these bytes, or None if they are not this one, whole and unhurt."""
    if len(content) < _SNAPSHOT.size + _CRC.size:
        return None
    if _CRC.pack(crc32(content[: -_CRC.size])) != content[-_CRC.size :]:
        return None
    end_offset, epoch, chain, kraft_version, length = _SNAPSHOT.unpack_from(content)
    if id_ != SnapshotId(end_offset, epoch):
        return None
    voters = None
    if length >= 0:
        voters = decode(VotersRecord, 0, content[_SNAPSHOT.size : _SNAPSHOT.size + length])
    return DiskSnapshot(id_, chain, SnapshotControl(kraft_version, voters), content)


class Disk(ObservedLog):
    """One replica's disk."""

    def __init__(self, library: Library, first: SnapshotControl | None = None) -> None:
        """first: what `storage format` wrote, for a replica of a quorum whose log knows its voters."""
        super().__init__(library, first)
        self._hard_state: HardState | None = None
        self._synced_end = 0
        self._syncs: dict[int, int] = {}
        self._snapshots: dict[SnapshotId, DiskSnapshot] = {}
        self._part: tuple[SnapshotId, bytearray] | None = None
        if first is not None:
            id_ = SnapshotId(0, 0)
            self._snapshots[id_] = DiskSnapshot.of(id_, EMPTY_CHAIN, first, 0)

    @property
    def synced_end(self) -> int:
        return self._synced_end

    @property
    def hard_state(self) -> HardState | None:
        return self._hard_state

    # The node's side: controller.raft.log_port.RaftLog

    def epochs(self) -> Sequence[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for batch in self.batches:
            if not found or found[-1][0] != batch.epoch:
                found.append((batch.epoch, batch.base_offset))
        return found

    def read(self, offset: int, max_bytes: int) -> bytes:
        index = bisect_right(self._ends, offset)
        content = self.batches[index].content
        if len(content) >= max_bytes:
            return content
        return b"".join(self._pieces(index, max_bytes))[:max_bytes]

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        pieces = self._pieces(bisect_right(self._ends, offset), max_bytes)
        if len(pieces) > 1 and sum(map(len, pieces)) > max_bytes:
            pieces.pop()
        return b"".join(pieces)

    def _pieces(self, index: int, max_bytes: int) -> list[bytes]:
        """Batches from the index on until they reach max_bytes, the one that does included."""
        pieces: list[bytes] = []
        while index < len(self.batches) and max_bytes > 0:
            content = self.batches[index].content
            pieces.append(content)
            max_bytes -= len(content)
            index += 1
        return pieces

    def snapshots(self) -> Sequence[SnapshotId]:
        return sorted(self._snapshots)

    def snapshot_control(self, snapshot: SnapshotId) -> SnapshotControl:
        return self._snapshots[snapshot].control

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        return self._snapshots[snapshot].content[position : position + max_bytes]

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        found = self._snapshots.get(snapshot)
        return None if found is None else len(found.content)

    # The driver's side: the effects of a Ready

    def persist(self, state: HardState) -> None:
        """Replaces quorum-state, durably."""
        self._hard_state = state

    def truncate(self, offset: int) -> list[Batch]:
        gone = super().truncate(offset)
        self._limit_syncs(offset)
        return gone

    def _limit_syncs(self, offset: int) -> None:
        self._synced_end = min(self._synced_end, offset)
        for sync in self._syncs:
            self._syncs[sync] = min(self._syncs[sync], offset)

    def begin_sync(self, sync: int) -> None:
        self._syncs[sync] = self.end_offset

    def end_sync(self, sync: int) -> None:
        for each in [number for number in self._syncs if number <= sync]:
            self._synced_end = max(self._synced_end, self._syncs.pop(each))

    def write_chunk(self, id_: SnapshotId, position: int, content: bytes) -> None:
        if position == 0 or self._part is None or self._part[0] != id_:
            self._part = (id_, bytearray())
        part = self._part[1]
        if position != len(part):
            raise Violation(
                "a snapshot's chunks follow each other", f"position {position} after {len(part)} bytes"
            )
        part += content

    def drop_part(self, id_: SnapshotId) -> None:
        if self._part is None or self._part[0] != id_:
            raise Violation("what is dropped of a snapshot has been received", f"nothing of {id_} is here")
        self._part = None

    def install(self, id_: SnapshotId) -> DiskSnapshot | None:
        """The whole log is dropped for the fetched snapshot; None, and nothing happens, if it is broken."""
        part, self._part = self._part, None
        snapshot = whole_snapshot(id_, bytes(part[1])) if part is not None and part[0] == id_ else None
        if snapshot is None:
            return None
        self._snapshots = {id_: snapshot}
        self.drop_all()
        self._begin_at(snapshot)
        self._synced_end = id_.end_offset
        self._syncs = dict.fromkeys(self._syncs, id_.end_offset)
        return snapshot

    def keep(self, snapshot: DiskSnapshot) -> None:
        """One that this replica's state machine has taken."""
        self._snapshots[snapshot.id] = snapshot

    def advance_start(self, id_: SnapshotId) -> None:
        snapshot = self._snapshots.get(id_)
        if snapshot is None:
            raise Violation("a log begins at a snapshot", f"there is no snapshot {id_}")
        if id_.end_offset > self.end_offset:
            raise Violation("a log begins at a snapshot", f"{id_} lies behind the log end {self.end_offset}")
        self._begin_at(snapshot)
        self._snapshots = {each: self._snapshots[each] for each in sorted(self._snapshots) if each >= id_}

    def _begin_at(self, snapshot: DiskSnapshot) -> None:
        self.begin_at(snapshot.id.end_offset, snapshot.id.epoch, snapshot.chain, voters_of(snapshot.control))

    # The end of a life

    def crash(self, random_bits: int) -> tuple[int, bool]:
        """Loses what is not synced, but for as many batches as `random_bits` leaves.

        Says how many batches are gone, and whether the first of them was torn in its middle.
        """
        self._syncs.clear()
        self._part = None
        first = bisect_right(self._ends, self._synced_end)
        unsynced = len(self.batches) - first
        if not unsynced:
            return 0, False
        kept = random_bits % (unsynced + 1)
        self._cut(first + kept)
        self._synced_end = self.end_offset  # recovery syncs what it found
        return unsynced - kept, kept < unsynced and random_bits & 0x100 != 0
