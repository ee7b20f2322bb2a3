"""All timers of a node, in one heap over a single timer of the loop.

Sessions, long polls, throttles and housekeeping set many timers and cancel most of them. A timer here is a
small object in a heap. A cancelled one stays there until its deadline, or until most are cancelled and the
heap is rebuilt. The loop itself holds at most one timer, for the earliest deadline.

The loop's timer may come a little early (libuv rounds to whole milliseconds of a clock that it reads once per
turn). What is not due yet is then armed again, so a callback never runs before its deadline.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from config.ports import Clock

_SOON_MS: Final = 50
_REBUILD_FROM: Final = 64
"""A smaller heap is never rebuilt; its cancelled timers cost too little."""


class LoopTimer:
    """One call that will be made. `callback` is None after it was made or cancelled."""

    __slots__ = ("_timers", "callback", "deadline_ms", "sequence")

    def __init__(
        self, timers: LoopTimers, deadline_ms: int, sequence: int, callback: Callable[[], None]
    ) -> None:
        self._timers = timers
        self.deadline_ms = deadline_ms
        self.sequence = sequence
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: LoopTimer) -> bool:
        if self.deadline_ms != other.deadline_ms:
            return self.deadline_ms < other.deadline_ms
        return self.sequence < other.sequence

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._timers.cancelled(self)


class LoopTimers:
    """`config.ports.Timers` over an event loop. Callbacks of one deadline run in the order of the calls."""

    def __init__(self, loop: AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._heap: list[LoopTimer] = []
        self._sequence = 0
        self._broken = 0
        self._armed: TimerHandle | None = None
        self._armed_for_ms = 0
        self._running = False

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> LoopTimer:
        self._sequence += 1
        timer = LoopTimer(self, deadline_ms, self._sequence, callback)
        heappush(self._heap, timer)
        if not self._running and self._heap[0] is timer:
            self._arm()
        return timer

    def cancelled(self, timer: LoopTimer) -> None:
        """Notes that a timer was cancelled. If the loop would soon be woken for it alone, the loop's timer is
        set anew."""
        self._broken += 1
        if self._running:
            return
        heap = self._heap
        if heap and heap[0] is timer and timer.deadline_ms - self._clock.monotonic_ms() <= _SOON_MS:
            self._drop_broken()
            if self._armed is not None:
                self._armed.cancel()
                self._armed = None
            if heap:
                self._arm()
        if self._broken * 2 > len(self._heap) > _REBUILD_FROM:
            self._heap = [timer for timer in self._heap if timer.callback is not None]
            heapify(self._heap)
            self._broken = 0

    def __len__(self) -> int:
        """The number of timers that are neither cancelled nor over."""
        return len(self._heap) - self._broken

    def close(self) -> None:
        """Cancels all timers."""
        self._heap.clear()
        self._broken = 0
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _arm(self) -> None:
        deadline_ms = self._heap[0].deadline_ms
        if self._armed is not None:
            if self._armed_for_ms <= deadline_ms:
                return
            self._armed.cancel()
        self._armed_for_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        self._armed = self._loop.call_later(delay_ms / 1000, self._run)

    def _run(self) -> None:
        self._armed = None
        self._running = True
        now_ms = self._clock.monotonic_ms()
        heap = self._heap
        last = self._sequence
        later: list[LoopTimer] = []
        try:
            while heap and heap[0].deadline_ms <= now_ms:
                timer = heappop(heap)
                callback, timer.callback = timer.callback, None
                if callback is None:
                    self._broken -= 1
                elif timer.sequence > last:
                    timer.callback = callback
                    later.append(timer)
                else:
                    callback()
        finally:
            self._running = False
            for timer in later:
                heappush(heap, timer)
            self._drop_broken()
            if heap:
                self._arm()

    def _drop_broken(self) -> None:
        """Removes cancelled timers from the top of the heap, so that the loop is not woken for them."""
        heap = self._heap
        while heap and heap[0].callback is None:
            heappop(heap)
            self._broken -= 1
