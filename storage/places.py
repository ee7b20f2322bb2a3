"""So many at a time, the others in order: for what takes memory while it lasts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Places:
    """Of one kind. All calls come from the loop."""

    __slots__ = ("_waiting", "free")

    def __init__(self, count: int) -> None:
        self.free = count
        self._waiting: deque[Callable[[], bool]] = deque()

    def take(self, when_free: Callable[[], bool]) -> bool:
        """Whether there is a place: it is the caller's then. If not, he is called when one is, and it is his
        if he says so."""
        if self.free:
            self.free -= 1
            return True
        self._waiting.append(when_free)
        return False

    def leave(self) -> None:
        """A place is given back; whoever waits longest and still wants it has it."""
        self.free += 1
        while self._waiting and self.free:
            self.free -= 1
            if not self._waiting.popleft()():
                self.free += 1
