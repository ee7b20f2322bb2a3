"""What is longer than a turn of the loop, a slice at a time.

Whoever has more to do than a turn may take does a slice of it and asks for another one. All who do so stand
in one queue, and of each turn of the loop they get a millisecond together: many long pieces of work at once
take longer, each of them, and a client who asks for nothing long notices no difference between one and a
hundred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from config.limits import LONG_WORK_TURN_MS
from config.ports import Clock, Timers


class LongWork:
    """Of one loop."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._slices: deque[Callable[[], None]] = deque()
        self._is_armed = False

    def __len__(self) -> int:
        """Slices that wait."""
        return len(self._slices)

    def soon(self, work: Callable[[], None]) -> None:
        """Calls back when it is its turn: a slice, well below a millisecond if it can be."""
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
