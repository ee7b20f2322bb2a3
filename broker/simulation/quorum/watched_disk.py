"""The product's disk code on files in memory, watched: what it writes, and what of it would survive.

`WatchedDisk` is the log as the rules see it. Which batches it holds is noted as the disk code is told to
write them; what is synced is read from the files themselves, so a driver that reports a sync too early, or
does not wait for one, is found out. At each start the log is read anew from what the product's recovery made
of it, and must still hold all that was synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.simulation.quorum.library import EMPTY_CHAIN, NO_VOTERS, Batch, Library
from broker.simulation.quorum.machine_ports import MachineFiles
from broker.simulation.quorum.observed_log import ObservedLog, voters_of
from broker.simulation.verdict import Violation
from config.ports import Clock, Offload
from controller.raft.disk import ReplicaDisk, hard_state_of
from controller.raft.effects import HardState
from controller.raft.identity import SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.quorum_state import QUORUM_STATE_FILE
from controller.raft.quorum_state import decode as decode_quorum_state
from controller.raft.snapshot_directory import SnapshotDirectory
from controller.raft.snapshot_files import snapshot_name
from protocol.records.header import headers
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from broker.simulation.quorum.driver_machine import DriverMachine

__all__ = ["DIRECTORY", "WatchedDisk", "WatchedReplicaDisk"]

DIRECTORY: Final = "/data/__cluster_metadata-0"
READ_BYTES: Final = 1 << 20


class _Verified(NamedTuple):
    """A place in a segment's file up to which the synced bytes are those of the log."""

    path: str = ""
    position: int = 0
    end_offset: int = 0


class WatchedDisk(ObservedLog):
    """One replica's disk. `memory` is its file system, `files` the product's way to it."""

    def __init__(
        self, library: Library, memory: MemoryFiles, files: MachineFiles, first: SnapshotControl | None = None
    ) -> None:
        """first: what `storage format` has written there."""
        super().__init__(library, first)
        self.memory = memory
        self.files = files
        self.installing: SnapshotId | None = None
        """A fetched snapshot that is about to take the place of the log."""
        self.cutting: int | None = None
        """Where a truncation under way cuts the log."""
        self._hard_state: HardState | None = None
        self._quorum_state = b""
        self._synced_end = 0
        self._verified = _Verified()
        self._lasting_end = 0
        """Batches below it must be there when the next life begins."""

    # What survives a power cut in any case

    @property
    def synced_end(self) -> int:
        if self.files.has_synced:
            self._look()
        return self._synced_end

    @property
    def hard_state(self) -> HardState | None:
        if self.files.has_synced:
            self._look()
        return self._hard_state

    def _look(self) -> None:
        """Reads from the files what is on the disk by now."""
        self.files.has_synced = False
        path = f"{DIRECTORY}/{QUORUM_STATE_FILE}"
        content = self.memory.durable_bytes(path)
        if content is not None and content != self._quorum_state:
            self._quorum_state = content
            self._hard_state = hard_state_of(decode_quorum_state(content, path))
        self._look_at_log()

    def _look_at_log(self) -> None:
        if self.start_offset and not self._is_durable(SnapshotId(self.start_offset, self.start_epoch)):
            self._synced_end = 0
            return
        end_offset = max(self._synced_end, self.start_offset)
        names = [name for name in self.memory.listdir(DIRECTORY) if name.endswith(".log")]
        begins = [int(name.removesuffix(".log")) for name in names]
        for number, name in enumerate(names):
            following = begins[number + 1] if number + 1 < len(names) else None
            if following is not None and following <= end_offset:
                continue
            if begins[number] > end_offset:
                break
            end_offset = self._verify(f"{DIRECTORY}/{name}", end_offset)
            if end_offset != following:
                break
        self._synced_end = end_offset

    def _is_durable(self, snapshot: SnapshotId) -> bool:
        return self.memory.durable_bytes(f"{DIRECTORY}/{snapshot_name(snapshot)}") is not None

    def _verify(self, path: str, end_offset: int) -> int:
        """How far the synced bytes of a segment are those of the log, which is synced up to end_offset."""
        content = self.memory.durable_bytes(path) or b""
        known = self._verified
        position = known.position if (known.path, known.end_offset) == (path, end_offset) else 0
        for begin, header in headers(memoryview(content)[position:]):
            at = position + begin
            if at + header.size_bytes > len(content):
                break
            if header.next_offset <= end_offset:
                self._verified = _Verified(path, at + header.size_bytes, end_offset)
                continue
            batch = self.batch_at(header.base_offset)
            if batch is None or content[at : at + header.size_bytes] != batch.content:
                break
            end_offset = batch.end_offset
            self._verified = _Verified(path, at + header.size_bytes, end_offset)
        return end_offset

    def batch_at(self, base_offset: int) -> Batch | None:
        """The one that begins there."""
        index = self.index_from(base_offset)
        batch = self.batches[index] if index < len(self.batches) else None
        return batch if batch is not None and batch.base_offset == base_offset else None

    # Changes

    def truncate(self, offset: int) -> list[Batch]:
        gone = super().truncate(offset)
        self._synced_end = min(self.synced_end, offset)
        return gone

    def begin_behind(self, snapshot: SnapshotId, control: SnapshotControl, chain: int) -> None:
        """A snapshot takes the place of the whole log."""
        self.drop_all()
        self.begin_at(snapshot.end_offset, snapshot.epoch, chain, voters_of(control))
        self._synced_end = 0
        self.files.has_synced = True

    # Lives

    def life_ends(self, *, keeps_all: bool) -> None:
        """To be called before the files lose anything. keeps_all: all that was written stays, synced or not,
        since only the process ends."""
        self._lasting_end = self.end_offset if keeps_all else self.synced_end
        if self.cutting is not None:
            self._lasting_end = min(self._lasting_end, self.cutting)
            self.cutting = None
        self.files.has_synced = False

    def reopened(self, replica: ReplicaDisk, chain: int) -> int:
        """What the recovery has found is the log from now on; says how many batches fewer it is than it was.
        chain: the fingerprint of what is committed below its start. Raises Violation."""
        before, snapshot = list(self.batches), self.installing
        self.installing = None
        self.drop_all()
        if replica.start_offset:
            self._begin_behind_first(replica, chain)
        else:
            first = SnapshotId(0, 0)
            found = first in replica.snapshots()
            voters = voters_of(replica.snapshot_control(first)) if found else NO_VOTERS
            self.begin_at(0, 0, EMPTY_CHAIN, voters)
        for content in _chunks(replica):
            self.append(self.end_offset, _end_of(content), content)
        self._synced_end, self._verified = 0, _Verified()
        self.files.has_synced = True
        for batch in before:
            if snapshot is not None and batch.end_offset > snapshot.end_offset == self.start_offset:
                break
            if batch.end_offset <= self._lasting_end and not self.holds(batch, self.end_offset):
                raise Violation("what is synced survives a crash", f"{batch} is gone")
        if self.synced_end < self.end_offset:
            raise Violation(
                "what is found at the start is synced", f"up to {self.synced_end} of {self.end_offset}"
            )
        return sum(not self.holds(batch, self.end_offset) for batch in before)

    def _begin_behind_first(self, replica: ReplicaDisk, chain: int) -> None:
        for snapshot in replica.snapshots():
            if snapshot.end_offset == replica.start_offset:
                voters = voters_of(replica.snapshot_control(snapshot))
                self.begin_at(snapshot.end_offset, snapshot.epoch, chain, voters)
                return
        raise Violation("a log begins at a snapshot", f"there is none at {replica.start_offset}")


def _chunks(replica: ReplicaDisk) -> Iterator[bytes]:
    offset = replica.start_offset
    while offset < replica.end_offset:
        content = replica.read_bytes(offset, READ_BYTES)
        yield _from(content, offset)
        offset = _end_of(content)


def _from(content: bytes, offset: int) -> bytes:
    """Without the batches that lie below an offset."""
    return next((content[at:] for at, header in headers(content) if header.base_offset >= offset), b"")


def _end_of(content: bytes) -> int:
    return max(header.next_offset for _, header in headers(content))


class WatchedReplicaDisk(ReplicaDisk):
    """The disk code of one life; whatever it has done is noted in the machine's `WatchedDisk`."""

    def __init__(
        self,
        machine: DriverMachine,
        log: PartitionLog,
        snapshots: SnapshotDirectory,
        clock: Clock,
        offload: Offload,
    ) -> None:
        self._machine = machine
        self._watched = machine.disk
        self.unfinished = 0
        """Changes under way for whose end the next input of the node has to wait."""
        super().__init__(log, snapshots, machine.disk.files, clock, offload)

    def _awaited(self, done: Callable[[], None]) -> Callable[[], None]:
        self.unfinished += 1

        def finished() -> None:
            self.unfinished -= 1
            done()

        return finished

    def persist(
        self, state: HardState, kraft_version: int, voters: Sequence[int], done: Callable[[], None]
    ) -> None:
        awaited = self._machine.driver_waits(self._awaited(done))
        super().persist(state, kraft_version, voters, awaited)

    def append(self, records: bytes) -> None:
        base_offset = self.end_offset
        super().append(records)
        batches = self._watched.append(base_offset, self.end_offset, records)
        self._machine.look()
        self._machine.world.invariants.appended(self._machine, batches)

    def truncate(self, offset: int, done: Callable[[], None]) -> None:
        self._watched.cutting = offset
        super().truncate(offset, self._machine.driver_waits(self._awaited(done)))
        self._watched.cutting = None
        gone = self._watched.truncate(offset)
        self._machine.world.invariants.truncated(self._machine, offset, gone)

    def install(self, snapshot: SnapshotId, done: Callable[[SnapshotControl | None], None]) -> None:
        machine, watched = self._machine, self._watched
        self.unfinished += 1
        watched.installing = snapshot

        def installed(control: SnapshotControl | None) -> None:
            self.unfinished -= 1
            watched.installing = None
            if control is not None:
                chain = machine.world.invariants.ledger.chain_at(snapshot.end_offset)
                watched.begin_behind(snapshot, control, chain)
            machine.world.invariants.installed(machine, snapshot, is_whole=control is not None)
            done(control)

        super().install(snapshot, installed)

    def advance_start(self, snapshot: SnapshotId) -> None:
        watched = self._watched
        chain = watched.chain_at(snapshot.end_offset)
        if self.snapshot_size(snapshot) is None or chain is None:
            raise Violation("a log begins at a snapshot", f"{self._machine} has no snapshot {snapshot}")
        super().advance_start(snapshot)
        watched.begin_at(snapshot.end_offset, snapshot.epoch, chain, watched.voters_at(snapshot.end_offset))
        self._machine.world.invariants.trimmed(self._machine, snapshot)
