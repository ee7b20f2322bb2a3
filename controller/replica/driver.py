"""Executes what the raft node wants done, in the order in which it says it, and feeds it with what happens.

    inputs ──▶ queue ──▶ node ──▶ Ready:  hard state ─▶ log ─▶ sync begun ─▶ messages ─▶ commit ─▶ leader
                 ▲                            │          │
                 └── waits while one of these ┴──────────┘ is under way in a helper thread

Inputs come one at a time and never while an earlier one is being executed: an answer that makes the network
hand over the next request finds the queue, not the node. Appends of the controller are written at once;
while the disk is busy with earlier ones they are gathered, for up to `controller.quorum.append.linger.ms`,
and share the next sync. Whatever else comes in finds them written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from config.ports import Clock, Timer, Timers
from controller.raft.effects import (
    AdvanceLogStart,
    Answer,
    Append,
    InstallSnapshot,
    LogOperation,
    Ready,
    Request,
    SnapshotChunk,
    Truncate,
)
from controller.raft.identity import LeaderAndEpoch, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.node import AppendRefused, RaftNode
from controller.raft.roles import NEVER
from controller.replica.disk import ReplicaDisk
from controller.replica.peers import ReplicaPeers
from protocol.codec.message import Message
from protocol.errors import ErrorCode, invariant
from protocol.messages.fetch import FetchResponse
from protocol.serving import Pending
from storage.slices import LogSlice

__all__ = ["RaftDriver"]

_log = logging.getLogger("barnabas.quorum")

Input = Callable[[int], Ready]
"""Given the time, what the node makes of it."""


class RaftDriver:
    """One node's hands and feet. on_commit, on_leader and on_installed are called in a Ready's order."""

    def __init__(
        self,
        node: RaftNode,
        disk: ReplicaDisk,
        peers: ReplicaPeers,
        clock: Clock,
        timers: Timers,
        *,
        linger_ms: int = 0,
    ) -> None:
        self.node = node
        self._disk = disk
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._linger_ms = linger_ms
        self._inputs: deque[Input] = deque()
        self._is_running = False
        """`_run` is below us in the stack, and will go on."""
        self._is_executing = False
        """A Ready is not executed yet; its rest follows when a helper thread is done."""
        self._gathered: deque[tuple[int, bytearray]] = deque()
        self._gathered_offset = -1
        self._timer: Timer | None = None
        self._timer_deadline_ms = NEVER
        self._is_stopped = False
        self._on_shut_down: Callable[[], None] | None = None
        self.on_commit: Callable[[int], None] = lambda high_watermark: None
        self.on_leader: Callable[[LeaderAndEpoch], None] = lambda leader: None
        self.on_installed: Callable[[SnapshotId], None] = lambda snapshot: None
        disk.on_synced = self._synced

    # What happens

    def start(self) -> None:
        """The first moment: what an only voter needs to lead is done when this returns, disk and all; so the
        node has a controller before its listeners open."""
        ready = self.node.start(self._now())
        while True:
            self._execute_at_once(ready)
            if not ready.sync:
                break
            ready = self.node.log_synced(ready.sync, self._now())
        self._run()

    def _execute_at_once(self, ready: Ready) -> None:
        if ready.hard_state is not None:
            voters = list(self.node.voters.by_id)
            self._disk.persist_now(ready.hard_state, self.node.kraft_version, voters)
        for operation in ready.log:
            invariant(isinstance(operation, Append), "a life begins with appends at most", what=operation)
            if isinstance(operation, Append):
                self._disk.append(operation.records)
        if ready.sync:
            self._disk.sync_now()
        self._tell(ready)

    def ask(self, message: Message, *, version: int, listener: str) -> Pending[Message]:
        """A request of a peer, an observer or an admin."""
        pending: Pending[Message] = Pending()
        self.feed(
            lambda now_ms: self.node.receive_request(
                pending, message, now_ms, version=version, listener=listener
            )
        )
        return pending

    @property
    def next_offset(self) -> int:
        """The offset of the next batch that is appended here."""
        return self._gathered_offset if self._gathered else self.node.end_offset

    def append(self, epoch: int, batch: bytearray, end_offset: int) -> None:
        """A batch that begins at next_offset and ends before end_offset. It is written in a moment; if the
        leadership is lost before, it is never."""
        is_first = not self._gathered
        self._gathered.append((epoch, batch))
        self._gathered_offset = end_offset
        if not self._disk.is_syncing or not self._linger_ms:
            self._run()
        elif is_first:
            self._timers.call_at(self._clock.monotonic_ms() + self._linger_ms, self._run)

    def raise_kraft_version(self, epoch: int, version: int) -> int:
        """The offset at which version and voters will stand. Raises VersionChangeRefused, AppendRefused."""
        self.node.check_kraft_version(epoch, version)
        base_offset = self.next_offset
        self.feed(
            lambda now_ms: self.node.upgrade_kraft_version(epoch, version, validate_only=False, now_ms=now_ms)
        )
        return base_offset

    def feed(self, event: Input) -> None:
        """Something else happened."""
        if not self._is_stopped:
            self._inputs.append(event)
            self._run()

    def shut_down(self, timeout_ms: int, done: Callable[[], None]) -> None:
        """A clean end; `done` follows when nobody needs this replica any more, or the time is over."""
        self._on_shut_down = done
        self.feed(lambda now_ms: self.node.shut_down(timeout_ms, now_ms))

    def stop(self) -> None:
        """Nothing happens any more."""
        self._is_stopped = True
        self._inputs.clear()
        self._gathered.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._peers.close()

    def _synced(self, sync: int) -> None:
        self.feed(lambda now_ms: self.node.log_synced(sync, now_ms))

    # One input after the other

    def _now(self) -> int:
        now_ms = self._clock.monotonic_ms()
        self.node.wall_offset_ms = self._clock.wall_ms() - now_ms
        return now_ms

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while not self._is_executing and not self._is_stopped:
                event: Input
                if self._gathered:
                    event = self._write_gathered
                elif self._inputs:
                    event = self._inputs.popleft()
                else:
                    return
                self._is_executing = True
                self._execute(event(self._now()))
        finally:
            self._is_running = False

    def _write_gathered(self, now_ms: int) -> Ready:
        """All batches of one epoch in one append. Those of an epoch that is over are dropped: the state
        machine hears of the new leader, and forgets them."""
        epoch, content = self._gathered.popleft()
        while self._gathered and self._gathered[0][0] == epoch:
            content += self._gathered.popleft()[1]
        try:
            return self.node.append(epoch, content, now_ms)
        except AppendRefused:
            return self.node.tick(now_ms)

    def _execute(self, ready: Ready) -> None:
        if ready.hard_state is None:
            self._change_log(ready, deque(ready.log), None)
            return
        voters = list(self.node.voters.by_id)
        self._disk.persist(
            ready.hard_state,
            self.node.kraft_version,
            voters,
            lambda: self._change_log(ready, deque(ready.log), None),
        )

    def _change_log(
        self, ready: Ready, operations: deque[LogOperation], installing: SnapshotId | None
    ) -> None:
        disk = self._disk
        while operations:
            operation = operations.popleft()
            match operation:
                case Append():
                    disk.append(operation.records)
                case Truncate():
                    disk.truncate(operation.offset, partial(self._change_log, ready, operations, installing))
                    return
                case SnapshotChunk():
                    disk.add_chunk(operation.snapshot, operation.position, operation.content)
                case InstallSnapshot():
                    installing = operation.snapshot
                case AdvanceLogStart():
                    disk.advance_start(operation.snapshot)
        if ready.sync:
            disk.sync(ready.sync)
        self._tell(ready)
        if installing is not None:
            self._install(installing)
            return
        self._is_executing = False
        self._run()

    def _install(self, snapshot: SnapshotId) -> None:
        def installed(control: SnapshotControl | None) -> None:
            if control is None:
                _log.warning("The snapshot %s that was fetched is broken; it is fetched again", snapshot)
            else:
                self.on_installed(snapshot)
            self._execute(self.node.snapshot_installed(snapshot, control, self._now()))

        self._disk.install(snapshot, installed)

    def _tell(self, ready: Ready) -> None:
        """Everything that must not happen before the disk has it."""
        for message in ready.messages:
            if isinstance(message, Request):
                self._peers.send(message, self._answered, self._failed)
            else:
                _deliver(message)
        if ready.high_watermark is not None:
            self.on_commit(ready.high_watermark)
        if ready.leader is not None:
            _log.info("Epoch %d is led by %d", ready.leader.epoch, ready.leader.leader_id)
            self.on_leader(ready.leader)
        self._arm(ready.wake_at_ms)
        if self.node.is_shut_down and self._on_shut_down is not None:
            done, self._on_shut_down = self._on_shut_down, None
            self._timers.call_soon(done)

    def _answered(self, request_id: int, message: Message) -> None:
        self.feed(lambda now_ms: self.node.receive_response(request_id, message, now_ms))

    def _failed(self, request_id: int, error: ErrorCode) -> None:
        self.feed(lambda now_ms: self.node.request_failed(request_id, error, now_ms))

    # Time

    def _arm(self, wake_at_ms: int) -> None:
        """A timer that rings too early does no harm, so only an earlier time moves it."""
        if wake_at_ms >= self._timer_deadline_ms or wake_at_ms == NEVER:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_deadline_ms = wake_at_ms
        self._timer = self._timers.call_at(wake_at_ms, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_deadline_ms = NEVER
        self.feed(self.node.tick)


def _deliver(answer: Answer) -> None:
    """To who asked; if he has gone, what was retained for him is released."""
    pending = answer.token
    if not isinstance(pending, Pending):
        invariant(False, "a request's token is its pending answer", token=pending)
        return
    if pending.done and isinstance(answer.message, FetchResponse):
        for topic in answer.message.responses:
            for partition in topic.partitions:
                if isinstance(partition.records, LogSlice):
                    partition.records.release()
    pending.complete(answer.message)
