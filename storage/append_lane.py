"""Where the appends of one partition wait for helper threads, in order.

Nearly all appends never come here. Those that do: a large batch that must be decompressed to be looked at or
compressed anew; an append that is only answered when it is on the disk (`flush.messages`); all appends while
the directory is slow; and whatever comes while others wait, for nothing overtakes.

      submit        judge                  prepare, write, commit          outcome
    ──────────►  in a helper thread,  ──►  one group at a time,     ──►   one for each,
      header     several at once,          on the loop or in a            in order
      is good    the walk in slices        helper thread, then synced

A large batch is judged and rebuilt before it has an offset, so those behind it are judged at the same time.
It gets its offset when all before it are in the log. Of all partitions together so many are judged at a time,
and of those that unfold into more than 8 MiB one: their memory is the node's.

What waits together is written together and synced once: the more appends a slow disk has to take, the fewer
writes they cost.

`give_up` ends it from outside (leadership lost, log deleted, disk failed): what waits gets the error at once;
a write that a thread is at cannot be called back, so its batches are rolled back and get theirs when it has
ended. Until then the log is `is_waited_for`; `when_quiet` tells when nothing is under way any more.

A partition's followers see a batch when it is committed, so after its sync; Apache Kafka shows it to them
before.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from config.limits import (
    APPENDS_PER_WRITE,
    DECOMPRESSED_BATCH_BYTES,
    JUDGED_AT_ONCE,
    JUDGED_BYTES,
    JUDGED_ON_NODE,
    OFFLOADED_COMPRESSION_BYTES,
    WAITING_APPEND_BYTES,
)
from config.ports import Offload
from protocol.errors import ErrorCode, InvariantViolated, invariant
from protocol.records.errors import BatchTooLarge, RecordsError
from protocol.records.header import ReadBuffer
from protocol.records.record_validation import Steps, judge_and_rebuild
from protocol.records.verdict import ValidatedBatch
from storage.append import (
    PreparedAppend,
    judge_client_batch,
    refusal,
    result_of_copies,
    trusted_batch,
)
from storage.errors import AppendRefused, CommitStopped, LogStorageError
from storage.log_durability import Sync
from storage.permits import Permits
from storage.waiting_append import Outcome, WaitingAppend, WaitingCopies

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

Later = Callable[[Callable[[], None]], None]

_logger: Final = logging.getLogger("barnabas.storage")


class LaneHelpers:
    """What the lanes of a node share. codecs: threads for compression. soon: calls back in a later turn of
    the loop. in_turn: calls back for the next slice of long work, when all other long work has had its
    turn."""

    __slots__ = ("codecs", "in_turn", "inline_bytes", "permits", "permits_for_huge", "soon", "waiting_bytes")

    def __init__(
        self,
        codecs: Offload,
        soon: Later,
        in_turn: Later | None = None,
        *,
        inline_bytes: int = OFFLOADED_COMPRESSION_BYTES,
    ) -> None:
        self.codecs = codecs
        self.inline_bytes = inline_bytes
        """Batches whose records take no more bytes when they are decompressed are judged at once, on the
        loop."""
        self.soon = soon
        self.in_turn = in_turn or soon
        self.waiting_bytes = 0
        """The size of the copied batches in all lanes, at most `WAITING_APPEND_BYTES`."""
        self.permits = Permits(JUDGED_ON_NODE)
        """Permits for batches that are judged, and may take `JUDGED_BYTES` when they are decompressed."""
        self.permits_for_huge = Permits(1)
        """Permits for batches that take more than `JUDGED_BYTES` when they are decompressed."""


class AppendLane:
    """The appends of one log that wait. All calls come from the loop."""

    __slots__ = (
        "_group",
        "_helpers",
        "_judging",
        "_lost",
        "_part",
        "_quiet",
        "_sync",
        "_unjudged",
        "_waiting",
        "log",
    )

    def __init__(self, log: PartitionLog, helpers: LaneHelpers) -> None:
        self.log = log
        self._helpers = helpers
        self._waiting: deque[WaitingAppend] = deque()
        """The appends that are not prepared yet, in order. Some are judged, some are being judged, the rest
        has not begun."""
        self._unjudged: deque[WaitingAppend] = deque()
        """The waiting appends whose batches nobody has begun to validate."""
        self._judging = 0
        """The number of batches that are being validated."""
        self._group: list[tuple[WaitingAppend, PreparedAppend]] = []
        """The prepared appends that a helper thread is writing."""
        self._part = 0
        """The number of appends of the group that the thread writes now: those that fit into the active
        segment."""
        self._sync: Sync | None = None
        self._lost: ErrorCode | None = None
        """The error for the group that is being written, if that was given up meanwhile."""
        self._quiet: list[Callable[[], None]] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._group)

    def when_quiet(self, call: Callable[[], None]) -> None:
        """Calls back when no append is under way any more: at once, or when a thread has ended its call."""
        if self.is_busy:
            self._quiet.append(call)
        else:
            call()

    # In

    def submit(
        self, records: ReadBuffer, *, leader_epoch: int, now_ms: int, walk: bool, request_version: int
    ) -> WaitingAppend:
        """Takes in a copy of a client's batch. Raises AppendRefused if its header is not valid, or too much
        waits."""
        batch = judge_client_batch(
            records, self.log.rules, self.log.log_start_offset, now_ms=now_ms, walk=walk,
            request_version=request_version, inline_bytes=self._helpers.inline_bytes,
        )  # fmt: skip
        copy = bytearray(memoryview(records)[: batch.header.size_bytes])
        if batch.plain is not None:  # it may be a view into what is now copied
            batch.plain = bytes(batch.plain) if batch.must_rebuild else None
        waiting = WaitingAppend(copy, batch, leader_epoch, now_ms)
        self._admit(waiting)
        return waiting

    def submit_internal(
        self, records: ReadBuffer, *, leader_epoch: int, now_ms: int, transaction_version: int = 0
    ) -> WaitingAppend:
        """Takes in a batch of the broker itself: records of a coordinator, or a transaction marker. Raises
        AppendRefused if too much waits."""
        waiting = WaitingAppend(bytearray(records), trusted_batch(records), leader_epoch, now_ms)
        waiting.transaction_version = transaction_version
        self._admit(waiting)
        return waiting

    def submit_as_follower(self, batches: ReadBuffer, leader_epoch: int, now_ms: int) -> WaitingAppend:
        """Takes in copies of the leader's batches. Raises AppendRefused if too much waits."""
        waiting = WaitingCopies(bytearray(batches), leader_epoch, now_ms)
        self._admit(waiting)
        return waiting

    def _admit(self, waiting: WaitingAppend) -> None:
        helpers = self._helpers
        if self.log.is_abandoned:
            raise AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.log.name} is not in use any more")
        if helpers.waiting_bytes + waiting.size_bytes > WAITING_APPEND_BYTES:
            raise AppendRefused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{helpers.waiting_bytes} bytes of appends wait for helper threads already, another "
                f"{waiting.size_bytes} are too much; try again",
                (),
                self.log.log_start_offset,
            )
        helpers.waiting_bytes += waiting.size_bytes
        self._waiting.append(waiting)
        if not waiting.is_judged:
            self._unjudged.append(waiting)
        if len(self._waiting) == 1 and not self._group:
            self.log.appends.lane_changed()
        self._helpers.soon(self._go_on)

    # Judging

    def _begin_to_judge(self) -> None:
        while self._unjudged and self._judging < JUDGED_AT_ONCE:
            each = self._unjudged.popleft()
            self._judging += 1
            self._take_permit(each, is_huge=each.size_bytes > JUDGED_BYTES)

    def _take_permit(self, waiting: WaitingAppend, *, is_huge: bool) -> None:
        """Validates a batch now, or when the node has memory for it."""
        permits = self._helpers.permits_for_huge if is_huge else self._helpers.permits
        if permits.acquire(partial(self._permit_is_free, waiting, permits)):
            self._judge(waiting, permits)

    def _permit_is_free(self, waiting: WaitingAppend, permits: Permits) -> bool:
        if waiting.outcome is not None:
            self._judging -= 1
            self._helpers.soon(self._go_on)
            return False
        self._helpers.soon(partial(self._judge, waiting, permits))
        return True

    def _judge(self, waiting: WaitingAppend, permits: Permits) -> None:
        is_huge = permits is self._helpers.permits_for_huge
        if waiting.batch is None:
            invariant(False, "What a follower copies is not judged", log=self.log.name)
            return
        steps = judge_and_rebuild(
            waiting.records, waiting.batch.header, self.log.rules, waiting.now_ms,
            DECOMPRESSED_BATCH_BYTES if is_huge else JUDGED_BYTES,
        )  # fmt: skip
        self._step(waiting, steps, permits, None)

    def _release_permit(self, permits: Permits) -> None:
        permits.release()
        self._judging -= 1
        self._go_on()  # others may wait for it

    def _step(
        self, waiting: WaitingAppend, steps: Steps[ValidatedBatch], permits: Permits, result: Any
    ) -> None:
        """Goes on with a batch until it is judged, or needs a helper thread or a pause."""
        if waiting.outcome is not None:
            steps.close()  # given up meanwhile
            self._release_permit(permits)
            return
        if isinstance(result, RecordsError):
            result.__traceback__ = None  # its frames hold the batch unpacked, and each other in a ring
        try:
            call = steps.throw(result) if isinstance(result, BaseException) else steps.send(result)
        except StopIteration as stop:
            waiting.batch = stop.value
        except RecordsError as error:
            error.__traceback__ = None
            if isinstance(error, BatchTooLarge) and permits is self._helpers.permits:
                permits.release()  # perhaps it is not too large for one that is alone
                self._take_permit(waiting, is_huge=True)
                return
            self._finish(waiting, refusal(error, self.log.log_start_offset))
        except InvariantViolated:
            raise
        except Exception as error:
            _logger.exception("A batch for %s could not be judged; this is our fault", self.log.name)
            self._finish(waiting, AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        else:
            on = partial(self._step, waiting, steps, permits)
            if call is None:
                self._helpers.in_turn(partial(on, None))
            else:
                self._helpers.codecs.submit(call, on)
            return
        self._release_permit(permits)

    # Writing

    def _go_on(self) -> None:
        """Validates and writes as many of the waiting appends as possible now."""
        self._begin_to_judge()
        while not self._group and not self.log.is_abandoned:
            group = self._next_group()
            if not group:
                break
            self._write(group)
        if not self.is_busy:
            self.log.appends.lane_changed()
            quiet, self._quiet = self._quiet, []
            for call in quiet:
                call()

    def _next_group(self) -> list[tuple[WaitingAppend, PreparedAppend]]:
        """Prepares the appends at the head of the queue that are validated."""
        log = self.log
        group: list[tuple[WaitingAppend, PreparedAppend]] = []
        waiting = self._waiting
        while waiting and len(group) < APPENDS_PER_WRITE:
            each = waiting[0]
            if each.outcome is None and not each.is_judged:
                break
            waiting.popleft()
            if each.outcome is not None:
                continue
            try:
                prepared = each.prepare(log.appends.queue, log.rules)
            except AppendRefused as refused:
                self._finish(each, refused)
                continue
            if not prepared:  # the leader's batches were cut off within the first
                self._finish(each, result_of_copies([], log.appends.queue.end_offset, log.log_start_offset))
            group += [(each, one) for one in prepared]
        return group

    def _write(self, group: list[tuple[WaitingAppend, PreparedAppend]]) -> None:
        log = self.log
        self._group, self._lost = group, None
        if log.durability.is_flush_due(log.appends.queue.end_offset) or log.appends.disk.still_slow():
            self._write_in_thread()
            return
        try:
            log.appends.queue.write([each for _, each in group], group[-1][0].now_ms)
        except LogStorageError as error:
            self._roll_back(error)
        else:
            self._commit(len(group))

    def _write_in_thread(self) -> None:
        """Gives the next step to a helper thread: it begins a new segment, or writes what fits into the
        active one."""
        log = self.log
        prepared = [each for _, each in self._group]
        now_ms = self._group[0][0].now_ms
        self._part = log.appends.queue.fitting(prepared, now_ms)
        try:
            if not self._part:
                roll = log.appends.queue.roll_in_thread(prepared[0], now_ms)
                log.appends.disk.submit(roll.run, self._rolled)
                return
            part = prepared[: self._part]
            write = log.appends.queue.write_in_thread(part, None)
        except LogStorageError as error:
            self._roll_back(error)
            return
        end_offset = next((each.last_offset + 1 for each in reversed(part) if not each.is_duplicate), 0)
        if log.durability.is_flush_due(end_offset):
            log.durability.write_leader_epochs()
            self._sync = log.durability.plan_sync(end_offset)
            write.sync = self._sync.call
        log.appends.disk.submit(write.run, self._written)

    def _rolled(self, result: object) -> None:
        """Called when a helper thread has created the file of the next segment, or has failed."""
        failed = self._failure(result)

        def take_in() -> None:
            if self._lost is None or failed is not None:
                self.log.appends.queue.rolled_in_thread(failed)

        if self._goes_on_after(take_in):
            self._write_in_thread()
        self._go_on()

    def _goes_on_after(self, take_in: Callable[[], None]) -> bool:
        """Takes in what a helper thread has done. Returns False if the group was rolled back."""
        try:
            take_in()
        except LogStorageError as error:
            self._roll_back(error)
            return False
        if self._lost is not None:
            self._roll_back(AppendRefused(self._lost, self._lost.message))
            return False
        return True

    def _failure(self, result: object) -> OSError | None:
        """The error of a helper thread, if it returned one and not the time for which it stalled."""
        if isinstance(result, OSError):
            return result
        if not isinstance(result, int):
            raise InvariantViolated(f"a helper thread could not write to {self.log.name}: {result!r}")
        self.log.appends.disk.stalled(result)
        return None

    def _written(self, result: object) -> None:
        """Called when a helper thread has written, with the time for which it stalled, or with an error."""
        sync, self._sync = self._sync, None
        if self._goes_on_after(partial(self.log.appends.queue.written_in_thread, self._failure(result))):
            all_is_in = self._commit(self._part)
            if sync is not None and all_is_in:
                sync.done()
                sync = None
            if self._group:
                self._write_in_thread()
        if sync is not None:
            sync.failed()
        self._go_on()

    def _commit(self, count: int) -> bool:
        """Commits the first appends of the group, which were written. Returns whether that succeeded."""
        group = self._group
        problem: CommitStopped | None = None
        try:
            results = self.log.appends.queue.commit([each for _, each in group[:count]])
        except CommitStopped as stopped:
            problem, results = stopped, list(stopped.results)
            self.log.appends.queue.rollback()
        self._group = [] if problem is not None else group[count:]
        for (waiting, _), result in zip(group, results, strict=False):
            outcome = waiting.committed([result])
            if outcome is not None:
                self._finish(waiting, outcome)
        if problem is not None:
            self._finish_all(group[len(results) :], problem)
        return problem is None

    def _roll_back(self, error: AppendRefused | LogStorageError) -> None:
        if self.log.is_abandoned:
            self.log.appends.queue.forget()
        else:
            self.log.appends.queue.rollback()
        group, self._group = self._group, []
        self._finish_all(group, error)

    def _finish_all(self, group: list[tuple[WaitingAppend, PreparedAppend]], outcome: Outcome) -> None:
        for waiting, _ in group:
            if waiting.outcome is None:
                self._finish(waiting, outcome)

    def _finish(self, waiting: WaitingAppend, outcome: Outcome) -> None:
        self._helpers.waiting_bytes -= waiting.size_bytes
        waiting.finish(outcome)

    # Out

    def give_up(self, error: ErrorCode) -> None:
        """Ends all waiting appends with this error. Those that are being written get it when the write has
        ended."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._unjudged.clear()
        if self._lost is None:
            self._lost = error
        for each in waiting:
            if each.outcome is None:
                self._finish(each, AppendRefused(error, error.message))
        if not self.is_busy:
            self.log.appends.lane_changed()
