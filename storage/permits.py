"""A counting semaphore for the loop: there are so many permits, and waiters get them in order.

Work that takes much memory asks for a permit before it begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Permits:
    """The permits of one kind of work. All calls come from the loop."""

    __slots__ = ("_waiting", "free")

    def __init__(self, count: int) -> None:
        self.free = count
        self._waiting: deque[Callable[[], bool]] = deque()

    def acquire(self, when_free: Callable[[], bool]) -> bool:
        """Returns whether a permit is free, which the caller then has. If not, `when_free` is called when one
        is, and returns whether the caller still wants it."""
        if self.free:
            self.free -= 1
            return True
        self._waiting.append(when_free)
        return False

    def release(self) -> None:
        """Gives a permit back. The waiter that has waited longest and still wants one gets it."""
        self.free += 1
        while self._waiting and self.free:
            self.free -= 1
            if not self._waiting.popleft()():
                self.free += 1
