"""A clock that a test moves by hand, and timers that ring as it moves."""

from __future__ import annotations

from collections.abc import Callable


class HandClock:
    """`config.ports.Clock` that stands still until told otherwise."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ns = 1_000_000_000

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def set_back(self, milliseconds: int) -> None:
        """Somebody sets the wall clock; the monotonic one goes on."""
        self._wall_ms -= milliseconds

    def move(self, milliseconds: float) -> None:
        self._monotonic_ns += int(milliseconds * 1_000_000)
        self._wall_ms += int(milliseconds)


class HandTimer:
    def __init__(self, deadline_ms: int, sequence: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.sequence = sequence
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


MANY_AT_ONE_INSTANT = 10_000
"""More callbacks than that without the clock moving: a timer rings again and again at once."""


class HandTimers:
    """`config.ports.Timers`: `run_soon` runs what was put off, `advance` moves the clock and rings."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self._timers: list[HandTimer] = []
        self._soon: list[Callable[[], None]] = []
        self._sequence = 0

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> HandTimer:
        self._sequence += 1
        timer = HandTimer(deadline_ms, self._sequence, callback)
        self._timers.append(timer)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run_soon(self) -> int:
        """Runs what was put off, and what that puts off, until nothing is left; tells how many calls."""
        count = 0
        while self._soon:
            ready, self._soon = self._soon, []
            for callback in ready:
                callback()
                count += 1
        return count

    def run_once(self) -> int:
        """Runs what was put off until now, as one turn of a loop does."""
        ready, self._soon = self._soon, []
        for callback in ready:
            callback()
        return len(ready)

    def advance(self, milliseconds: int) -> None:
        """Moves the clock in steps, so that each callback sees the time that it asked for."""
        end = self.clock.monotonic_ms() + milliseconds
        instant, rung = -1, 0
        while True:
            self.run_soon()
            due = [timer for timer in self._timers if timer.callback and timer.deadline_ms <= end]
            if not due:
                break
            timer = min(due, key=lambda each: (each.deadline_ms, each.sequence))
            self.clock.move(max(0, timer.deadline_ms - self.clock.monotonic_ms()))
            instant, rung = (instant, rung + 1) if timer.deadline_ms <= instant else (timer.deadline_ms, 0)
            assert rung < MANY_AT_ONE_INSTANT, "a timer rings for ever at one instant"
            callback, timer.callback = timer.callback, None
            self._timers.remove(timer)
            if callback is not None:
                callback()
        self.clock.move(end - self.clock.monotonic_ms())
        self.run_soon()
