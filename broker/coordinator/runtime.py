"""The runtime of a coordinator: one state machine per partition of its internal topic.

    elected ──► Loading ──(log read back)──► Active ──► resigned
                  │ ▲
                  └─┘ the disk failed: again after a pause

The broker that leads a partition of the topic coordinates what hashes to it. An operation on an Active
machine goes this way:

1. it runs, changes no recorded state, and returns an :class:`Outcome`;
2. its records are replayed into the machine, by the same `replay` that loading uses, with an undo log;
3. they are appended as one batch;
4. when the high watermark has passed the batch the response goes out; readers that saw the records wait too.

If the log refuses the batch, the machine is rolled back: the newest writes are undone down to the refused
one, then the others are replayed. What replication has not confirmed in time is answered with an error but
stays, because it is in the log and may yet be committed.

Machines are not reentrant; the runtime calls them one operation at a time and delivers answers in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from broker.coordinator.batches import coordinator_batch, split_records
from broker.coordinator.loader import LoadTarget, PartitionLoad
from broker.coordinator.outcome import Outcome, Record, UndoLog, response_error
from broker.coordinator.ports import Moment, PartitionReader, PartitionWriter
from config.ports import Clock, Timer, Timers
from protocol.errors import ErrorCode
from protocol.serving import Pending

LOG: Final = logging.getLogger("barnabas.coordinator")

R = TypeVar("R")
LOAD_RETRY_MS: Final = 1000
"""Pause before a partition whose log could not be read is loaded again."""


class StateMachine(LoadTarget, Protocol):
    """What the runtime asks of a coordinator's state."""

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Apply a record; `undo` (absent while loading) takes the steps that take it back."""
        ...

    def unloaded(self, now: Moment) -> Outcome[None]:
        """The partition has another leader: set everybody free. Called last."""
        ...

    def next_look_ms(self) -> int | None:
        """When `expire` is to be called (monotonic); may be too early, never too late."""
        ...

    def expire(self, now: Moment) -> Outcome[None] | None:
        """What one passed deadline leads to; None when none is left."""
        ...


M = TypeVar("M", bound=StateMachine)


class RuntimeSettings(msgspec.Struct, frozen=True):
    """write_timeout_ms: how long a response waits for its records. slice_records: replayed in one turn of the
    loop while loading. load_buffer_bytes: read from disk at once."""

    write_timeout_ms: int = 5000
    slice_records: int = 2000
    load_buffer_bytes: int = 1024 * 1024
    batch_bytes: int = 900_000


class _Write(msgspec.Struct, gc=False, eq=False):
    """One batch on its way."""

    records: Sequence[Record]
    undo: UndoLog
    deadline_ms: int
    on_stored: Callable[[ErrorCode, Moment], Outcome[None]] | None
    waiters: list[tuple[Pending[Any], Any, Callable[[ErrorCode], Any]]]
    """Who is answered when it is committed: with what, or else with what for an error."""
    finished: bool = False


class _Shard(Generic[M]):
    """A partition that this broker leads."""

    def __init__(self, partition: int, leader_epoch: int, machine: M) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.machine = machine
        self.load: PartitionLoad | None = None
        """Set while loading."""
        self.closed = False
        self.writes: deque[_Write] = deque()
        self.timer: Timer | None = None
        self.timer_at_ms = 0


class CoordinatorRuntime(Generic[M]):
    """All machines of one coordinator on this broker."""

    def __init__(
        self,
        topic: str,
        make_machine: Callable[[int], M],
        *,
        writer: PartitionWriter,
        reader: PartitionReader,
        clock: Clock,
        timers: Timers,
        settings: RuntimeSettings,
    ) -> None:
        self.topic = topic
        self._make_machine = make_machine
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._timers = timers
        self._settings = settings
        self._shards: dict[int, _Shard[M]] = {}
        self._loading: deque[_Shard[M]] = deque()

    # Leadership

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: read it back. A later epoch of a led one changes nothing."""
        shard = self._shards.get(partition)
        if shard is not None:
            shard.leader_epoch = max(shard.leader_epoch, leader_epoch)
            return
        shard = _Shard(partition, leader_epoch, self._make_machine(partition))
        self._shards[partition] = shard
        self._start_loading(shard)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker leads it no longer; an epoch that is not newer than ours is old news. None: removed."""
        shard = self._shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.leader_epoch):
            return
        del self._shards[partition]
        shard.closed = True
        if shard.timer is not None:
            shard.timer.cancel()
        writes, shard.writes = shard.writes, deque()
        for write in writes:
            write.finished = True
            for waiting, _, failed in write.waiters:
                waiting.complete(failed(ErrorCode.NOT_COORDINATOR))
        if shard.load is None:
            self._deliver(shard.machine.unloaded(self._now()))

    def close(self) -> None:
        """Resign from all partitions; used when the broker stops."""
        for partition in list(self._shards):
            self.resigned(partition)

    # Operations

    def run(
        self,
        partition: int,
        operation: Callable[[M, Moment], Outcome[R]],
        failed: Callable[[ErrorCode], R],
        *,
        waiting: Pending[R] | None = None,
    ) -> R | Pending[R]:
        """Run `operation` on the partition's machine.

        `failed` makes the response for an error: not the coordinator, still loading, or what the log
        answered. `waiting` is given by operations that park it themselves (they return no response).
        """
        shard = self._shards.get(partition)
        if shard is None:
            return failed(ErrorCode.NOT_COORDINATOR)
        if shard.load is not None:
            return failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        pending: Pending[R] = Pending() if waiting is None else waiting
        outcome = operation(shard.machine, self._now())
        self._settle(shard, outcome, pending, failed)
        self._arm(shard)
        response = pending.response
        return pending if response is None else response

    def read(
        self, partition: int, operation: Callable[[M, Moment], R], failed: Callable[[ErrorCode], R]
    ) -> R:
        """Run an operation that records nothing, and take its response without waiting for earlier writes."""
        shard = self._shards.get(partition)
        if shard is None:
            return failed(ErrorCode.NOT_COORDINATOR)
        if shard.load is not None:
            return failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        response = operation(shard.machine, self._now())
        self._arm(shard)
        return response

    def machines(self) -> Iterator[tuple[int, M | None]]:
        """Every led partition with its machine, or None while that is loading."""
        for partition in sorted(self._shards):
            shard = self._shards[partition]
            yield partition, None if shard.load is not None else shard.machine

    def run_everywhere(self, operation: Callable[[M, Moment], Outcome[None]]) -> None:
        """Run an operation without response on all machines (a topic was deleted)."""
        for partition, machine in list(self.machines()):
            if machine is not None:
                self.run(partition, operation, _nobody_waits)

    def _settle(
        self,
        shard: _Shard[M],
        outcome: Outcome[R],
        pending: Pending[R] | None,
        failed: Callable[[ErrorCode], Any],
    ) -> None:
        """Write, then answer. Everything that an operation leaves behind comes through here."""
        waiter = None
        if pending is not None and outcome.response is not None:
            waiter = (pending, outcome.response, failed)
        if outcome.records:
            self._write(shard, outcome, waiter)
        elif waiter is not None:
            if shard.writes:
                shard.writes[-1].waiters.append(waiter)
            else:
                pending_, response, _ = waiter
                pending_.complete(response)
        self._deliver(outcome)

    def _write(
        self,
        shard: _Shard[M],
        outcome: Outcome[R],
        waiter: tuple[Pending[R], R, Callable[[ErrorCode], R]] | None,
    ) -> None:
        now = self._now()
        chunks = (
            [outcome.records]
            if outcome.atomic
            else split_records(outcome.records, self._settings.batch_bytes)
        )
        last = len(chunks) - 1
        for number, records in enumerate(chunks):
            write = _Write(
                records=records,
                undo=UndoLog(),
                deadline_ms=now.monotonic_ms + self._settings.write_timeout_ms,
                on_stored=outcome.on_stored if number == last else None,
                waiters=[waiter] if waiter is not None and number == last else [],
            )
            self._replay(shard, write)
            shard.writes.append(write)
            batch = coordinator_batch(records, timestamp_ms=now.wall_ms)
            self._writer.append_internal(self.topic, shard.partition, batch, self._on_result(shard, write))

    def _on_result(self, shard: _Shard[M], write: _Write) -> Callable[[ErrorCode, int], None]:
        def on_result(error: ErrorCode, base_offset: int) -> None:
            del base_offset
            self._written(shard, write, error)

        return on_result

    def _replay(self, shard: _Shard[M], write: _Write) -> None:
        for record in write.records:
            shard.machine.replay(record.key, record.value, write.undo)

    def _written(self, shard: _Shard[M], write: _Write, error: ErrorCode) -> None:
        """The log has spoken about a batch."""
        if shard.closed or write.finished:
            return
        write.finished = True
        if error is ErrorCode.NONE:
            while shard.writes and shard.writes[0].finished:
                shard.writes.popleft()
        else:
            LOG.warning(
                "%s-%d refused %d records: %s", self.topic, shard.partition, len(write.records), error.name
            )
            self._roll_back(shard, write)
        self._conclude(shard, write, error)
        self._arm(shard)

    def _roll_back(self, shard: _Shard[M], refused: _Write) -> None:
        """Undo the newest writes down to the refused one, and replay those that still stand."""
        standing: list[_Write] = []
        while shard.writes:
            write = shard.writes.pop()
            write.undo.run()
            if write is refused:
                break
            standing.append(write)
        for write in reversed(standing):
            write.undo = UndoLog()
            self._replay(shard, write)
            shard.writes.append(write)

    def _conclude(self, shard: _Shard[M], write: _Write, error: ErrorCode) -> None:
        """Tell the machine and the waiting clients how a write ended. Once per write."""
        on_stored, write.on_stored = write.on_stored, None
        waiters, write.waiters = write.waiters, []
        if on_stored is not None:
            self._settle(shard, on_stored(error, self._now()), None, _nobody_waits)
        for waiting, response, failed in waiters:
            waiting.complete(response if error is ErrorCode.NONE else failed(response_error(error)))

    def _deliver(self, outcome: Outcome[Any]) -> None:
        for waiting, response in outcome.answers:
            waiting.complete(response)

    def _now(self) -> Moment:
        return Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

    # Deadlines

    def _arm(self, shard: _Shard[M]) -> None:
        """Have the timer ring no later than the next deadline. One that rings too early does no harm."""
        if shard.closed or shard.load is not None:
            return
        look = shard.machine.next_look_ms()
        if shard.writes and (look is None or shard.writes[0].deadline_ms < look):
            look = shard.writes[0].deadline_ms
        if look is None or (shard.timer is not None and shard.timer_at_ms <= look):
            return
        if shard.timer is not None:
            shard.timer.cancel()
        shard.timer_at_ms = look
        shard.timer = self._timers.call_at(look, lambda: self._ring(shard))

    def _ring(self, shard: _Shard[M]) -> None:
        shard.timer = None
        if shard.closed:
            return
        now = self._now()
        for write in list(shard.writes):
            if write.deadline_ms > now.monotonic_ms:
                break
            if write.waiters or write.on_stored is not None:
                self._conclude(shard, write, ErrorCode.REQUEST_TIMED_OUT)
            write.deadline_ms = now.monotonic_ms + self._settings.write_timeout_ms
        while not shard.closed:
            outcome = shard.machine.expire(now)
            if outcome is None:
                break
            self._settle(shard, outcome, None, _nobody_waits)
        self._arm(shard)

    # Loading

    def _start_loading(self, shard: _Shard[M]) -> None:
        shard.load = PartitionLoad(
            self.topic, shard.partition, self._reader, shard.machine, self._settings.load_buffer_bytes
        )
        self._loading.append(shard)
        if len(self._loading) == 1:
            self._timers.call_soon(self._load_slice)

    def _load_slice(self) -> None:
        """One slice of the partition that is first in line; others and the loop's work come in between."""
        shard = self._loading.popleft()
        if not shard.closed and shard.load is not None:
            try:
                done = shard.load.step(self._settings.slice_records)
            except (OSError, LookupError) as problem:
                LOG.error("cannot load %s-%d, trying again: %s", self.topic, shard.partition, problem)
                self._timers.call_at(
                    self._clock.monotonic_ms() + LOAD_RETRY_MS, lambda: self._load_again(shard)
                )
                done = False
            else:
                if not done:
                    self._loading.append(shard)
            if done:
                self._loaded(shard)
        if self._loading:
            self._timers.call_soon(self._load_slice)

    def _load_again(self, shard: _Shard[M]) -> None:
        if not shard.closed:
            shard.machine = self._make_machine(shard.partition)
            self._start_loading(shard)

    def _loaded(self, shard: _Shard[M]) -> None:
        load, shard.load = shard.load, None
        if load is not None and load.records:
            LOG.info("loaded %s-%d: %d records", self.topic, shard.partition, load.records)
        self._settle(shard, shard.machine.loaded(self._now()), None, _nobody_waits)
        self._arm(shard)


def _nobody_waits(error: ErrorCode) -> Any:
    del error
