"""A Produce answer that waits: for helper threads that append its batches, and until these are replicated.

Most answers wait for neither, and nothing in here runs. Otherwise the answer is made ready with what the
appends gave. First it waits for the batches that helper threads have to do with (see `storage.append_lane`);
that has no deadline, as in Kafka, where an append keeps its thread until it is done. Then, with acks=all,
each partition that is still behind is noted, and the high watermark, a lost leadership or the deadline
settles it. What timed out stays appended (the producer is told REQUEST_TIMED_OUT and may send it again; an
idempotent one finds it there).

Whatever an answer waits for, it holds an error meanwhile; only what was waited for takes it away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker.replication.partition import Partition
from config.ports import Clock, Timer, Timers
from protocol.errors import ErrorCode, InvariantViolated
from protocol.messages.produce import ProduceResponse
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from storage.append import AppendResult
from storage.append_lane import Outcome, WaitingAppend
from storage.errors import AppendRefused

PartitionAnswer = ProduceResponse.PartitionProduceResponse

_ACKS_ALL: Final = -1


class DelayedProduce:
    """One answer on its way. `wait` and `wait_for_append` note partitions; `start`: these were all."""

    __slots__ = (
        "_acks",
        "_appending",
        "_appends_done",
        "_clock",
        "_pending",
        "_response",
        "_timeout_ms",
        "_timer",
        "_timers",
        "_waiting",
    )

    def __init__(self, *, acks: int, timeout_ms: int, clock: Clock, timers: Timers) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._timers = timers
        self._waiting: dict[Partition, PartitionAnswer] = {}
        self._appending = 0
        """Batches that helper threads have to do with."""
        self._appends_done: Callable[[ProduceResponse], None] | None = None
        self._pending: Pending[Any] | None = None
        self._response: ProduceResponse | None = None
        self._timer: Timer | None = None

    def wait(self, partition: Partition, answer: PartitionAnswer, result: AppendResult) -> None:
        """Hold the answer back until the partition's high watermark has passed what was appended."""
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting[partition] = answer
        partition.wait_for_commit(result.last_offset + 1, self)

    def wait_for_append(
        self,
        partition: Partition,
        append: WaitingAppend,
        refused: Callable[[PartitionAnswer, AppendRefused], None],
    ) -> PartitionAnswer:
        """The partition's answer, held back until the batch is in the log, and then for its replication if
        that is asked for.

        refused: fills in the answer for a batch that was not taken.
        """
        answer = PartitionAnswer(partition.index, ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        self._appending += 1
        append.then(partial(self._appended, partition, answer, refused))
        return answer

    def start(
        self, response: ProduceResponse, appends_done: Callable[[ProduceResponse], None]
    ) -> ProduceResponse | Pending[Any] | None:
        """The response, at once if nothing is waited for any more.

        appends_done: called once when every batch has its verdict, with acks=0 too, where no answer follows;
        it may raise CloseConnection.
        """
        self._response = response
        self._appends_done = appends_done
        if not self._appending:
            appends_done(response)
            if not self._waiting:
                return response if self._acks else None
        pending: Pending[Any] = Pending()
        self._pending = pending
        pending.on_cancel(self._forget)
        if not self._appending:
            self._await_replicas()
        return pending

    def _appended(
        self,
        partition: Partition,
        answer: PartitionAnswer,
        refused: Callable[[PartitionAnswer, AppendRefused], None],
        outcome: Outcome,
    ) -> None:
        self._appending -= 1
        if isinstance(outcome, AppendResult):
            answer.base_offset = outcome.base_offset
            answer.log_append_time_ms = outcome.log_append_time_ms
            answer.log_start_offset = outcome.log_start_offset
            answer.error_code = ErrorCode.NONE
            if self._acks == _ACKS_ALL and partition.log.high_watermark <= outcome.last_offset:
                self.wait(partition, answer, outcome)
        elif isinstance(outcome, AppendRefused):
            refused(answer, outcome)
        else:
            raise InvariantViolated(
                f"an append to {partition!r} ended with {outcome!r}, as nobody may see it"
            )
        if not self._appending and self._response is not None:
            self._all_appended(self._response)

    def _all_appended(self, response: ProduceResponse) -> None:
        """Also when nobody waits any longer: what is counted or logged does not depend on it."""
        pending = self._pending
        try:
            if self._appends_done is not None:
                self._appends_done(response)
        except CloseConnection as verdict:
            self._forget()
            if pending is not None:
                pending.complete(verdict)
            return
        if pending is not None:
            self._await_replicas()

    def _await_replicas(self) -> None:
        if not self._waiting:
            self._finish()
            return
        deadline_ms = self._clock.monotonic_ms() + max(0, self._timeout_ms)
        self._timer = self._timers.call_at(deadline_ms, self._expired)

    def replicated(self, partition: Partition, error: ErrorCode) -> None:
        """See `partition.CommitWaiter`."""
        answer = self._waiting.pop(partition, None)
        if answer is None:
            return
        if error:
            _refuse(answer, error)
        else:
            answer.error_code = ErrorCode.NONE
        if not self._waiting and not self._appending:
            self._finish()

    def _expired(self) -> None:
        for answer in self._waiting.values():
            _refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        pending, response = self._pending, self._response
        self._forget()
        if pending is not None and response is not None:
            pending.complete(response if self._acks else NO_ANSWER)

    def _forget(self) -> None:
        for partition in self._waiting:
            partition.forget_commit_waiter(self)
        self._waiting.clear()
        self._pending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refuse(answer: PartitionAnswer, error: ErrorCode) -> None:
    answer.error_code = error
    answer.base_offset = -1
    answer.log_append_time_ms = -1
