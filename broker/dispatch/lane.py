"""Requests that take longer than a turn of the loop, in turns and with a bound on what they take together.

A request comes here if its frame is so long, or its API such, that handling it might keep all other clients
waiting. It begins at once if there is a place, and most requests are done within that first turn. The others
go on in later turns of the loop: one of them gets a few milliseconds of each turn, in a circle, so that a
short one is not held up by a long one::

    up to LONG_REQUEST_BYTES   LONG_REQUESTS_AT_ONCE places   what each takes in memory is small
    beyond                     one place                      each may take REQUEST_MEMORY_BYTES

A request that finds no place waits in the order of arrival, with a copy of its frame, which counts among the
frames that are arriving (`broker.network.memory`). A request whose answer is pending, because it waits for
other members of a group for example, gives its place back. One lane serves all listeners of a node.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from broker.network.memory import RequestMemory
from config.limits import LONG_REQUEST_BYTES, LONG_REQUESTS_AT_ONCE, LONG_TURN_MS
from config.ports import Clock, Timers

__all__ = ["Lane", "Work"]


class Work(Protocol):
    """A request that is served in turns. frame_bytes: the size of its frame, which does not change."""

    frame_bytes: int

    def turn(self, deadline_ns: int) -> bool:
        """Goes on until the request is done or the deadline has passed. Returns whether it needs no further
        turn for now."""
        ...

    def memory_freed(self) -> None: ...


class _Places:
    """The places for one kind of request: how many are free, and which requests wait for one."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.waiting: deque[Work] = deque()


class Lane:
    """The requests of one node that are served in turns."""

    def __init__(self, *, clock: Clock, timers: Timers, memory: RequestMemory) -> None:
        self._clock = clock
        self._timers = timers
        self._memory = memory
        self._short = _Places(LONG_REQUESTS_AT_ONCE)
        self._long = _Places(1)
        self._at_work: deque[Work] = deque()
        self._placed: dict[Work, _Places] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        """The number of requests that are being served in turns or wait for a place."""
        return len(self._at_work) + self.queued

    @property
    def queued(self) -> int:
        """The number of requests that wait for a place and have not begun."""
        return len(self._short.waiting) + len(self._long.waiting)

    def enter(self, work: Work) -> bool:
        """Takes a request in, and gives it its first turn if there is a place. Returns whether it is done."""
        places = self._long if work.frame_bytes > LONG_REQUEST_BYTES else self._short
        self._memory.hold(work, work.frame_bytes)
        if not places.free:
            places.waiting.append(work)
            return False
        places.free -= 1
        self._placed[work] = places
        if self._turn(work):
            return True
        self._at_work.append(work)
        self._schedule()
        return False

    def again(self, work: Work) -> None:
        """Goes on with a request whose pending answer is complete. It needs no place, because its memory is
        taken already."""
        self._at_work.append(work)
        self._schedule()

    def decoded(self, work: Work) -> None:
        """Gives back the memory of the request's frame, which is needed no longer."""
        self._memory.hold(work, 0)

    def leave(self, work: Work) -> None:
        """Forgets a request whose client has disconnected. It must not be called within the request's own
        turn, which ends by itself."""
        for kind in (self._short, self._long):
            if work in kind.waiting:
                kind.waiting.remove(work)
        if work in self._at_work:
            self._at_work.remove(work)
        self._done(work)

    def _turn(self, work: Work) -> bool:
        deadline_ns = self._clock.monotonic_ns() + LONG_TURN_MS * 1_000_000
        is_done = True
        try:
            is_done = work.turn(deadline_ns)
        finally:
            if is_done:
                self._done(work)
        return is_done

    def _done(self, work: Work) -> None:
        self._memory.hold(work, 0)
        places = self._placed.pop(work, None)
        if places is None:
            return
        if places.waiting:
            successor = places.waiting.popleft()
            self._placed[successor] = places
            self._at_work.append(successor)
            self._schedule()
        else:
            places.free += 1

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._timers.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if not self._at_work:
            return
        work = self._at_work.popleft()
        is_done = True
        try:
            is_done = self._turn(work)
        finally:
            if not is_done:
                self._at_work.append(work)
            if self._at_work:
                self._schedule()
