"""One partition that this broker leads, from the election to the resignation.

    elected ──► LOADING ──(log read back)──► ACTIVE ──► CLOSED, by a resignation from any state
                 │ ▲ │
                 └─┘ └─(the log makes no sense)──► FAILED ──(elected anew)──► LOADING
                 the disk failed: again after a pause

An operation on an active partition goes this way:

1. it runs on the shard, changes no recorded state, and returns a :class:`CoordinatorResult`;
2. its records are replayed into the shard, by the same `replay` that loading uses, with an undo log;
3. they are appended as one batch (of what is larger than the log takes no batch is made: it is refused);
4. when the high watermark has passed the batch, the response goes out. Readers that saw the records wait for
   it, too.

What replication has not confirmed in time is answered with an error but stays, because it is in the log and
may yet be committed.

An operation that raises has recorded nothing: who asked is answered UNKNOWN_SERVER_ERROR, and the shard mends
what the operation left half done in memory. The same holds for deadlines and for what follows a write. A
shard that cannot be mended is thrown away by the owner of the context.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from broker.coordinator.ports import CoordinatorPorts, CurrentTime
from broker.coordinator.runtime.batches import least_batch_bytes, split_records
from broker.coordinator.runtime.coordinator_shard import CoordinatorShard
from broker.coordinator.runtime.partition_load import PartitionLoad
from broker.coordinator.runtime.pending_writes import PendingWrites, Transaction, Waiter, Write
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, response_error
from config.ports import Timer
from protocol.errors import EndsProcess, ErrorCode
from protocol.serving.pending import Pending
from storage.append import AppendResult
from storage.errors import AppendRefused

LOG: Final = logging.getLogger("barnabas.coordinator")
PARKED_AT_LEAST: Final = 8
"""Parked answers that are complete are removed when there are more than this, or twice as many as were left
the last time."""
DEADLINES_PER_TURN: Final = 256
"""The number of deadlines of one partition that are settled in one turn of the loop. The others follow in the
next turns."""

R = TypeVar("R")
S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorState(Enum):
    """The states of a partition, see the picture at the head of this module."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class ContextOwner(Protocol):
    """Is told of errors of the broker."""

    def shard_failed(self) -> None:
        """Called when the shard has raised, and is asked to mend it."""
        ...

    def restart(self, context: Any) -> None:
        """Called while an exception is handled: the shard cannot be relied upon, and must be replaced by
        another one."""
        ...


class CoordinatorContext(Generic[S]):
    """A partition with its shard, its pending writes, and its timer."""

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        make_shard: Callable[[int], S],
        ports: CoordinatorPorts,
        owner: ContextOwner,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self._make_shard = make_shard
        self._ports = ports
        self._owner = owner
        self._writes = PendingWrites()
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._last_deadline_raised = False
        """Whether the last deadline raised. If the next one raises too, mending does not help."""
        self._parked: list[tuple[Pending[Any], Callable[[ErrorCode], Any]]] = []
        self._parked_limit = PARKED_AT_LEAST
        self.load_again()

    # State

    def load_again(self) -> None:
        """Begins with a new shard, into which the log is to be read."""
        self.state = CoordinatorState.LOADING
        self.shard = self._make_shard(self.partition)
        self.load: PartitionLoad | None = PartitionLoad(
            self._ports.topic,
            self.partition,
            self._ports.reader,
            self.shard,
            self._ports.settings.load_buffer_bytes,
        )

    def loaded(self) -> None:
        """Begins to serve, and starts the deadlines, because the log is read."""
        result = self.shard.loaded(self._now())
        self.state, self.load = CoordinatorState.ACTIVE, None
        self._guard(self._await_committed)
        self._guard(partial(self._settle_alone, result))

    def _await_committed(self) -> None:
        """Waits until all that was read is committed, which a new leader may not know yet. Answers wait for
        that as for a write."""
        ports = self._ports
        write = Write((), self._deadline_ms())
        self._writes.add(write)

        def on_result(error: ErrorCode) -> None:
            self._guard(partial(self._decided, write, error))

        ports.writer.await_committed(ports.topic, self.partition, on_result)

    def leader_continues(self, leader_epoch: int) -> bool:
        """Takes in that the broker was elected again for the partition that it leads. Returns True if it must
        be loaded again, because its log made no sense the last time."""
        is_news = leader_epoch > self.leader_epoch
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        if self.state is not CoordinatorState.FAILED or not is_news:
            return False
        self.load_again()
        return True

    def failed(self) -> None:
        """Stops coordinating until the partition is loaded again, because the log makes no sense."""
        self.state, self.load = CoordinatorState.FAILED, None
        self.shard = self._make_shard(self.partition)

    def close(self) -> None:
        """Answers all waiting clients, because the partition is led elsewhere, or the shard is to be
        replaced."""
        was, self.state = self.state, CoordinatorState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
        for waiter in self._writes.abandon():
            waiter.complete(ErrorCode.NOT_COORDINATOR)
        if was is CoordinatorState.ACTIVE:
            self._deliver(self.shard.unloaded(self._now()))

    @property
    def is_closed(self) -> bool:
        return self.state is CoordinatorState.CLOSED

    @property
    def undecided(self) -> int:
        """Batches that are replayed into the shard, and on which the log has not decided yet."""
        return len(self._writes)

    def refusal(self) -> ErrorCode:
        """The error for a request now; NONE if the partition is active."""
        if self.state is CoordinatorState.ACTIVE:
            return ErrorCode.NONE
        if self.state is CoordinatorState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    # Operations, of an active partition

    def write(
        self,
        operation: Callable[[S, CurrentTime], CoordinatorResult[R]],
        failed: Callable[[ErrorCode], R],
        waiting: Pending[R] | None = None,
        transaction: Transaction | None = None,
    ) -> R | Pending[R]:
        """Runs an operation, appends its records, and answers when these are committed."""
        pending: Pending[R] = Pending() if waiting is None else waiting
        try:
            result = operation(self.shard, self._now())
        except Exception:
            self._mend("an operation")
            self._arm()
            pending.complete_by(partial(failed, ErrorCode.UNKNOWN_SERVER_ERROR))
            return pending if pending.response is None else pending.response
        try:
            if waiting is None and transaction is None and result.is_response_only and not self._writes:
                self._arm()
                return result.response  # type: ignore[return-value]
            self._settle(result, pending, failed, transaction)
            self._arm()
        except EndsProcess:
            raise
        except Exception:
            self._owner.restart(self)
            raise
        if waiting is not None and not waiting.done:
            self._park(waiting, failed)
        response = pending.response
        return pending if response is None else response

    def read(self, operation: Callable[[S, CurrentTime], R], failed: Callable[[ErrorCode], R]) -> R:
        """Runs an operation without records, and answers without waiting for earlier writes."""
        try:
            response = operation(self.shard, self._now())
        except Exception:
            self._mend("an operation")
            response = failed(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._arm()
        return response

    def _park(self, waiting: Pending[Any], failed: Callable[[ErrorCode], Any]) -> None:
        """Remembers the answer for a client that waits for the shard, in case the shard must be replaced."""
        self._parked.append((waiting, failed))
        if len(self._parked) > self._parked_limit:
            self._parked = [each for each in self._parked if not each[0].done]
            self._parked_limit = max(PARKED_AT_LEAST, 2 * len(self._parked))

    def answer_parked(self, error: ErrorCode) -> None:
        """Answers all clients that the shard would have answered."""
        parked, self._parked = self._parked, []
        for waiting, failed in parked:
            waiting.complete_by(partial(failed, error))

    # Results

    def _settle(
        self,
        result: CoordinatorResult[R],
        pending: Pending[R] | None,
        failed: Callable[[ErrorCode], Any],
        transaction: Transaction | None = None,
    ) -> None:
        """Writes the records of an operation, then answers. All outcomes of operations come through here."""
        waiter = None
        if pending is not None and result.response is not None:
            waiter = Waiter(pending, result.response, failed, self._deadline_ms())
        waiters = [] if waiter is None else [waiter]
        if result.refusal:
            self._conclude(Write((), 0, result.on_stored), result.refusal, waiters)
        elif transaction is not None and (result.records or transaction.marker is not None):
            self._append(result.records, result, waiters, transaction)
        elif result.records:
            self._append_all(result, waiters)
        elif waiter is not None and not self._writes.wait_for_last(waiter):
            waiter.complete(ErrorCode.NONE)
        self._deliver(result)

    def _settle_alone(self, result: CoordinatorResult[None]) -> None:
        """Settles the outcome of an operation that no client has asked for."""
        self._settle(result, None, nobody_waits)
        self._arm()

    def _append_all(self, result: CoordinatorResult[Any], waiters: list[Waiter]) -> None:
        """Appends one batch, or several if the records need not be in one. The last one answers."""
        ports = self._ports
        chunks: list[Sequence[CoordinatorRecord]] = [result.records]
        if not result.atomic:
            most_bytes = ports.writer.max_batch_bytes(ports.topic, self.partition)
            chunks = split_records(result.records, min(ports.settings.batch_bytes, most_bytes))
        for records in chunks[:-1]:
            self._append(records)
            if self.is_closed:  # by what the log decided on this batch
                for waiter in waiters:
                    waiter.complete(ErrorCode.NOT_COORDINATOR)
                return
        self._append(chunks[-1], result, waiters)

    def _append(
        self,
        records: Sequence[CoordinatorRecord],
        result: CoordinatorResult[Any] | None = None,
        waiters: list[Waiter] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        ports, now = self._ports, self._now()
        write = Write(
            records=records,
            deadline_ms=self._deadline_ms(),
            on_stored=None if result is None else result.on_stored,
            until_decided=result is not None and result.until_decided,
            waiters=waiters or [],
            transaction=transaction,
        )
        self._writes.add(write)
        if least_batch_bytes(records) > ports.writer.max_batch_bytes(ports.topic, self.partition):
            # While a batch is made it takes the memory of its records several times.
            self._decided(write, ErrorCode.MESSAGE_TOO_LARGE)
            return
        try:
            write.replay(self.shard)
            batch = write.batch(now.wall_ms)
            version = 0 if transaction is None else transaction.version
            ports.writer.append_internal(ports.topic, self.partition, batch, self._on_result(write), version)
        except EndsProcess:
            raise  # the log's own: nothing here can answer for it
        except Exception:
            LOG.exception("%s-%d: %d records were not written", ports.topic, self.partition, len(records))
            self._decided(write, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _on_result(self, write: Write) -> Callable[[AppendResult | AppendRefused], None]:
        def on_result(result: AppendResult | AppendRefused) -> None:
            error = ErrorCode.NONE if isinstance(result, AppendResult) else result.error_code
            self._guard(partial(self._decided, write, error))

        return on_result

    def _decided(self, write: Write, error: ErrorCode) -> None:
        """Called when the log has committed or refused a batch."""
        if self.is_closed or write.is_decided:
            return
        if error is ErrorCode.NONE:
            self._writes.committed(write)
        else:
            LOG.warning(
                "%s-%d refused %d records: %s",
                self._ports.topic,
                self.partition,
                len(write.records),
                error.name,
            )
            self._writes.refused(write, self.shard)
        waiters, write.waiters = write.waiters, []
        self._conclude(write, error, waiters)
        self._arm()

    def _conclude(self, write: Write, error: ErrorCode, waiters: list[Waiter]) -> None:
        """Tells the shard and these clients how a write has ended, or that it takes too long. The shard is
        told of a write once."""
        on_stored = None
        if write.is_decided or not write.until_decided:
            on_stored, write.on_stored = write.on_stored, None
        if on_stored is not None:
            try:
                result = on_stored(error, self._now())
            except Exception:
                self._mend("what follows a write", everything=True)
            else:
                self._settle(result, None, nobody_waits)
        if error is not ErrorCode.NONE:
            error = response_error(error)
        for waiter in waiters:
            waiter.complete(error)

    def _deliver(self, result: CoordinatorResult[Any]) -> None:
        for waiting, response in result.answers:
            waiting.complete(response)

    def _now(self) -> CurrentTime:
        clock = self._ports.clock
        return CurrentTime(clock.wall_ms(), clock.monotonic_ms())

    def _deadline_ms(self) -> int:
        """The deadline of an operation that begins now."""
        return self._ports.clock.monotonic_ms() + self._ports.settings.write_timeout_ms

    # Deadlines

    def _arm(self) -> None:
        """Sets the timer to the next deadline, or leaves it earlier. A timer that rings too early does no
        harm."""
        if self.state is not CoordinatorState.ACTIVE:
            return
        look, decided_by_ms = self.shard.next_look_ms(), self._writes.next_deadline_ms()
        if decided_by_ms is not None and (look is None or decided_by_ms < look):
            look = decided_by_ms
        if look is None or (self._timer is not None and self._timer_at_ms <= look):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = look
        self._timer = self._ports.timers.call_at(look, lambda: self._guard(self._ring))

    def _ring(self) -> None:
        self._timer = None
        if self.is_closed:
            return
        now = self._now()
        for write in self._writes.overdue(now.monotonic_ms):
            overdue = write.overdue_waiters(now.monotonic_ms)
            self._conclude(write, ErrorCode.REQUEST_TIMED_OUT, overdue)
        for _ in range(DEADLINES_PER_TURN):
            if self.is_closed:
                return
            try:
                result = self.shard.expire(now)
            except Exception:
                if self._last_deadline_raised:
                    self._owner.restart(self)
                    return
                self._last_deadline_raised = True
                self._mend("a deadline")
                continue
            self._last_deadline_raised = False
            if result is None:
                break
            self._settle(result, None, nobody_waits)
        self._arm()

    # Errors of ours

    def _guard(self, step: Callable[[], None]) -> None:
        """Runs a step that a timer or the log calls. If it raises, the shard is replaced."""
        try:
            step()
        except EndsProcess:
            raise
        except Exception:
            self._owner.restart(self)

    def _mend(self, what: str, *, everything: bool = False) -> None:
        """Logs an exception of the shard, and has the shard mended. Called while the exception is handled."""
        self._owner.shard_failed()
        LOG.exception(
            "%s-%d: %s failed; this is our fault. Nothing of it is recorded",
            self._ports.topic,
            self.partition,
            what,
        )
        try:
            result = self.shard.mend(self._now(), everything=everything)
        except Exception:
            self._owner.restart(self)
        else:
            self._settle(result, None, nobody_waits)


def nobody_waits(error: ErrorCode) -> Any:
    """The response to a failed operation that no client has asked for."""
    del error
