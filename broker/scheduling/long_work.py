"""Work that is longer than a turn of the loop, done in slices.

Whoever has more to do than a turn may take does a slice of it and asks to be called again. All such work
stands in one queue, and gets a millisecond of each turn of the loop together: with many long pieces of work
at once each of them takes longer, and other clients notice no difference between one and a hundred.

Whole requests have another queue, `broker.dispatch.lane`. Two queues mean two shares of each turn of the
loop: 4 ms for one of the requests, and the millisecond here. In one queue a slice would wait for a turn of
each request before it, and as nine of them may be served in steps at once, a large batch of a producer that
gets up to a millisecond in every turn now would get one slice in 36 ms. The requests' queue also decides what
this one need not: a request needs a place before it begins, the bytes of its frame are counted while it
waits, and its first turn is taken at once, so that most requests never wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from config.limits import LONG_WORK_TURN_MS
from config.ports import Clock, Timers


class LongWork:
    """The queue of slices of one loop."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._slices: deque[Callable[[], None]] = deque()
        self._is_armed = False

    def __len__(self) -> int:
        """The number of slices that wait."""
        return len(self._slices)

    def soon(self, work: Callable[[], None]) -> None:
        """Calls `work` once, when its turn has come. It should take well below a millisecond."""
        self._slices.append(work)
        if not self._is_armed:
            self._is_armed = True
            self._timers.call_soon(self._turn)

    def _turn(self) -> None:
        slices = self._slices
        end_ns = self._clock.monotonic_ns() + LONG_WORK_TURN_MS * 1_000_000
        try:
            while slices:
                slices.popleft()()
                if self._clock.monotonic_ns() >= end_ns:
                    break
        finally:
            self._is_armed = bool(slices)
            if slices:
                self._timers.call_soon(self._turn)
