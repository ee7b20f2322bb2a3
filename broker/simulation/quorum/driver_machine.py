"""A machine that runs what production runs: the raft driver, its disk code, the metadata log above them.

    network ──▶ ReplicatedMetadataLog ──▶ RaftDriver ──▶ ReplicaDisk ──▶ PartitionLog ──▶ files in memory
                     │                       └──▶ ReplicaPeers ──▶ network
                     └──▶ AppliedState: the state machine

Only the outside world is made up (`machine_ports`). The power may fail before any change of a file and before
any message, on the loop and in a helper thread: `crash_after` counts them down. What was not synced is then
lost as a seeded plan says, names of files too; or only the process ends, and all that was written is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.simulation.quorum.applied_state import AppliedState
from broker.simulation.quorum.fault_plan import VERBS
from broker.simulation.quorum.machine import Input, Machine
from broker.simulation.quorum.machine_ports import (
    MachineClock,
    MachineFiles,
    MachineOffload,
    MachineTimers,
    PowerCut,
)
from broker.simulation.quorum.network import LISTENER, Token
from broker.simulation.quorum.watched_disk import DIRECTORY, WatchedDisk, WatchedReplicaDisk
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.verdict import Violation
from config.ports import RandomSource
from controller.metadata.log import NotLeader
from controller.metadata.log_opening import (
    METADATA_LOG,
    open_metadata_log,
    read_hard_state,
    repair_after_crash,
)
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.metadata.snapshots import encode_snapshot
from controller.raft.config import RaftConfig
from controller.raft.driver import RaftDriver
from controller.raft.effects import Answer, HardState, Ready, Request
from controller.raft.identity import Peer
from controller.raft.log_port import RaftLog, SnapshotControl
from controller.raft.node import NEWEST_VERSION, RaftNode, VersionChangeRefused
from controller.raft.peers import ReplicaPeers
from controller.raft.snapshot_directory import SnapshotDirectory, SnapshotRetention
from controller.raft.snapshot_files import FORMAT_SNAPSHOT, write_snapshot
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.peer_channel import PeerError
from protocol.serving.pending import CloseConnection, Pending
from storage.log_config import UNLIMITED
from storage.memory_files import MemoryFiles, Torn
from storage.slices import LogSlice

if TYPE_CHECKING:
    from broker.simulation.quorum.world import World

__all__ = ["DriverMachine"]

HELPER_THREADS: Final = 4
SYNC_THREADS: Final = 1
"""As in production: one thread of its own for syncs and quorum-state."""
LONGEST_WRITE: Final = 400_000
"""So many microseconds at most takes a call of another helper thread: snapshots are large files."""
LONGEST_WAIT: Final = LONGEST_WRITE
"""So many microseconds at most does the disk keep a driver waiting for the sake of a clean-up."""
WAIT_LOOKS: Final = 5_000
LARGEST_TURN: Final = 10_000
"""So many inputs at most may a driver give its node one after the other, at one moment."""
TRIM: Final = VERBS.index("trim")
OnResponse = Callable[[Message | PeerError], None]


class _Settings:
    """What an operator might have configured; drawn from the seed, the same for all machines of a world."""

    def __init__(self, world: World) -> None:
        random = SeededRandom(world.seed, "driver settings")
        self.log = msgspec.structs.replace(
            METADATA_LOG,
            segment_bytes=random.one_of((2_048, 2_048, 8_192, 1 << 20)),
            file_delete_delay_ms=random.one_of((0, 500)),
        )
        self.linger_ms = random.one_of((0, 5, 25))
        drops_snapshots = world.fault_plan.weights[TRIM] > 0
        self.retention = SnapshotRetention(
            random.one_of((1_000, 5_000)) if drops_snapshots else UNLIMITED,
            random.one_of((UNLIMITED, 500)) if drops_snapshots else UNLIMITED,
        )
        self.clean_up_interval_ms = random.one_of((100, 1_000))


class DriverMachine(Machine):
    """A machine on the product's own driver and disk code."""

    disk: WatchedDisk

    def __init__(self, world: World, number: int, config: RaftConfig, first: SnapshotControl | None) -> None:
        """first: what `storage format` wrote."""
        super().__init__(world, number, config)
        self.random = SeededRandom(world.seed, f"machine {number}")
        self._settings = _Settings(world)
        self._clock = MachineClock(self)
        self.disk = self._empty_disk(first)
        self._inputs_in_turn = 0
        self._is_cut = False
        """The power has failed; what still runs down the stack may change nothing."""
        self._waiting: list[Callable[[], None]] = []
        """What the loop has to do when a machine that stands still goes on."""
        self._node: WatchedNode | None = None
        self._cleans_up_in_wait = False

    def _empty_disk(self, first: SnapshotControl | None) -> WatchedDisk:
        memory = MemoryFiles(self._clock.wall_ms)
        memory.makedirs("/data")
        if first is not None:
            memory.makedirs(DIRECTORY)
            content = encode_snapshot(
                (), epoch=0, now_ms=0, last_contained_timestamp_ms=0, voters=first.voters
            )
            write_snapshot(memory, DIRECTORY, FORMAT_SNAPSHOT, content)
        memory.fsync_directory("/data")
        memory.fsync_directory("/")
        return WatchedDisk(self.world.library, memory, MachineFiles(memory, self.before_effect), first)

    @property
    def node(self) -> RaftNode:
        if self._node is None:
            raise RuntimeError(f"{self} is down")
        return self._node

    # Lives

    def start(self) -> None:
        self.life += 1
        self.is_up, self.is_paused, self._is_cut = True, False, False
        self._cleans_up_in_wait = False
        self.crash_after = -1
        self._waiting.clear()
        self.world.trace_line(self, "starts")
        self._turn(self._begin)

    def _begin(self) -> None:
        clock, files, settings, world = self._clock, self.disk.files, self._settings, self.world
        self._timers = MachineTimers(self)
        self._offload = MachineOffload(self, HELPER_THREADS, largest_delay=LONGEST_WRITE)
        log = open_metadata_log(DIRECTORY, settings.log, files, clock)
        snapshots = SnapshotDirectory(files, DIRECTORY, self._offload, settings.retention)
        snapshots.load(log.log_start_offset)
        disk = WatchedReplicaDisk(self, log, snapshots, clock, MachineOffload(self, SYNC_THREADS))
        repair_after_crash(disk)
        self._reopened(disk)
        hard_state = read_hard_state(files, DIRECTORY, self.config)
        self._node = node = WatchedNode(self, disk, hard_state, world.chance_of(self))
        self._requests = 0
        self._asked: dict[int, OnResponse] = {}
        self._replica_disk = disk
        peers = ReplicaPeers(lambda host, port: _Channel(self, Peer(-2, host, port)))
        driver = RaftDriver(node, disk, peers, clock, self._timers, linger_ms=settings.linger_ms)
        self._driver = driver
        self.log = ReplicatedMetadataLog(
            driver, disk, clock, node_id=self.id, clean_up_interval_ms=settings.clean_up_interval_ms
        )
        world.invariants.started(self)
        self.log.on_advance(self._advanced)
        self.log.start()
        self.state = AppliedState(self, self.log, self._timers)
        self.log.register(self.state)

    def _reopened(self, disk: WatchedReplicaDisk) -> None:
        world = self.world
        state = self.disk.hard_state
        self.epoch_on_disk = self.epoch_before = 0 if state is None else state.epoch
        self._expected_state: HardState | None = None
        lost = self.disk.reopened(disk, world.invariants.ledger.chain_at(disk.start_offset))
        if lost:
            world.coverage.count("unsynced batches lost")
        self.applied_end, self.applied_chain = self.disk.start_offset, self.disk.start_chain

    def crash(self) -> None:
        if not self.is_up:
            return
        world, random_bits = self.world, self.random_bits
        world.coverage.count("crash")
        keeps_all = random_bits & 3 == 0
        self.disk.life_ends(keeps_all=keeps_all)
        if keeps_all:
            world.trace_line(self, "its process is killed")
            self.disk.memory.kill_process()
        else:
            world.trace_line(self, "loses power")
            self.disk.memory.cut_power(self._torn, keep_names=random_bits & 4 != 0)
        self._end_life()

    def _torn(self, path: str, unsynced_bytes: int) -> Torn:
        """What is left of what was written and not synced."""
        if self.random_bits & 8:
            return Torn(0)
        kept_bytes = self.random.below(unsynced_bytes + 1)
        if path.endswith(".log") and kept_bytes < unsynced_bytes:
            self.world.coverage.count("torn tail")
        zero_bytes = self.random.below(unsynced_bytes - kept_bytes + 1) if self.random_bits & 16 else 0
        return Torn(kept_bytes, zero_bytes)

    def _end_life(self) -> None:
        self.is_up = False
        self._is_cut = True
        self.life += 1
        self._waiting.clear()
        self._node = None
        self.world.invariants.ended(self)

    def resume(self) -> None:
        self.is_paused = False
        while self._waiting and self.is_up and not self.is_paused:
            self._turn(self._waiting.pop(0))

    def clock_changed(self) -> None:
        self._timers.clock_changed()

    def lose_disk(self, config: RaftConfig) -> None:
        self.config = config
        self.disk = self._empty_disk(None)

    # What runs on the loop and in helper threads

    def on_loop(self, life: int, callback: Callable[[], None]) -> None:
        """Has the loop of this life call it: now, or when the machine goes on."""
        if life != self.life or not self.is_up:
            return
        if self.is_paused:
            self._waiting.append(callback)
        else:
            self._turn(callback)

    def _turn(self, callback: Callable[[], None]) -> None:
        self._inputs_in_turn = 0
        try:
            callback()
        except PowerCut:
            self._power_failed()
        else:
            if self.is_up:
                self.look()
                self._check_executed()

    def in_helper(self, call: Callable[[], Any]) -> Any:
        """What a helper thread does, and gives back; what it raises is its result."""
        try:
            return call()
        except PowerCut:
            self._power_failed()
            return None
        except Exception as error:
            return error

    def _power_failed(self) -> None:
        self.world.coverage.count("crash within a Ready")
        self.crash()

    def before_effect(self) -> None:
        """Something is about to be changed or sent. Raises PowerCut."""
        if self._is_cut:
            raise PowerCut
        if self.crash_after >= 0:
            self.crash_after -= 1
            if self.crash_after < 0:
                self._is_cut = True
                raise PowerCut

    # What the node does, as its rules are watched

    def ready_made(self, ready: Ready) -> None:
        """An input was given to the node; this is what it wants done."""
        self._inputs_in_turn += 1
        if self._inputs_in_turn > LARGEST_TURN:
            raise Violation("a node that waits does not spin", f"{self} is given one input after the other")
        if self._replica_disk.unfinished:
            raise Violation(
                "an input waits until the one before is executed", f"{self} is changing its disk yet"
            )
        self.epoch_before = self.epoch_on_disk
        if ready.hard_state is not None:
            self.world.invariants.persisting(self, ready)
            self._expected_state = ready.hard_state
            self.epoch_on_disk = ready.hard_state.epoch

    def look(self) -> None:
        """Judges the role, once the hard state that goes with it is on the disk."""
        expected, found = self._expected_state, self.disk.hard_state
        if self._node is not None and (expected is None or _is_said(expected, found)):
            self.world.invariants.turned(self)

    def _check_executed(self) -> None:
        node, disk = self.node, self.disk
        if not self._replica_disk.unfinished and (disk.start_offset, disk.end_offset) == (
            node.log_start_offset,
            node.end_offset,
        ):
            self.world.invariants.executed(self)

    def _advanced(self) -> None:
        """The high watermark has risen, and the state machine was told."""
        self.look()
        self.world.invariants.committed(self, self.node.high_watermark)
        self.log.on_advance(self._advanced)

    # Messages

    def send(self, to: Peer, message: Message, on_response: OnResponse, timeout_ms: int) -> None:
        self.before_effect()
        self.look()
        self._requests += 1
        self._asked[self._requests] = on_response
        request = Request(to, self._requests, message, timeout_ms)
        self.world.invariants.sending(self, request)
        self.world.network.send(self, request)

    def response_arrived(self, token: Token, message: Message) -> None:
        self._respond(token, message)

    def request_failed(self, token: Token, error: ErrorCode) -> None:
        self._respond(token, PeerError(error.name, error is ErrorCode.UNSUPPORTED_VERSION))

    def _respond(self, token: Token, response: Message | PeerError) -> None:
        on_response = self._asked.pop(token.request_id, None)
        if on_response is not None:
            self.on_loop(token.life, lambda: on_response(response))

    def request_arrived(self, token: Token) -> None:
        self.on_loop(self.life, lambda: self._serve(token))

    def _serve(self, token: Token) -> None:
        pending: Pending[Message] = self.log.ask(token.message, version=NEWEST_VERSION, listener=LISTENER)
        pending.on_complete(partial(self._answer, self.life, token))

    def _answer(self, life: int, token: Token, message: Message | CloseConnection) -> None:
        if life != self.life:
            return
        if isinstance(message, CloseConnection):
            return  # the connection is closed; the other side's request runs into its time-out
        self.before_effect()
        self.look()
        answer = Answer(token, message)
        self.world.invariants.sending(self, answer)
        slices = _slices(message)
        if slices and self.random.below(8) == 0:  # the connection is slow: the file is read only later
            delay = 1 + self.random.below(20_000)
            self.world.post(delay, self.on_loop, life, partial(self._send_slices, answer, slices))
        else:
            self._send_slices(answer, slices)

    def _send_slices(self, answer: Answer, slices: list[FetchResponse.PartitionData]) -> None:
        for partition in slices:
            piece = partition.records
            if isinstance(piece, LogSlice):
                partition.records = piece.read()
                piece.release()
                if len(partition.records) < piece.size_bytes:
                    self.world.coverage.count("a file shrank under an answer")
                    return  # the connection is closed; the other side's request runs into its time-out
        self.world.network.answer(self, answer)

    # What clients and operators ask of it

    def take(self, happens: Input) -> None:
        """Gives the node an input, through the driver."""
        node = self.node
        self.on_loop(
            self.life, lambda: self._driver.feed(lambda now_ms: happens(node, now_ms) or node.tick(now_ms))
        )

    def append(self, number: int, *, is_news: bool) -> None:
        self.on_loop(self.life, lambda: self.state.append(number, is_news=is_news))

    def resign(self) -> None:
        self.take(lambda node, now_ms: node.resign(node.leader.epoch, now_ms))

    def upgrade_kraft_version(self) -> None:
        self.on_loop(self.life, self._upgrade)

    def _upgrade(self) -> None:
        if self.log.kraft_version > 0:
            return
        try:
            self.log.raise_kraft_version(self.node.epoch, 1)
        except (NotLeader, VersionChangeRefused):
            return

    def shut_down(self, timeout_ms: int) -> None:
        life = self.life
        self.on_loop(life, lambda: self.log.resign_and_stop(timeout_ms, self._stop))

    def _stop(self) -> None:
        self.log.shut_down()
        self.world.trace_line(self, "has shut down")
        self.disk.life_ends(keeps_all=True)
        self.disk.memory.kill_process()
        self._end_life()

    def take_snapshot(self, back: int) -> bool:
        return self.is_up and not self.is_paused and self.state.take_snapshot(back)

    def trim(self) -> bool:
        """Has the product look what may go, at the worst moment: when its driver next waits for the disk. The
        product looks by itself after each clean-up interval, but hardly ever in such a moment."""
        self._cleans_up_in_wait = self.is_up
        return self.is_up

    def driver_waits(self, done: Callable[[], None]) -> Callable[[], None]:
        """The driver begins to wait for the disk, until `done` is called; gives what is to be called then.

        If a clean-up is due, it is the next input, and a snapshot is taken that is written while the disk
        keeps the driver waiting. So the clean-up finds a snapshot of which the node was not told yet.
        """
        if not self._cleans_up_in_wait:
            return done
        self._cleans_up_in_wait = False
        self.log.clean_up()
        self.state.take_snapshot(0)
        if self.log.is_writing_snapshot:
            self.world.coverage.count("snapshot written before a clean-up")
        return partial(self._end_wait, self.life, done, self.world.now + LONGEST_WAIT)

    def _end_wait(self, life: int, done: Callable[[], None], until: int) -> None:
        if self.log.is_writing_snapshot and self.world.now < until:
            again = partial(self._end_wait, life, done, until)
            self.world.post(WAIT_LOOKS, self.on_loop, life, again)
        else:
            done()


def _is_said(expected: HardState, found: HardState | None) -> bool:
    """quorum-state says it; of whom the vote was for, version 0 of the file knows the id alone."""
    if found is None or (expected.epoch, expected.leader_id) != (found.epoch, found.leader_id):
        return False
    if expected.voted is None or found.voted is None:
        return expected.voted is found.voted
    return expected.voted.matches(found.voted)


def _slices(message: Message) -> list[FetchResponse.PartitionData]:
    """Those of an answer whose records are pieces of a file."""
    if not isinstance(message, FetchResponse):
        return []
    return [
        partition
        for topic in message.responses
        for partition in topic.partitions
        if isinstance(partition.records, LogSlice)
    ]


class _Channel:
    """A way to the replica at an address."""

    def __init__(self, machine: DriverMachine, to: Peer) -> None:
        self._machine = machine
        self._to = to

    def send(self, request: Message, on_response: OnResponse, *, timeout_ms: int) -> None:
        self._machine.send(self._to, request, on_response, timeout_ms)

    def close_channel(self) -> None:
        """Nothing to close: what is under way belongs to a life that ends."""


class WatchedNode(RaftNode):
    """The node of one life: its inputs and what it wants done are seen by the rules."""

    __slots__ = ("_asked", "_machine")

    def __init__(
        self, machine: DriverMachine, log: RaftLog, hard_state: HardState | None, random_source: RandomSource
    ) -> None:
        self._machine = machine
        self._asked: dict[int, Message] = {}
        super().__init__(machine.config, log, hard_state, random_source)

    def _settle(self, now_ms: int) -> Ready:
        ready = super()._settle(now_ms)
        for outgoing in ready.messages:
            if isinstance(outgoing, Request):
                self._asked[outgoing.request_id] = outgoing.message
        self._machine.ready_made(ready)
        return ready

    def receive_response(self, request_id: int, message: Message, now_ms: int) -> Ready:
        machine = self._machine
        machine.world.invariants.response_taken(machine, self._token(request_id), message)
        return super().receive_response(request_id, message, now_ms)

    def request_failed(self, request_id: int, error: ErrorCode, now_ms: int) -> Ready:
        machine = self._machine
        machine.world.invariants.request_failed(machine, self._token(request_id), error)
        return super().request_failed(request_id, error, now_ms)

    def _token(self, request_id: int) -> Token:
        message = self._asked.pop(request_id)
        return Token(self._machine, self._machine.life, request_id, message)
