"""A Produce answer that waits until its batches are replicated (acks=all).

With one replica in sync the high watermark has passed a batch before anybody could wait for it, and nothing
in here runs. Otherwise the answer is made ready with what the append gave, and each partition that is still
behind is noted; the high watermark, a lost leadership or the deadline settles it. What timed out stays
appended (the producer is told REQUEST_TIMED_OUT and may send it again; an idempotent one finds it there).
"""

from __future__ import annotations

from broker.replication.partition import Partition
from config.ports import Clock, Timer, Timers
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceResponse
from protocol.serving import Pending

PartitionAnswer = ProduceResponse.PartitionProduceResponse


class DelayedProduce:
    """One answer on its way. `wait` notes partitions, `start` says that these were all."""

    __slots__ = ("_pending", "_response", "_timer", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Partition, ProduceResponse.PartitionProduceResponse] = {}
        self._pending: Pending[ProduceResponse] | None = None
        self._response: ProduceResponse | None = None
        self._timer: Timer | None = None

    def wait(
        self, partition: Partition, answer: ProduceResponse.PartitionProduceResponse, offset: int
    ) -> None:
        """Hold the answer back until the partition's high watermark has reached `offset`."""
        self._waiting[partition] = answer
        partition.wait_for_commit(offset, self)

    def start(
        self, response: ProduceResponse, *, timeout_ms: int, clock: Clock, timers: Timers
    ) -> ProduceResponse | Pending[ProduceResponse]:
        """The response, at once if nothing is waited for any more."""
        if not self._waiting:
            return response
        self._response = response
        pending: Pending[ProduceResponse] = Pending()
        self._pending = pending
        self._timer = timers.call_at(clock.monotonic_ms() + max(0, timeout_ms), self._expired)
        pending.on_cancel(self._forget)
        return pending

    def replicated(self, partition: Partition, error: ErrorCode) -> None:
        """See `partition.CommitWaiter`."""
        answer = self._waiting.pop(partition, None)
        if answer is None:
            return
        if error:
            _refuse(answer, error)
        if not self._waiting:
            self._finish()

    def _expired(self) -> None:
        for answer in self._waiting.values():
            _refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        pending, response = self._pending, self._response
        self._forget()
        if pending is not None and response is not None:
            pending.complete(response)

    def _forget(self) -> None:
        for partition in self._waiting:
            partition.forget_commit_waiter(self)
        self._waiting.clear()
        self._pending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refuse(answer: ProduceResponse.PartitionProduceResponse, error: ErrorCode) -> None:
    answer.error_code = error
    answer.base_offset = -1
    answer.log_append_time_ms = -1
