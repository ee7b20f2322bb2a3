"""A Produce answer that waits: for helper threads that append its batches, and until these are replicated.

Most answers wait for neither, and nothing in here runs. Otherwise the caller's answers are kept here, with
what the appends gave. First they wait for the batches that helper threads have to do with (see
`storage.append_lane`); that has no deadline, as in Kafka, where an append keeps its thread until it is done.
Then, with acks=all, each partition that is still behind is noted, and the high watermark, a lost leadership
or the deadline settles it. A batch whose time is over stays appended: the producer is told
REQUEST_TIMED_OUT and may send it again, and an idempotent producer's batch is found to be there already.

Whatever an answer waits for, it holds an error meanwhile; only what was waited for takes it away. How an
answer says so is the caller's business: `ProduceAnswers`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from broker.replication.partition import Partition
from config.ports import Clock, Timer, Timers
from protocol.errors import ErrorCode, InvariantViolated
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from storage.append import AppendResult
from storage.errors import AppendRefused
from storage.waiting_append import Outcome, WaitingAppend

__all__ = ["DelayedProduce", "ProduceAnswers"]

ACKS_ALL: Final = -1

Answer = TypeVar("Answer")
"""The caller's answer for one partition. This module only passes it on."""
AnyAnswer = TypeVar("AnyAnswer", contravariant=True)
Response = TypeVar("Response")
AnyResponse = TypeVar("AnyResponse", contravariant=True)


class ProduceAnswers(Protocol[AnyAnswer, AnyResponse]):
    """Fills in the answers. The caller implements it, because it makes the response."""

    def appended(
        self, partition: Partition, answer: AnyAnswer, outcome: AppendResult | AppendRefused
    ) -> None:
        """The log has taken the batch or refused it."""
        ...

    def not_replicated_yet(self, answer: AnyAnswer) -> None:
        """The batch is in the log. The answer is REQUEST_TIMED_OUT until `replicated` is called."""
        ...

    def replicated(self, partition: Partition, answer: AnyAnswer, error: ErrorCode) -> None:
        """Every replica in sync has the batch; or an error says why that is not known."""
        ...

    def all_appended(self, response: AnyResponse) -> None:
        """Every batch of the request was appended or refused. It is called once: with acks=0 too, where no
        answer follows, and also if the client has disconnected. May raise CloseConnection."""
        ...


class DelayedProduce(Generic[Answer, Response]):
    """One request that may wait. `wait` and `wait_for_append` are called for partitions, and `start` after
    the last."""

    __slots__ = (
        "_acks",
        "_answers",
        "_appending",
        "_clock",
        "_pending",
        "_response",
        "_timeout_ms",
        "_timer",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        answers: ProduceAnswers[Answer, Response],
        *,
        acks: int,
        timeout_ms: int,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._answers = answers
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._timers = timers
        self._waiting: dict[Partition, Answer] = {}
        self._appending = 0
        """The number of batches that helper threads append."""
        self._pending: Pending[Any] | None = None
        self._response: Response | None = None
        self._timer: Timer | None = None

    def wait(self, partition: Partition, answer: Answer, last_offset: int) -> None:
        """Waits until the partition's high watermark has passed what was appended."""
        self._answers.not_replicated_yet(answer)
        self._waiting[partition] = answer
        partition.wait_for_commit(last_offset + 1, self)

    def wait_for_append(self, partition: Partition, answer: Answer, append: WaitingAppend) -> None:
        """Waits until the batch is in the log, and then for its replication if the request asks for that. The
        answer holds an error already when this is called."""
        self._appending += 1
        append.then(partial(self._appended, partition, answer))

    def start(self, response: Response) -> Response | Pending[Any] | None:
        """The response, which is complete at once if nothing is waited for any more. None with acks=0."""
        self._response = response
        if not self._appending:
            self._answers.all_appended(response)
            if not self._waiting:
                return response if self._acks else None
        pending: Pending[Any] = Pending(holds_request=self._appending > 0)
        self._pending = pending
        pending.on_cancel(self._forget)
        if not self._appending:
            self._await_replicas()
        return pending

    def _appended(self, partition: Partition, answer: Answer, outcome: Outcome) -> None:
        self._appending -= 1
        if not isinstance(outcome, AppendResult | AppendRefused):
            raise InvariantViolated(
                f"an append to {partition!r} ended with {outcome!r}, as nobody may see it"
            )
        self._answers.appended(partition, answer, outcome)
        if (
            isinstance(outcome, AppendResult)
            and self._acks == ACKS_ALL
            and partition.log.high_watermark <= outcome.last_offset
        ):
            self.wait(partition, answer, outcome.last_offset)
        if not self._appending and self._response is not None:
            self._all_appended(self._response)

    def _all_appended(self, response: Response) -> None:
        """Called when all batches are appended, even if nobody waits for the answer any more: what is counted
        or logged does not depend on that."""
        pending = self._pending
        try:
            self._answers.all_appended(response)
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
        """Implements `partition_listeners.CommitWaiter`."""
        answer = self._waiting.pop(partition, None)
        if answer is None:
            return
        self._answers.replicated(partition, answer, error)
        if not self._waiting and not self._appending:
            self._finish()

    def _expired(self) -> None:
        for partition, answer in self._waiting.items():
            self._answers.replicated(partition, answer, ErrorCode.REQUEST_TIMED_OUT)
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
