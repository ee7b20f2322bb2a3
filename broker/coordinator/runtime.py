"""The runtime of a coordinator: one state machine per partition of its internal topic.

    elected ──► Loading ──(log read back)──► Active ──► resigned
                 │ ▲ │
                 └─┘ └─(what lies there is no log)──► Failed ──(elected anew)──► Loading
                 the disk failed: again after a pause

The broker that leads a partition of the topic coordinates what hashes to it. An operation on an Active
machine goes this way:

1. it runs, changes no recorded state, and returns an :class:`CoordinatorResult`;
2. its records are replayed into the machine, by the same `replay` that loading uses, with an undo log;
3. they are appended as one batch (of what is larger than the log takes no batch is made: it is refused);
4. when the high watermark has passed the batch the response goes out; readers that saw the records wait too.

If the log refuses the batch, the machine is rolled back: the newest writes are undone down to the refused
one, then the others are replayed. What replication has not confirmed in time is answered with an error but
stays, because it is in the log and may yet be committed.

Machines are not reentrant; the runtime calls them one operation at a time and delivers answers in between.

What raises fails alone. An operation that raises has recorded nothing; who asked is answered
UNKNOWN_SERVER_ERROR, and the machine mends what it left half done in memory. The same holds for deadlines and
for what follows a write. A machine that cannot be mended cannot be relied upon: it is thrown away, all who
wait for it are told to look for the coordinator, and the partition is read back from its log, as by a new
leader. A partition whose log cannot be made sense of is given up, alone: its groups hear NOT_COORDINATOR, as
from Kafka, until an election loads it again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from broker.coordinator.batches import coordinator_batch, least_batch_bytes, split_records
from broker.coordinator.loader import LoadTarget, LogOutOfReach, PartitionLoad
from broker.coordinator.ports import CurrentTime, PartitionReader, PartitionWriter
from broker.coordinator.result import CoordinatorRecord, CoordinatorResult, UndoLog, response_error
from config.ports import Clock, Timer, Timers
from protocol.errors import EndsProcess, ErrorCode
from protocol.records.errors import RecordsError
from protocol.serving.pending import Pending
from storage.append import AppendResult
from storage.errors import AppendRefused

LOG: Final = logging.getLogger("barnabas.coordinator")

R = TypeVar("R")
LOAD_RETRY_MS: Final = 1000
"""Pause before a partition whose log could not be read, or whose machine failed, is loaded again."""
PARKED_AT_LEAST: Final = 8
"""So many who wait are kept before those are looked for who wait no longer."""
RING_OUTCOMES: Final = 256
"""Deadlines of one partition that are settled in one turn of the loop; the rest follows in the next."""


class StateMachine(LoadTarget, Protocol):
    """What the runtime asks of a coordinator's state."""

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Apply a record; `undo` (absent while loading) takes the steps that take it back."""
        ...

    def unloaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        """The partition has another leader: set everybody free. Called last."""
        ...

    def next_look_ms(self) -> int | None:
        """When `expire` is to be called (monotonic); may be too early, never too late."""
        ...

    def expire(self, now: CurrentTime) -> CoordinatorResult[None] | None:
        """What one passed deadline leads to; None when none is left."""
        ...

    def mend(self, now: CurrentTime, *, everything: bool) -> CoordinatorResult[None]:
        """Something raised: the last operation, or (everything) one that nobody can name. Nothing of it was
        recorded; put right what it has left half done in memory."""
        ...


M = TypeVar("M", bound=StateMachine)


class RuntimeSettings(msgspec.Struct, frozen=True):
    """write_timeout_ms: how long a response waits for its records. slice_records: replayed in one turn of the
    loop while loading. load_buffer_bytes: read from disk at once."""

    write_timeout_ms: int = 5000
    slice_records: int = 2000
    load_buffer_bytes: int = 1024 * 1024
    batch_bytes: int = 900_000
    """What need not be in one batch is cut to this, or to what the log takes if that is less."""


class _Write(msgspec.Struct, gc=False, eq=False):
    """One batch on its way."""

    records: Sequence[CoordinatorRecord]
    undo: UndoLog
    deadline_ms: int
    on_stored: Callable[[ErrorCode, CurrentTime], CoordinatorResult[None]] | None
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
        self.trouble = ""
        """Why the last try to load it ended early."""
        self.failed = False
        """Its log cannot be made sense of; there is no coordinator until it is loaded again."""
        self.closed = False
        self.writes: deque[_Write] = deque()
        self.timer: Timer | None = None
        self.timer_at_ms = 0
        self.has_failing_deadline = False
        """The last deadline raised. If the next one raises too, mending does not help."""
        self._parked: list[tuple[Pending[Any], Callable[[ErrorCode], Any]]] = []
        self._parked_limit = PARKED_AT_LEAST

    def park(self, waiting: Pending[Any], failed: Callable[[ErrorCode], Any]) -> None:
        """Somebody waits for the machine; what he is told if it cannot be relied upon any more."""
        self._parked.append((waiting, failed))
        if len(self._parked) > self._parked_limit:
            self._parked = [each for each in self._parked if not each[0].done]
            self._parked_limit = max(PARKED_AT_LEAST, 2 * len(self._parked))

    def set_free(self, error: ErrorCode) -> None:
        parked, self._parked = self._parked, []
        for waiting, failed in parked:
            waiting.complete_by(partial(failed, error))


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
        self.failures = 0
        """Exceptions of ours: those that a machine could mend, and those for which it was thrown away."""

    # Leadership

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: read it back. A later epoch of a led one changes nothing,
        unless its log made no sense the last time."""
        shard = self._shards.get(partition)
        if shard is not None:
            is_news = leader_epoch > shard.leader_epoch
            shard.leader_epoch = max(shard.leader_epoch, leader_epoch)
            if shard.failed and is_news:
                shard.failed = False
                self._start_loading(shard)
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
                waiting.complete_by(partial(failed, ErrorCode.NOT_COORDINATOR))
        if shard.load is None and not shard.failed:
            self._deliver(shard.machine.unloaded(self._now()))

    def close(self) -> None:
        """Resign from all partitions; used when the broker stops."""
        for partition in list(self._shards):
            self.resigned(partition)

    # Operations

    def run(
        self,
        partition: int,
        operation: Callable[[M, CurrentTime], CoordinatorResult[R]],
        failed: Callable[[ErrorCode], R],
        *,
        waiting: Pending[R] | None = None,
    ) -> R | Pending[R]:
        """Run `operation` on the partition's machine.

        `failed` makes the response for an error: not the coordinator, still loading, or what the log
        answered. `waiting` is given by operations that park it themselves (they return no response).
        """
        shard = self._shards.get(partition)
        if shard is None or shard.failed:
            return failed(ErrorCode.NOT_COORDINATOR)
        if shard.load is not None:
            return failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        pending: Pending[R] = Pending() if waiting is None else waiting
        try:
            result = operation(shard.machine, self._now())
        except Exception:
            self._mend(shard, "an operation")
            self._arm(shard)
            pending.complete_by(partial(failed, ErrorCode.UNKNOWN_SERVER_ERROR))
            return pending if pending.response is None else pending.response
        try:
            self._settle(shard, result, pending, failed)
            self._arm(shard)
        except EndsProcess:
            raise
        except Exception:
            self._restart(shard)
            raise
        if waiting is not None and not waiting.done:
            shard.park(waiting, failed)
        response = pending.response
        return pending if response is None else response

    def read(
        self, partition: int, operation: Callable[[M, CurrentTime], R], failed: Callable[[ErrorCode], R]
    ) -> R:
        """Run an operation that records nothing, and take its response without waiting for earlier writes."""
        shard = self._shards.get(partition)
        if shard is None or shard.failed:
            return failed(ErrorCode.NOT_COORDINATOR)
        if shard.load is not None:
            return failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            response = operation(shard.machine, self._now())
        except Exception:
            self._mend(shard, "an operation")
            response = failed(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._arm(shard)
        return response

    def machines(self) -> Iterator[tuple[int, M | None]]:
        """Every led partition with its machine, or None while that is loading; without those given up."""
        for partition in sorted(self._shards):
            shard = self._shards[partition]
            if not shard.failed:
                yield partition, None if shard.load is not None else shard.machine

    def max_batch_bytes(self, partition: int) -> int:
        """The largest batch that the partition's log takes. An operation whose records would be larger need
        not make them all."""
        return self._writer.max_batch_bytes(self.topic, partition)

    def run_everywhere(self, operation: Callable[[M, CurrentTime], CoordinatorResult[None]]) -> None:
        """Run an operation without response on all machines (a topic was deleted)."""
        for partition, machine in list(self.machines()):
            if machine is not None:
                self.run(partition, operation, _nobody_waits)

    def _settle(
        self,
        shard: _Shard[M],
        result: CoordinatorResult[R],
        pending: Pending[R] | None,
        failed: Callable[[ErrorCode], Any],
    ) -> None:
        """Write, then answer. Everything that an operation leaves behind comes through here."""
        waiter = None
        if pending is not None and result.response is not None:
            waiter = (pending, result.response, failed)
        if result.refusal:
            write = _Write([], UndoLog(), 0, result.on_stored, [] if waiter is None else [waiter])
            self._conclude(shard, write, result.refusal)
        elif result.records:
            self._write(shard, result, waiter)
        elif waiter is not None:
            if shard.writes:
                shard.writes[-1].waiters.append(waiter)
            else:
                pending_, response, _ = waiter
                pending_.complete(response)
        self._deliver(result)

    def _write(
        self,
        shard: _Shard[M],
        result: CoordinatorResult[R],
        waiter: tuple[Pending[R], R, Callable[[ErrorCode], R]] | None,
    ) -> None:
        now = self._now()
        taken_bytes = self.max_batch_bytes(shard.partition)
        if result.atomic:
            chunks: list[Sequence[CoordinatorRecord]] = [result.records]
        else:
            chunks = split_records(result.records, min(self._settings.batch_bytes, taken_bytes))
        last = len(chunks) - 1
        for number, records in enumerate(chunks):
            if shard.closed:  # by the verdict on the chunk before
                if waiter is not None:
                    waiter[0].complete_by(partial(waiter[2], ErrorCode.NOT_COORDINATOR))
                return
            write = _Write(
                records=records,
                undo=UndoLog(),
                deadline_ms=now.monotonic_ms + self._settings.write_timeout_ms,
                on_stored=result.on_stored if number == last else None,
                waiters=[waiter] if waiter is not None and number == last else [],
            )
            shard.writes.append(write)
            if least_batch_bytes(records) > taken_bytes:
                # While a batch is made it takes the memory of its records several times.
                self._written(shard, write, ErrorCode.MESSAGE_TOO_LARGE)
                continue
            try:
                self._replay(shard, write)
                batch = coordinator_batch(records, timestamp_ms=now.wall_ms)
                self._writer.append_internal(
                    self.topic, shard.partition, batch, self._on_result(shard, write)
                )
            except EndsProcess:
                raise  # the log's own: nothing here can answer for it
            except Exception:
                LOG.exception("%s-%d: %d records were not written", self.topic, shard.partition, len(records))
                self._written(shard, write, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _on_result(self, shard: _Shard[M], write: _Write) -> Callable[[AppendResult | AppendRefused], None]:
        def on_result(result: AppendResult | AppendRefused) -> None:
            error = ErrorCode.NONE if isinstance(result, AppendResult) else result.error_code
            self._guard(shard, lambda shard: self._written(shard, write, error))

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
            try:
                result = on_stored(error, self._now())
            except Exception:
                self._mend(shard, "what follows a write", everything=True)
            else:
                self._settle(shard, result, None, _nobody_waits)
        for waiting, response, failed in waiters:
            if error is ErrorCode.NONE:
                waiting.complete(response)
            else:
                waiting.complete_by(partial(failed, response_error(error)))

    def _mend(self, shard: _Shard[M], what: str, *, everything: bool = False) -> None:
        """Called where something of the machine's has raised: say so, and have it mended."""
        self.failures += 1
        LOG.exception(
            "%s-%d: %s failed; this is our fault. Nothing of it is recorded",
            self.topic,
            shard.partition,
            what,
        )
        try:
            result = shard.machine.mend(self._now(), everything=everything)
        except Exception:
            self._restart(shard)
        else:
            self._settle(shard, result, None, _nobody_waits)

    def _deliver(self, result: CoordinatorResult[Any]) -> None:
        for waiting, response in result.answers:
            waiting.complete(response)

    def _now(self) -> CurrentTime:
        return CurrentTime(self._clock.wall_ms(), self._clock.monotonic_ms())

    # Faults

    def _guard(self, shard: _Shard[M], step: Callable[[_Shard[M]], None]) -> None:
        """For what runs in a turn of somebody else."""
        try:
            step(shard)
        except EndsProcess:
            raise
        except Exception:
            self._restart(shard)

    def _restart(self, shard: _Shard[M]) -> None:
        """Called while an exception of ours is handled."""
        self.failures += 1
        LOG.exception("%s-%d failed; this is our fault. It is read back", self.topic, shard.partition)
        if self._shards.get(shard.partition) is not shard:
            return
        try:
            self.resigned(shard.partition)
        except EndsProcess:
            raise
        except Exception:
            LOG.exception("%s-%d could not set everybody free", self.topic, shard.partition)
        shard.set_free(ErrorCode.NOT_COORDINATOR)
        again = _Shard(shard.partition, shard.leader_epoch, self._make_machine(shard.partition))
        self._shards[shard.partition] = again
        again.load = load = self._load_of(again)
        self._timers.call_at(
            self._clock.monotonic_ms() + LOAD_RETRY_MS, lambda: self._load_again(again, load)
        )

    # Deadlines

    def _arm(self, shard: _Shard[M]) -> None:
        """Have the timer ring no later than the next deadline. One that rings too early does no harm."""
        if shard.closed or shard.failed or shard.load is not None:
            return
        look = shard.machine.next_look_ms()
        if shard.writes and (look is None or shard.writes[0].deadline_ms < look):
            look = shard.writes[0].deadline_ms
        if look is None or (shard.timer is not None and shard.timer_at_ms <= look):
            return
        if shard.timer is not None:
            shard.timer.cancel()
        shard.timer_at_ms = look
        shard.timer = self._timers.call_at(look, lambda: self._guard(shard, self._ring))

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
        for _ in range(RING_OUTCOMES):
            if shard.closed:
                return
            try:
                result = shard.machine.expire(now)
            except Exception:
                if shard.has_failing_deadline:
                    self._restart(shard)
                    return
                shard.has_failing_deadline = True
                self._mend(shard, "a deadline")
                continue
            shard.has_failing_deadline = False
            if result is None:
                break
            self._settle(shard, result, None, _nobody_waits)
        self._arm(shard)

    # Loading

    def _start_loading(self, shard: _Shard[M]) -> None:
        shard.load = self._load_of(shard)
        self._loading.append(shard)
        if len(self._loading) == 1:
            self._timers.call_soon(self._load_slice)

    def _load_of(self, shard: _Shard[M]) -> PartitionLoad:
        return PartitionLoad(
            self.topic, shard.partition, self._reader, shard.machine, self._settings.load_buffer_bytes
        )

    def _load_slice(self) -> None:
        """One slice of the partition that is first in line; others and the loop's work come in between."""
        shard = self._loading.popleft()
        try:
            if not shard.closed and shard.load is not None:
                self._load_on(shard, shard.load)
        finally:
            if self._loading:
                self._timers.call_soon(self._load_slice)

    def _load_on(self, shard: _Shard[M], load: PartitionLoad) -> None:
        try:
            if not load.step(self._settings.slice_records):
                self._loading.append(shard)
                return
            loaded = shard.machine.loaded(self._now())
        except LogOutOfReach as problem:
            if str(problem) != shard.trouble:
                LOG.error("cannot load %s-%d, trying again: %s", self.topic, shard.partition, problem)
            shard.trouble = str(problem)
            self._timers.call_at(
                self._clock.monotonic_ms() + LOAD_RETRY_MS, lambda: self._load_again(shard, load)
            )
        except RecordsError as problem:
            self._give_up(shard, problem.message)
        except EndsProcess:
            raise
        except Exception as problem:
            LOG.exception("%s-%d: loading failed", self.topic, shard.partition)
            self._give_up(shard, repr(problem))
        else:
            self._guard(shard, lambda shard: self._loaded(shard, load, loaded))

    def _load_again(self, shard: _Shard[M], load: PartitionLoad) -> None:
        if not shard.closed and shard.load is load:
            shard.machine = self._make_machine(shard.partition)
            self._start_loading(shard)

    def _give_up(self, shard: _Shard[M], problem: str) -> None:
        """The partition has no coordinator until an election, or the next start, loads it again."""
        shard.load, shard.failed = None, True
        shard.machine = self._make_machine(shard.partition)
        LOG.error(
            "%s-%d cannot be loaded, and what it coordinates gets NOT_COORDINATOR: %s. All other partitions "
            "go on; it is loaded again when it is elected anew or the broker starts",
            self.topic, shard.partition, problem,
        )  # fmt: skip

    def _loaded(self, shard: _Shard[M], load: PartitionLoad, result: CoordinatorResult[None]) -> None:
        shard.load, shard.trouble = None, ""
        if load.records:
            LOG.info("loaded %s-%d: %d records", self.topic, shard.partition, load.records)
        self._settle(shard, result, None, _nobody_waits)
        self._arm(shard)


def _nobody_waits(error: ErrorCode) -> Any:
    del error
