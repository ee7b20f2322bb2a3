"""Appends a NoOp record when nothing else was appended for a while (KIP-835).

Followers and tools see by it that the leader is alive and that commits go through: the log's end moves on at
least every `metadata.max.idle.interval.ms` (0 switches it off). It comes at multiples of half of that
interval. With the default, that is the turn of an idle loop in which all once-a-second checks are done.
"""

from __future__ import annotations

from collections.abc import Callable

from config.ports import Clock, Timer, Timers

__all__ = ["IdleWatch"]


class IdleWatch:
    """on_idle: called when nothing was appended for the interval, or for half of it at least. Runs between
    `start` and `stop`."""

    def __init__(self, interval_ms: int, clock: Clock, timers: Timers, on_idle: Callable[[], None]) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._timers = timers
        self._on_idle = on_idle
        self._appended_ms = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        self.stop()
        self.appended()
        if self._interval_ms > 0:
            self._timer = self._timers.call_at(self._due_ms(), self._ring)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def appended(self) -> None:
        """Notes that something was appended. The timer is not moved: when it rings, it looks how long that is
        ago."""
        self._appended_ms = self._clock.monotonic_ms()

    def _due_ms(self) -> int:
        latest_ms = self._appended_ms + self._interval_ms
        return latest_ms - latest_ms % max(1, self._interval_ms // 2)

    def _ring(self) -> None:
        if self._clock.monotonic_ms() >= self._due_ms():
            self._on_idle()
            self.appended()
        self._timer = self._timers.call_at(self._due_ms(), self._ring)
