"""Deadlines by key, in one lazy heap.

A member's session deadline moves with each heartbeat, and in nearly all cases it moves away. So moving a
deadline away writes only into a dictionary; the heap keeps the older, earlier entry, and when that comes up
it is put back with the deadline that holds by then. A heartbeat costs a dictionary write, whatever the number
of members.

    deadlines:  key -> when it is due          (the truth)
    heap:       (when to look, number, key)    at least one entry per key, none later than the truth

A cancelled key leaves its entry behind; when such leftovers are the majority the heap is built anew, so that
members who come and go within their session timeouts take no room.

Pure: the time is an argument, in whatever clock the caller keeps his deadlines.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

K = TypeVar("K")

REBUILD_FROM: Final = 64
"""A heap smaller than this is never built anew, because its leftovers cost little."""


class DeadlineQueue(Generic[K]):
    """Keys with a deadline each. Equal deadlines come up in the order in which they were first set."""

    __slots__ = ("_deadlines", "_heap", "_looks", "_number")

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._looks: dict[K, int] = {}
        """Per key the earliest entry in the heap; later entries of the key are leftovers."""
        self._heap: list[tuple[int, int, K]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def get(self, key: K) -> int | None:
        return self._deadlines.get(key)

    def set(self, key: K, deadline_ms: int) -> None:
        """Gives the key this deadline in place of any other."""
        self._deadlines[key] = deadline_ms
        look = self._looks.get(key)
        if look is None or deadline_ms < look:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Forgets the key. Its entry stays in the heap until it comes up, or until most entries are
        leftovers."""
        if self._deadlines.pop(key, None) is not None:
            self._tidy()

    def next_look_ms(self) -> int | None:
        """The time at which `pop_due` should be called next: not later than the first deadline, perhaps
        earlier."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """Removes and returns a key whose deadline has passed; None if there is none. Call it until None."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            look, number, key = heap[0]
            deadline = self._deadlines.get(key)
            if look != self._looks.get(key):
                heappop(heap)
            elif deadline is None:
                heappop(heap)
                del self._looks[key]
            elif deadline > now_ms:
                heapreplace(heap, (deadline, number, key))
                self._looks[key] = deadline
            else:
                heappop(heap)
                del self._looks[key]
                del self._deadlines[key]
                return key
        return None

    def _tidy(self) -> None:
        """If most entries are leftovers, makes the heap anew with one entry for each key at its deadline.
        Equal ones keep their order."""
        if len(self._heap) <= max(2 * len(self._deadlines), REBUILD_FROM):
            return
        numbers = {key: number for look, number, key in self._heap if look == self._looks.get(key)}
        self._heap = [(deadline, numbers[key], key) for key, deadline in self._deadlines.items()]
        heapify(self._heap)
        self._looks = dict(self._deadlines)

    def _push(self, key: K, deadline_ms: int) -> None:
        self._number += 1
        self._looks[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._number, key))
        self._tidy()
