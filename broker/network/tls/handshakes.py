"""Whose turn it is to go on with a TLS handshake.

A handshake takes the loop half a millisecond or more, most of it for the server's signature, and a thousand
clients may come back at the same instant. So those whose bytes have come wait here in order, and a turn of
the loop ends after some milliseconds of handshakes: between two turns everybody else is served.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from config.limits import TLS_HANDSHAKE_MS, TURN_MS
from config.ports import Clock, Timer, Timers

__all__ = ["Handshakes"]


class Handshakes:
    """The handshakes of the connections that were accepted, of all listeners of a node.

    call_soon: the loop's method.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], clock: Clock, timers: Timers
    ) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._timers = timers
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def add(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` when those that came before have had their turn."""
        self._waiting.append(go_on)
        self._be_called()

    def limit(self, too_slow: Callable[[], None]) -> Timer:
        """Calls `too_slow` when a handshake that begins now must be complete, unless it is cancelled."""
        return self._timers.call_at(self._clock.monotonic_ms() + TLS_HANDSHAKE_MS, too_slow)

    def _be_called(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        deadline_ns = self._clock.monotonic_ns() + TURN_MS * 1_000_000
        while self._waiting:
            self._waiting.popleft()()
            if self._clock.monotonic_ns() >= deadline_ns:
                break
        self._be_called()
