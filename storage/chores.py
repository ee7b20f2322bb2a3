"""What must be done beside the loop: syncing, checkpoint files, removals.

The log notes such a call here and goes on; the log manager hands what is due to the helper threads at its
next round. A chore is one system call or a few; what depends on its end (a recovery point, say) follows in
`done`, on the loop again. Chores of one log are handed over in the order in which they were noted, but
threads may finish them in another: each must be right by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Chore(msgspec.Struct, frozen=True):
    """One call for a helper thread."""

    what: str
    """For the log, if it fails: what was to be done, with the path."""
    lane: str
    call: Callable[[], object]
    done: Callable[[], None] | None = None
    """On the loop, after the call went well."""
    failed: Callable[[], None] | None = None
    """On the loop, after it did not."""
    due_ms: int = 0
    """Not before this time."""


class Chores:
    """A list of them, shared by the logs of a node."""

    __slots__ = ("_chores",)

    def __init__(self) -> None:
        self._chores: list[Chore] = []

    def __len__(self) -> int:
        return len(self._chores)

    def add(
        self,
        what: str,
        lane: str,
        call: Callable[[], object],
        done: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
        due_ms: int = 0,
    ) -> None:
        self._chores.append(Chore(what, lane, call, done, failed, due_ms))

    def drop(self, what: str) -> None:
        """Forgets the chores whose description begins so."""
        self._chores = [chore for chore in self._chores if not chore.what.startswith(what)]

    def take_due(self, now_ms: int) -> list[Chore]:
        """Removes and returns what is due, in the order in which it came."""
        due = [chore for chore in self._chores if chore.due_ms <= now_ms]
        if due:
            self._chores = [chore for chore in self._chores if chore.due_ms > now_ms]
        return due

    def take_all(self) -> list[Chore]:
        """Removes and returns everything, due or not: the node ends."""
        chores, self._chores = self._chores, []
        return chores

    def run_due(self, now_ms: int) -> int:
        """Does what is due at once, for tools and tests; returns how many chores that were."""
        due = self.take_due(now_ms)
        for chore in due:
            chore.call()
            if chore.done is not None:
                chore.done()
        return len(due)
