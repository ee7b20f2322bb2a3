"""What must be done beside the loop: syncing, checkpoint files, removals.

The log notes such a call here and goes on; the log manager hands what is due to the helper threads at its
next round. A chore is one system call or a few; what depends on its end (a recovery point, say) follows in
`done`, on the loop again. Chores of one log are handed over in the order in which they were noted, but
threads may finish them in another: each must be right by itself.

A deletion of ten thousand topics leaves as many chores that wait for their time, so those of a lane (a log's
directory, as a rule) are found without a look at all the others.
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
    """A list of them by lane, shared by the logs of a node."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[str, list[Chore]] = {}

    def __len__(self) -> int:
        return sum(len(chores) for chores in self._lanes.values())

    def add(
        self,
        what: str,
        lane: str,
        call: Callable[[], object],
        done: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
        due_ms: int = 0,
    ) -> None:
        self._lanes.setdefault(lane, []).append(Chore(what, lane, call, done, failed, due_ms))

    def drop(self, what: str, lane: str | None = None) -> None:
        """Forgets the chores whose description begins so; of one lane, where the caller knows it."""
        for each in list(self._lanes) if lane is None else (lane,):
            chores = self._lanes.get(each, ())
            self._keep(each, [chore for chore in chores if not chore.what.startswith(what)])

    def _keep(self, lane: str, chores: list[Chore]) -> None:
        if chores:
            self._lanes[lane] = chores
        else:
            self._lanes.pop(lane, None)

    def take_due(self, now_ms: int) -> list[Chore]:
        """Removes and returns what is due; of each lane in the order in which it came."""
        due: list[Chore] = []
        for lane, chores in list(self._lanes.items()):
            ready = [chore for chore in chores if chore.due_ms <= now_ms]
            if ready:
                due += ready
                self._keep(lane, [chore for chore in chores if chore.due_ms > now_ms])
        return due

    def take_all(self) -> list[Chore]:
        """Removes and returns everything, due or not: the node ends."""
        lanes, self._lanes = self._lanes, {}
        return [chore for chores in lanes.values() for chore in chores]

    def run_due(self, now_ms: int) -> int:
        """Does what is due at once, for tools and tests; returns how many chores that were."""
        due = self.take_due(now_ms)
        for chore in due:
            chore.call()
            if chore.done is not None:
                chore.done()
        return len(due)
