"""A counting semaphore for the loop: so many permits, and those who wait for one get it in order.

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
        """Whether a permit is free: the caller has it then. If not, `when_free` is called when one is, and
        says whether the caller still wants it."""
        if self.free:
            self.free -= 1
            return True
        self._waiting.append(when_free)
        return False

    def release(self) -> None:
        """Gives a permit back; whoever waits longest and still wants it gets it."""
        self.free += 1
        while self._waiting and self.free:
            self.free -= 1
            if not self._waiting.popleft()():
                self.free += 1
