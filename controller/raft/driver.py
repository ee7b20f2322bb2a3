"""Executes what the raft node wants done, in the order in which it says it, and feeds it with what happens.

    inputs ──▶ queue ──▶ node ──▶ Ready:  hard state ─▶ log ─▶ messages ─▶ commit ─▶ leader ─▶ sync
                 ▲                            │          │
                 └── waits while one of these ┴──────────┘ is under way in a helper thread

Inputs come one at a time and never while an earlier one is being executed: an answer that makes the network
hand over the next request finds the queue, not the node. A sync begins when the turn of the loop is over: it
runs beside the messages' way, and the thread that waits for it does not fight the loop for the interpreter.

Appends of the controller are gathered. What comes in one turn of the loop is written together; while the disk
is busy with earlier ones it waits for it, for up to `controller.quorum.append.linger.ms`, and shares the next
sync. Whatever else comes in finds everything written: a follower's fetch takes along what is there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import Final, ParamSpec

from config.ports import Clock, Timer, Timers
from controller.raft.batch_accumulator import AccumulatedBatch
from controller.raft.disk import ReplicaDisk
from controller.raft.effects import (
    AdvanceLogStart,
    Answer,
    Append,
    DropPart,
    InstallSnapshot,
    LogOperation,
    Ready,
    Request,
    SnapshotChunk,
    Truncate,
)
from controller.raft.identity import LeaderAndEpoch, SnapshotId
from controller.raft.log_port import SnapshotControl
from controller.raft.node import NotLeading, RaftNode
from controller.raft.peers import ReplicaPeers
from controller.raft.roles import NEVER
from protocol.codec.message import Message
from protocol.errors import EndsProcess, ErrorCode, InvariantViolated, invariant
from protocol.messages.fetch import FetchResponse
from protocol.messages.vote import VoteResponse
from protocol.serving.pending import CloseConnection, Pending
from storage.slices import LogSlice

__all__ = ["RaftDriver"]

_log = logging.getLogger("barnabas.quorum")

SOON_MS: Final = 50

Input = Callable[[int], Ready]
"""A function that gives the node one input at a time in milliseconds, and returns the node's `Ready`."""

P = ParamSpec("P")

_REFUSALS: Final[Mapping[int, str]] = MappingProxyType(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID: (
            "A controller belongs to another cluster than the directory of this node "
            "(INCONSISTENT_CLUSTER_ID). Check controller.quorum.bootstrap.servers and log.dirs"
        ),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
            "A controller does not allow this node to take part (CLUSTER_AUTHORIZATION_FAILED). Name the "
            "principal of this node in super.users of every controller and broker, or give it an access "
            "control entry for CLUSTER_ACTION on the cluster"
        ),
    }
)
"""What an operator is told if another controller refuses this node, by error."""


def _to_the_end(step: Callable[P, None]) -> Callable[P, None]:
    """Makes every exception of a step in the execution of a Ready one that ends the process. Otherwise the
    request that brought the input would be answered with an error, and the replica would stand still."""

    @wraps(step)
    def whole(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            step(*arguments, **named)
        except EndsProcess:
            raise
        except Exception as failure:
            what = f"{type(failure).__name__}: {failure}"
            raise InvariantViolated(f"what the quorum's node wants is done to its end ({what})") from failure

    return whole


class RaftDriver:
    """Drives one node. on_commit, on_leader and on_installed are called in the order of a Ready's fields."""

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
        """True while `_run` is on the stack. It then goes on with further inputs itself."""
        self._is_executing = False
        """True while a Ready is not executed completely. The rest follows when a helper thread has ended."""
        self._gathered: deque[AccumulatedBatch] = deque()
        self._gathering_ends: Timer | None = None
        self._asked_sync = 0
        self._timer: Timer | None = None
        self._timer_deadline_ms = NEVER
        self._wake_at_ms = NEVER
        self._is_stopped = False
        self._told_refusals: set[int] = set()
        self._on_shut_down: Callable[[], None] | None = None
        self.on_commit: Callable[[int], None] = lambda high_watermark: None
        self.on_leader: Callable[[LeaderAndEpoch], None] = lambda leader: None
        self.on_installed: Callable[[SnapshotId], None] = lambda snapshot: None
        disk.on_synced = self._synced

    # Inputs

    def start(self) -> None:
        """Starts the node. If it is the only voter, it leads when this returns and everything is on the disk,
        so that the node has a controller before its listeners open."""
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
        """Gives the node a request of a peer, an observer or an admin client. It becomes a `CloseConnection`
        if the node has shut down: a request without an answer would hold up the end of the process, which
        waits for the answers that it owes."""
        pending: Pending[Message] = Pending()

        def receive(now_ms: int) -> Ready:
            if self.node.is_shut_down:
                pending.complete(CloseConnection("the replica has shut down"))  # type: ignore[arg-type]
                return self.node.tick(now_ms)
            return self.node.receive_request(pending, message, now_ms, version=version, listener=listener)

        self.feed(receive)
        return pending

    @property
    def next_offset(self) -> int:
        """The offset of the next record that is appended here."""
        return self._gathered[-1].end_offset if self._gathered else self.node.end_offset

    def append(
        self,
        epoch: int,
        values: Sequence[bytes],
        timestamp_ms: int,
        *,
        is_alone: bool = False,
        is_news: bool = True,
    ) -> AccumulatedBatch:
        """Adds records, which begin at `next_offset`, to the batch in which they will be written, alone or
        with others. The batch is returned.

        It is written in a moment, or never if the leadership is lost before. timestamp_ms: used if a new
        batch begins. is_news: see `RaftNode.append`.
        """
        is_first = not self._gathered
        if is_first or is_alone or not self._gathered[-1].takes(epoch, values):
            self._gathered.append(AccumulatedBatch(epoch, self.next_offset, timestamp_ms))
        accumulated = self._gathered[-1]
        accumulated.add(values, is_news=is_news)
        accumulated.is_open = not is_alone
        if is_first:
            self._await_writing()
        return accumulated

    def _await_writing(self) -> None:
        if self._linger_ms and (self._asked_sync or self._disk.is_syncing):
            deadline_ms = self._clock.monotonic_ms() + self._linger_ms
            self._gathering_ends = self._timers.call_at(deadline_ms, self._run)
        else:
            self._timers.call_soon(self._run)

    def raise_kraft_version(self, epoch: int, version: int) -> int:
        """Raises the kraft.version. Returns the offset of the first control record that says so. Raises
        VersionChangeRefused and NotLeading.

        It is not raised if an input that comes first takes the leadership away. As after an append, the
        controller is then told of the loss, before or after this call returns.
        """
        self.node.check_kraft_version(epoch, version)
        base_offset = self.next_offset

        def upgrade(now_ms: int) -> Ready:
            try:
                return self.node.upgrade_kraft_version(epoch, version, validate_only=False, now_ms=now_ms)
            except NotLeading:
                return self.node.tick(now_ms)

        self.feed(upgrade)
        self.node.refuse_unless_leading(epoch)  # if that is lost already, nobody takes back what is noted now
        return base_offset

    def feed(self, event: Input) -> None:
        """Gives the node an input, as soon as the disk has done what earlier inputs have asked for."""
        if not self._is_stopped:
            self._inputs.append(event)
            self._run()

    def shut_down(self, timeout_ms: int, done: Callable[[], None]) -> None:
        """Ends the node's part in the quorum in order. Calls `done` when nobody needs this replica any more,
        or when the time is over."""
        self._on_shut_down = done
        self.feed(lambda now_ms: self.node.shut_down(timeout_ms, now_ms))

    def stop(self) -> None:
        """Drops all inputs and timers and closes the connections. The node gets no further input."""
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

    @_to_the_end
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
        """Appends all batches of one epoch together. Those of an epoch that has ended are dropped: the
        controller is told of the new leader, and forgets them."""
        first = self._gathered.popleft()
        epoch, content, is_news = first.epoch, first.close(), first.is_news
        while self._gathered and self._gathered[0].epoch == epoch:
            is_news |= self._gathered[0].is_news
            content += self._gathered.popleft().close()
        if self._gathering_ends is not None:
            self._gathering_ends.cancel()
            self._gathering_ends = None
        try:
            return self.node.append(epoch, content, now_ms, is_news=is_news)
        except NotLeading:
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

    @_to_the_end
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
                case DropPart():
                    disk.drop_part(operation.snapshot)
                case InstallSnapshot():
                    installing = operation.snapshot
                case AdvanceLogStart():
                    disk.advance_start(operation.snapshot)
        self._tell(ready)
        if ready.sync:
            self._sync_soon(ready.sync)
        if installing is not None:
            self._install(installing)
            return
        self._is_executing = False
        self._run()

    def _sync_soon(self, number: int) -> None:
        if not self._asked_sync:
            self._timers.call_soon(self._begin_sync)
        self._asked_sync = number

    def _begin_sync(self) -> None:
        number, self._asked_sync = self._asked_sync, 0
        if not self._is_stopped:
            self._disk.sync(number)

    def _install(self, snapshot: SnapshotId) -> None:
        @_to_the_end
        def installed(control: SnapshotControl | None) -> None:
            if control is None:
                _log.warning("The snapshot %s that was fetched is broken; it is fetched again", snapshot)
            else:
                self.on_installed(snapshot)
            self._execute(self.node.snapshot_installed(snapshot, control, self._now()))

        self._disk.install(snapshot, installed)

    def _tell(self, ready: Ready) -> None:
        """Sends and announces what must not be known before the disk has it."""
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
        if isinstance(message, FetchResponse | VoteResponse) and message.error_code in _REFUSALS:
            self._tell_of_refusal(message.error_code)
        self.feed(lambda now_ms: self.node.receive_response(request_id, message, now_ms))

    def _tell_of_refusal(self, error: int) -> None:
        """Logs each kind once. The replica goes on asking, because other controllers may answer, or the same
        one later."""
        if error not in self._told_refusals:
            self._told_refusals.add(error)
            _log.error("%s", _REFUSALS[error])

    def _failed(self, request_id: int, error: ErrorCode) -> None:
        self.feed(lambda now_ms: self.node.request_failed(request_id, error, now_ms))

    # Time

    def _arm(self, wake_at_ms: int) -> None:
        """Sets the timer for `RaftNode.tick`. A timer that rings too early does no harm. So it is moved to an
        earlier time, and to a later one only if it would soon wake an idle node for nothing."""
        self._wake_at_ms = wake_at_ms
        deadline_ms = self._timer_deadline_ms
        if wake_at_ms == deadline_ms:
            return
        if wake_at_ms > deadline_ms and deadline_ms - self._clock.monotonic_ms() > SOON_MS:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_deadline_ms = wake_at_ms
        if wake_at_ms != NEVER:
            self._timer = self._timers.call_at(wake_at_ms, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_deadline_ms = NEVER
        if self._wake_at_ms > self._clock.monotonic_ms():
            self._arm(self._wake_at_ms)
        else:
            self.feed(self.node.tick)


def _deliver(answer: Answer) -> None:
    """Gives the answer to the one that asked. If its connection is closed, slices in the answer are
    released."""
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
