"""A machine whose driver and disk are models: the fast way, for hundreds of thousands of seeds.

The model of the driver keeps to the contract of `controller.raft.effects`: a Ready is executed in its order,
and no other input comes in between. The machine may stand still (paused, or stalled by its disk in the middle
of a Ready: inputs queue) and may lose its power between any two effects: `crash_after` counts them down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.simulation.quorum.disk import Disk, DiskSnapshot
from broker.simulation.quorum.machine import LARGEST_RINGS, Input, Machine
from broker.simulation.quorum.network import Token
from broker.simulation.verdict import Violation
from controller.raft.config import RaftConfig
from controller.raft.effects import (
    AdvanceLogStart,
    Answer,
    Append,
    DropPart,
    InstallSnapshot,
    LogOperation,
    Outgoing,
    Ready,
    SnapshotChunk,
    Truncate,
)
from controller.raft.identity import SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.node import NotLeading, RaftNode, VersionChangeRefused
from protocol.codec.message import Message
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.simulation.quorum.world import World

__all__ = ["NEVER", "ModelMachine"]

NEVER: Final = 1 << 62


class ModelMachine(Machine):
    """A machine on the model of a disk."""

    disk: Disk

    def __init__(self, world: World, number: int, config: RaftConfig, first: SnapshotControl | None) -> None:
        """first: what `storage format` wrote."""
        super().__init__(world, number, config)
        self.disk = Disk(world.library, first)
        self._node: RaftNode | None = None
        self._inbox: list[Input] = []
        self._busy = False
        self._rest: list[Callable[[], None]] = []
        """What is left of a Ready in which the disk stalls."""
        self._wake_at_ms = 0
        self._alarm_at = NEVER
        self._rings = 0
        self._rang_at = 0
        """So often the alarm has rung at this moment."""

    @property
    def node(self) -> RaftNode:
        if self._node is None:
            raise RuntimeError(f"{self} is down")
        return self._node

    # The clock

    def clock_changed(self) -> None:
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Rings when the node's clock shows wake_at_ms; one that is set already and rings earlier will do."""
        if self._wake_at_ms >= NEVER >> 10:
            return
        at = self.world.now + self.delay_until(self._wake_at_ms)
        if at < self._alarm_at:
            self._alarm_at = at
            self.world.post(at - self.world.now, self._ring, self.life, at)

    def _ring(self, life: int, at: int) -> None:
        if life != self.life or at != self._alarm_at:
            return
        self._alarm_at = NEVER
        self._rings = self._rings + 1 if at == self._rang_at else 0
        self._rang_at = at
        if self._rings > LARGEST_RINGS:
            raise Violation("a node that waits does not spin", f"{self} is called at {at} again and again")
        if self.now_ms() < self._wake_at_ms:
            self._set_alarm()
        else:
            self.take(_tick)

    def alarm_in_ms(self) -> int:
        """So many milliseconds until the node wants to be called; NEVER or more if it does not."""
        return self._wake_at_ms - self.now_ms() if self._wake_at_ms < NEVER >> 10 else NEVER

    def look_at_clock(self) -> None:
        """Calls the node if its time has come."""
        if self.is_up and self.alarm_in_ms() <= 0:
            self.take(_tick)

    # Lives

    def start(self) -> None:
        self.life += 1
        self.is_up, self.is_paused, self._busy = True, False, False
        self.crash_after = -1
        self._alarm_at = NEVER
        self._inbox.clear()
        self._rest.clear()
        self.applied_end, self.applied_chain = self.disk.start_offset, self.disk.start_chain
        self._node = RaftNode(self.config, self.disk, self.disk.hard_state, self.world.chance_of(self))
        state = self.disk.hard_state
        self.epoch_before = 0 if state is None else state.epoch
        self.world.trace_line(self, "starts")
        self.world.invariants.started(self)
        self.take(lambda node, now_ms: node.start(now_ms))

    def crash(self) -> None:
        if not self.is_up:
            return
        lost, torn = self.disk.crash(self.random_bits)
        self._end_life()
        world = self.world
        world.coverage.count("crash")
        if lost:
            world.coverage.count("unsynced batches lost")
        if torn:
            world.coverage.count("torn tail")
        world.trace_line(self, f"loses power, {lost} unsynced batches{', one torn' if torn else ''}")

    def _end_life(self) -> None:
        self.is_up = False
        self.life += 1
        self._inbox.clear()
        self._rest.clear()
        self._node = None
        self.world.invariants.ended(self)

    def resume(self) -> None:
        self.is_paused = False
        self._work_off()

    def lose_disk(self, config: RaftConfig) -> None:
        self.config = config
        self.disk = Disk(self.world.library)

    # Inputs

    def request_arrived(self, token: Token) -> None:
        self.take(lambda node, now_ms: node.receive_request(token, token.message, now_ms))

    def response_arrived(self, token: Token, message: Message) -> None:
        def happens(node: RaftNode, now_ms: int) -> Ready:
            self.world.invariants.response_taken(self, token, message)
            return node.receive_response(token.request_id, message, now_ms)

        self.take(happens)

    def request_failed(self, token: Token, error: ErrorCode) -> None:
        def happens(node: RaftNode, now_ms: int) -> Ready:
            self.world.invariants.request_failed(self, token, error)
            return node.request_failed(token.request_id, error, now_ms)

        self.take(happens)

    def take(self, happens: Input) -> None:
        """Gives the node an input now, or when it has come to itself again."""
        node = self._node
        if node is None:
            return
        if self._busy or self.is_paused:
            self._inbox.append(happens)
            return
        ready = happens(node, self.now_ms())
        if ready is not None:
            self._execute(ready)

    def _work_off(self) -> None:
        while self._inbox and self.is_up and not self._busy and not self.is_paused:
            self.take(self._inbox.pop(0))

    # Effects

    def _execute(self, ready: Ready) -> None:
        world = self.world
        if self.crash_after >= 0 or (world.fault_plan.stall and world.stalls()):
            self._rest = self._effects(ready)
            self._busy = True
            self._go_on(self.life)
            return
        if ready.hard_state is not None:
            self._persist(ready)
        world.invariants.turned(self)
        installed = None
        for operation in ready.log:
            installed = self._change_log(operation) or installed
        if ready.sync:
            self._begin_sync(ready.sync)
        for outgoing in ready.messages:
            self._send(outgoing)
        if ready.high_watermark is not None:
            self.world.invariants.committed(self, ready.high_watermark)
        self._finish(ready, installed)

    def _effects(self, ready: Ready) -> list[Callable[[], None]]:
        """The same, one by one; the last effect comes first."""
        installed: list[_Installed] = []
        steps: list[Callable[[], None]] = []
        if ready.hard_state is not None:
            steps.append(lambda: self._persist(ready))
        steps.append(lambda: self.world.invariants.turned(self))
        for operation in ready.log:

            def change(operation: LogOperation = operation) -> None:
                result = self._change_log(operation)
                if result is not None:
                    installed.append(result)

            steps.append(change)
        if ready.sync:
            steps.append(lambda: self._begin_sync(ready.sync))
        steps += [partial(self._send, outgoing) for outgoing in ready.messages]
        if ready.high_watermark is not None:
            end_offset = ready.high_watermark
            steps.append(lambda: self.world.invariants.committed(self, end_offset))

        def finish() -> None:
            self._busy = False
            self._finish(ready, installed[-1] if installed else None)

        return [finish, *reversed(steps)]

    def _go_on(self, life: int) -> None:
        """Executes the rest of a Ready, perhaps not all of it at once, perhaps not all of it ever."""
        if life != self.life:
            return
        while self._rest and self.life == life:
            if self.crash_after >= 0:
                self.crash_after -= 1
                if self.crash_after < 0:
                    self.world.coverage.count("crash within a Ready")
                    self.crash()
                    return
            elif len(self._rest) > 1 and self.world.stalls():
                self.world.coverage.count("stall within a Ready")
                self.world.post(self.world.stall_time(), self._go_on, life)
                return
            self._rest.pop()()
        self._work_off()

    def _persist(self, ready: Ready) -> None:
        self.world.invariants.persisting(self, ready)
        if ready.hard_state is not None:
            self.disk.persist(ready.hard_state)

    def _change_log(self, operation: LogOperation) -> _Installed | None:
        disk, invariants = self.disk, self.world.invariants
        match operation:
            case Append():
                batches = disk.append(operation.base_offset, operation.end_offset, operation.records)
                invariants.appended(self, batches)
            case Truncate():
                invariants.truncated(self, operation.offset, disk.truncate(operation.offset))
            case SnapshotChunk():
                disk.write_chunk(operation.snapshot, operation.position, operation.content)
            case DropPart():
                disk.drop_part(operation.snapshot)
            case InstallSnapshot():
                snapshot = disk.install(operation.snapshot)
                invariants.installed(self, operation.snapshot, is_whole=snapshot is not None)
                return (operation.snapshot, None if snapshot is None else snapshot.control)
            case AdvanceLogStart():
                disk.advance_start(operation.snapshot)
                invariants.trimmed(self, operation.snapshot)
        return None

    def _begin_sync(self, sync: int) -> None:
        self.disk.begin_sync(sync)
        self.world.post(self.world.sync_time(), self._synced, self.life, sync)

    def _synced(self, life: int, sync: int) -> None:
        if life == self.life and self.is_up:
            self.disk.end_sync(sync)
            self.take(lambda node, now_ms: node.log_synced(sync, now_ms))

    def _send(self, outgoing: Outgoing) -> None:
        world = self.world
        world.invariants.sending(self, outgoing)
        if isinstance(outgoing, Answer):
            world.network.answer(self, outgoing)
        else:
            world.network.send(self, outgoing)

    def _finish(self, ready: Ready, installed: _Installed | None) -> None:
        if ready.hard_state is not None:
            self.epoch_before = ready.hard_state.epoch
        self.world.invariants.executed(self)
        if self.node.is_shut_down:
            self.world.trace_line(self, "has shut down")
            self.disk.crash(self.random_bits)
            self._end_life()
            return
        self._wake_at_ms = ready.wake_at_ms
        if installed is not None:
            id_, control = installed
            self._inbox.insert(0, lambda node, now_ms: node.snapshot_installed(id_, control, now_ms))
            self._work_off()
        else:
            self._set_alarm()

    # What clients and operators ask of it

    def append(self, number: int, *, is_news: bool) -> None:
        batch = bytearray(self.world.payload(number))
        self.take(lambda node, now_ms: _append(node, batch, now_ms, is_news=is_news))

    def resign(self) -> None:
        self.take(lambda node, now_ms: node.resign(node.leader.epoch, now_ms))

    def upgrade_kraft_version(self) -> None:
        self.take(_upgrade)

    def shut_down(self, timeout_ms: int) -> None:
        self.take(lambda node, now_ms: node.shut_down(timeout_ms, now_ms))

    def take_snapshot(self, back: int) -> bool:
        disk = self.disk
        index = disk.index_from(self.applied_end) - 1 - back
        if not self.is_up or index < 0 or disk.batches[index].end_offset > self.applied_end:
            return False
        batch = disk.batches[index]
        id_ = SnapshotId(batch.end_offset, batch.epoch)
        snapshots = disk.snapshots()
        if snapshots and id_ <= snapshots[-1]:
            return False
        voters = disk.voters_at(batch.end_offset)
        control = SnapshotControl(voters.kraft_version, voters.record)
        disk.keep(DiskSnapshot.of(id_, batch.chain, control, batch.end_offset % 700))
        self.take(lambda node, now_ms: _taken(node, id_, now_ms))
        return True

    def trim(self) -> bool:
        if not self.is_up or self._new_log_start() is None:
            return False
        self.take(self._clean_up)
        return True

    def _new_log_start(self) -> SnapshotId | None:
        snapshots = self.disk.snapshots()
        return snapshots[-1] if snapshots and snapshots[-1].end_offset > self.disk.start_offset else None

    def _clean_up(self, node: RaftNode, now_ms: int) -> Ready | None:
        """Which snapshot is found out now: the leader's may have come while this one waited for its turn, and
        the node be about to hear of a newer one."""
        newest = self._new_log_start()
        snapshot = None if newest is None else node.snapshot_at(newest.end_offset)
        return None if snapshot is None else node.advance_log_start(snapshot, now_ms)


_Installed = tuple[SnapshotId, SnapshotControl | None]


def _tick(node: RaftNode, now_ms: int) -> Ready:
    return node.tick(now_ms)


def _taken(node: RaftNode, snapshot: SnapshotId, now_ms: int) -> Ready | None:
    """If the leader's snapshot came before this one's turn, that one counts."""
    newest = node.latest_snapshot
    return None if newest is not None and snapshot <= newest else node.snapshot_taken(snapshot, now_ms)


def _append(node: RaftNode, batch: bytearray, now_ms: int, *, is_news: bool) -> Ready | None:
    try:
        return node.append(node.leader.epoch, batch, now_ms, is_news=is_news)
    except NotLeading:
        return None


def _upgrade(node: RaftNode, now_ms: int) -> Ready | None:
    try:
        return node.upgrade_kraft_version(node.leader.epoch, 1, validate_only=False, now_ms=now_ms)
    except (VersionChangeRefused, NotLeading):
        return None
