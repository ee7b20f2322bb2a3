"""DeleteRecords on a leader, and the wait until the other replicas have deleted as well (KIP-107).

The leader raises its log start at once; its followers learn it with their fetches and say with later ones
how far they are. The partition's low watermark is the least log start of all live replicas, in the ISR or
not: once it has reached the offset, the records are gone everywhere. With one replica that is at once, and
nothing waits. When the time is over, the records are deleted at the leader all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker.replication.partition import Partition
from broker.replication.roles import NO_EPOCH
from config.ports import Clock, Timer, Timers
from protocol.errors import ErrorCode
from protocol.serving.pending import Pending

__all__ = ["HIGH_WATERMARK", "NO_LOW_WATERMARK", "DelayedDeleteRecords", "delete_records"]

HIGH_WATERMARK: Final = -1
"""The offset in a request that stands for the high watermark: everything that is replicated is deleted."""

NO_LOW_WATERMARK: Final = -1

Answer = TypeVar("Answer")
"""The caller's answer for one partition. This module only passes it on."""
Response = TypeVar("Response")


def delete_records(partition: Partition, offset: int) -> int | ErrorCode:
    """Raises the leader's log start. Returns the offset that `offset` stands for, or the error for which
    nothing was done."""
    refusal = partition.refusal(NO_EPOCH)
    if refusal:
        return ErrorCode(refusal)
    log = partition.log
    if log.config.compact and not log.config.delete:
        return ErrorCode.POLICY_VIOLATION
    wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    partition.raise_log_start(wanted)
    return wanted


class DelayedDeleteRecords(Generic[Answer, Response]):
    """One request that may wait. `wait` is called for each partition, and `start` after the last."""

    __slots__ = ("_is_alive", "_pending", "_response", "_tell", "_timer", "_waiting")

    def __init__(
        self, is_alive: Callable[[int], bool], tell: Callable[[Answer, int, ErrorCode], None]
    ) -> None:
        """is_alive: whether the broker with an id is alive; a dead one is not waited for. tell: fills in an
        answer, with the low watermark and the error. It is called again when these change."""
        self._is_alive = is_alive
        self._tell = tell
        self._waiting: dict[Partition, tuple[int, Answer]] = {}
        self._pending: Pending[Response] | None = None
        self._response: Response | None = None
        self._timer: Timer | None = None

    def wait(self, partition: Partition, offset: int, answer: Answer) -> None:
        """Waits until the low watermark has reached `offset`, if it has not yet. Until then the answer says
        REQUEST_TIMED_OUT; only the low watermark takes that error away."""
        low_watermark = partition.low_watermark(self._is_alive)
        if low_watermark >= offset:
            self._tell(answer, low_watermark, ErrorCode.NONE)
        else:
            self._tell(answer, low_watermark, ErrorCode.REQUEST_TIMED_OUT)
            self._waiting[partition] = (offset, answer)

    def start(
        self, response: Response, *, timeout_ms: int, clock: Clock, timers: Timers
    ) -> Response | Pending[Response]:
        """The response, which is complete at once if nothing is waited for."""
        if not self._waiting or timeout_ms <= 0:
            return response
        for partition in self._waiting:
            partition.deletion_waiters.append(self)
        pending: Pending[Response] = Pending()
        self._pending, self._response = pending, response
        self._timer = timers.call_at(clock.monotonic_ms() + timeout_ms, self._finish)
        pending.on_cancel(self._forget)
        for partition in list(self._waiting):  # it may have moved since `wait`, if there were many of them
            self.low_watermark_moved(partition)
        return pending

    def low_watermark_moved(self, partition: Partition) -> None:
        """Implements `partition_listeners.DeletionWaiter`."""
        waiting = self._waiting.get(partition)
        if waiting is None:
            return
        offset, answer = waiting
        refusal = partition.refusal(NO_EPOCH)
        if refusal:
            self._tell(answer, NO_LOW_WATERMARK, ErrorCode(refusal))
        else:
            low_watermark = partition.low_watermark(self._is_alive)
            if low_watermark < offset:
                self._tell(answer, low_watermark, ErrorCode.REQUEST_TIMED_OUT)
                return
            self._tell(answer, low_watermark, ErrorCode.NONE)
        del self._waiting[partition]
        partition.deletion_waiters.remove(self)
        if not self._waiting:
            self._finish()

    def _finish(self) -> None:
        pending, response = self._pending, self._response
        self._forget()
        if pending is not None and response is not None:
            pending.complete(response)

    def _forget(self) -> None:
        for partition in self._waiting:
            partition.deletion_waiters.remove(self)
        self._waiting.clear()
        self._pending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
