"""Closes connections that have been idle for longer than `connections.max.idle.ms`.

A request touches no timer. Each connection has one entry in a heap, with the time at which it would be idle
if it did nothing since the entry was made. When that time comes the connection says when it was last active,
and the entry goes back into the heap with the time that follows from it. A connection that waits for an
answer of this broker is not idle, however long it waits.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from config.ports import Clock, Timer, Timers

_REBUILD_FROM: Final = 64


class IdleCandidate(Protocol):
    """What the idle sweep needs of a connection."""

    @property
    def open(self) -> bool: ...

    def last_active_ms(self) -> int: ...

    def is_awaiting_answer(self) -> bool:
        """Whether the peer waits for an answer of this broker, so that its silence does not count as
        idleness."""
        ...

    def expire(self) -> None: ...


class IdleSweep:
    """Closes idle connections after `maximum_ms`; a negative value means that none is closed for idleness."""

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
        """Counts a connection that has ended; the heap is rebuilt when most of its entries belong to such
        connections."""
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
            if candidate.is_awaiting_answer():
                self._push(now_ms + self.maximum_ms, candidate)
            elif due_ms <= now_ms:
                candidate.expire()
            else:
                self._push(due_ms, candidate)
        self._arm()
