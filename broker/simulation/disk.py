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

from broker.simulation.history import (
    EMPTY_CHAIN,
    NO_VOTERS,
    Batch,
    Electorate,
    Library,
    Violation,
    Voters,
)
from controller.raft.effects import HardState
from controller.raft.identity import Address, ReplicaKey, SnapshotId
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


def _voters_of(control: SnapshotControl) -> Voters:
    return Voters(control.kraft_version, control.voters)


class Disk:
    """One replica's disk. `library` is the outside world's: it sees every batch that is written."""

    def __init__(self, library: Library, first: SnapshotControl | None = None) -> None:
        """first: what `storage format` wrote, for a replica of a quorum whose log knows its voters."""
        self._library = library
        self.hard_state: HardState | None = None
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self.start_offset = 0
        self.start_epoch = 0
        self.start_chain = EMPTY_CHAIN
        self._voters: list[tuple[int, Voters]] = [(0, NO_VOTERS)]
        """(end offset of the batch that says so, or the log's start; the voters from there on), ascending."""
        self.synced_end = 0
        self._syncs: dict[int, int] = {}
        self._snapshots: dict[SnapshotId, DiskSnapshot] = {}
        self._part: tuple[SnapshotId, bytearray] | None = None
        if first is not None:
            id_ = SnapshotId(0, 0)
            self._snapshots[id_] = DiskSnapshot.of(id_, EMPTY_CHAIN, first, 0)
            self._voters = [(0, _voters_of(first))]

    # What is there

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start_epoch

    @property
    def chain(self) -> int:
        """The fingerprint of the whole log."""
        return self.batches[-1].chain if self.batches else self.start_chain

    @property
    def voters(self) -> Voters:
        """Those that the log's end names."""
        return self._voters[-1][1]

    def voters_since_before(self, batch: Batch) -> int:
        """Where the voters were named that held before this batch."""
        return next(since for since, _ in reversed(self._voters) if since < batch.end_offset)

    def electorates(self, committed_end: int) -> list[Electorate]:
        """All sets of voters that may still count here: the newest committed one and those behind it."""
        sure = [index for index, (since, _) in enumerate(self._voters) if since <= committed_end]
        return [voters.electorate for _, voters in self._voters[sure[-1] if sure else 0 :] if voters.record]

    def address_of(self, key: ReplicaKey) -> Address | None:
        """Where the newest voters say that this replica listens; None if they do not name it."""
        record = self.voters.record
        for entry in record.voters if record is not None else ():
            if (entry.voter_id, entry.voter_directory_id) == key:
                return Address(entry.endpoints[0].host, entry.endpoints[0].port)
        return None

    def voters_before_epoch(self, epoch: int) -> Voters:
        """Those that the log named before its first batch of the epoch."""
        index = len(self.batches)
        while index and self.batches[index - 1].epoch >= epoch:
            index -= 1
        return self.voters_at(self.batches[index - 1].end_offset if index else self.start_offset)

    def voters_at(self, end_offset: int) -> Voters:
        return next(voters for since, voters in reversed(self._voters) if since <= end_offset)

    def index_from(self, offset: int) -> int:
        """Where in `batches` the one stands that holds `offset`."""
        return bisect_right(self._ends, offset)

    def chain_at(self, end_offset: int) -> int | None:
        """The fingerprint up to the batch that ends there; None if none does."""
        if end_offset == self.start_offset:
            return self.start_chain
        index = bisect_right(self._ends, end_offset) - 1
        if index < 0 or self._ends[index] != end_offset:
            return None
        return self.batches[index].chain

    def holds(self, batch: Batch, up_to: int) -> bool:
        """Whether the batch lies below `up_to` in this log, or in the snapshot before it."""
        if batch.end_offset > up_to:
            return False
        if batch.end_offset <= self.start_offset:
            return True
        index = bisect_right(self._ends, batch.base_offset)
        return index < len(self.batches) and self.batches[index] is batch

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

    def append(self, base_offset: int, end_offset: int, records: bytes) -> list[Batch]:
        if base_offset != self.end_offset:
            raise Violation(
                "appends are whole and without gaps", f"an append at {base_offset}, log end {self.end_offset}"
            )
        batches = self._library.admit(records, base_offset, self.last_epoch, self.chain, self.voters)
        for batch in batches:
            self.batches.append(batch)
            self._ends.append(batch.end_offset)
            if batch.voters is not None:
                self._voters.append((batch.end_offset, batch.voters))
        if end_offset != self.end_offset:
            raise Violation(
                "appends are whole and without gaps", f"an append up to {end_offset}, not {self.end_offset}"
            )
        return batches

    def truncate(self, offset: int) -> list[Batch]:
        """Gives back what was cut off."""
        index = bisect_right(self._ends, offset)
        gone = self.batches[index:]
        if offset < self.start_offset or (gone and gone[0].base_offset != offset):
            raise Violation("a log is truncated at a batch", f"{offset} is inside {gone[:1]}")
        self._cut(index)
        self._limit_syncs(offset)
        return gone

    def _cut(self, index: int) -> None:
        del self.batches[index:], self._ends[index:]
        while self._voters[-1][0] > self.end_offset:
            self._voters.pop()

    def _limit_syncs(self, offset: int) -> None:
        self.synced_end = min(self.synced_end, offset)
        for sync in self._syncs:
            self._syncs[sync] = min(self._syncs[sync], offset)

    def begin_sync(self, sync: int) -> None:
        self._syncs[sync] = self.end_offset

    def end_sync(self, sync: int) -> None:
        for each in [number for number in self._syncs if number <= sync]:
            self.synced_end = max(self.synced_end, self._syncs.pop(each))

    def write_chunk(self, id_: SnapshotId, position: int, content: bytes) -> None:
        if position == 0 or self._part is None or self._part[0] != id_:
            self._part = (id_, bytearray())
        part = self._part[1]
        if position != len(part):
            raise Violation(
                "a snapshot's chunks follow each other", f"position {position} after {len(part)} bytes"
            )
        part += content

    def install(self, id_: SnapshotId) -> DiskSnapshot | None:
        """The whole log is dropped for the fetched snapshot; None, and nothing happens, if it is broken."""
        part, self._part = self._part, None
        snapshot = whole_snapshot(id_, bytes(part[1])) if part is not None and part[0] == id_ else None
        if snapshot is None:
            return None
        self._snapshots = {id_: snapshot}
        self.batches.clear()
        self._ends.clear()
        self._voters.clear()
        self._begin_at(snapshot)
        self.synced_end = id_.end_offset
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
        index = bisect_right(self._ends, id_.end_offset)
        del self.batches[:index], self._ends[:index]
        self._begin_at(snapshot)
        self._snapshots = {each: self._snapshots[each] for each in sorted(self._snapshots) if each >= id_}

    def _begin_at(self, snapshot: DiskSnapshot) -> None:
        self.start_offset = snapshot.id.end_offset
        self.start_epoch = snapshot.id.epoch
        self.start_chain = snapshot.chain
        later = [each for each in self._voters if each[0] > self.start_offset]
        self._voters = [(self.start_offset, _voters_of(snapshot.control)), *later]

    # The end of a life

    def crash(self, luck: int) -> tuple[int, bool]:
        """Loses what is not synced, but for as many batches as `luck` leaves.

        Says how many batches are gone, and whether the first of them was torn in its middle.
        """
        self._syncs.clear()
        self._part = None
        first = bisect_right(self._ends, self.synced_end)
        unsynced = len(self.batches) - first
        if not unsynced:
            return 0, False
        kept = luck % (unsynced + 1)
        self._cut(first + kept)
        self.synced_end = self.end_offset  # recovery syncs what it found
        return unsynced - kept, kept < unsynced and luck & 0x100 != 0
