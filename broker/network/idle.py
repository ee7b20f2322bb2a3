"""Connections that have been silent for longer than `connections.max.idle.ms`.

A request does not touch a timer. Each connection has one entry in a heap, with the moment at which it would
be idle if it had done nothing since the entry was made. When that moment comes the connection tells when it
was last heard of, and the entry goes back with the moment that follows from it. A connection that waits for
an answer of ours is not idle, whatever the clock says.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from config.ports import Clock, Timer, Timers

_REBUILD_FROM: Final = 64


class IdleCandidate(Protocol):
    """A connection, as far as idleness is concerned."""

    @property
    def open(self) -> bool: ...

    def last_active_ms(self) -> int: ...

    def awaits_us(self) -> bool:
        """Whether the silence is ours."""
        ...

    def expire(self) -> None: ...


class IdleSweep:
    """maximum_ms: below 0 means never."""

    def __init__(self, maximum_ms: int, clock: Clock, timers: Timers) -> None:
        self.maximum_ms = maximum_ms
        self._clock = clock
        self._timers = timers
        self._heap: list[tuple[int, int, IdleCandidate]] = []
        self._sequence = 0
        self._timer: Timer | None = None
        self._gone = 0

    def add(self, candidate: IdleCandidate) -> None:
        if self.maximum_ms >= 0:
            self._push(self._clock.monotonic_ms() + self.maximum_ms, candidate)
            self._arm()

    def removed(self) -> None:
        """A connection has ended. When most entries are of such, the heap is built anew."""
        self._gone += 1
        if self._gone * 2 > len(self._heap) > _REBUILD_FROM:
            self._heap = [entry for entry in self._heap if entry[2].open]
            heapify(self._heap)
            self._gone = 0

    def close(self) -> None:
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _push(self, due_ms: int, candidate: IdleCandidate) -> None:
        self._sequence += 1
        heappush(self._heap, (due_ms, self._sequence, candidate))

    def _arm(self) -> None:
        if self._timer is None and self._heap:
            self._timer = self._timers.call_at(self._heap[0][0], self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            candidate = heappop(self._heap)[2]
            if not candidate.open:
                self._gone = max(0, self._gone - 1)
                continue
            due_ms = candidate.last_active_ms() + self.maximum_ms
            if candidate.awaits_us():
                self._push(now_ms + self.maximum_ms, candidate)
            elif due_ms <= now_ms:
                candidate.expire()
            else:
                self._push(due_ms, candidate)
        self._arm()
