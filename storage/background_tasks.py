"""What must be done beside the loop: syncing, checkpoint files, removals.

The log notes such a call here and goes on; the log manager hands what is due to the helper threads at its
next round. A background task is one system call or a few; what depends on its end (a recovery point, say)
follows in `done`, on the loop again. Background tasks of one log are handed over in the order in which they
were noted, but threads may finish them in another: each must be right by itself.

A deletion of ten thousand topics leaves as many background tasks that wait for their time, so those of a lane
(a log's directory, as a rule) are found without a look at all the others.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class BackgroundTask(msgspec.Struct, frozen=True):
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


class BackgroundTasks:
    """A list of them by lane, shared by the logs of a node."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[str, list[BackgroundTask]] = {}

    def __len__(self) -> int:
        return sum(len(background_tasks) for background_tasks in self._lanes.values())

    def add(
        self,
        what: str,
        lane: str,
        call: Callable[[], object],
        done: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
        due_ms: int = 0,
    ) -> None:
        self._lanes.setdefault(lane, []).append(BackgroundTask(what, lane, call, done, failed, due_ms))

    def drop(self, what: str, lane: str | None = None) -> None:
        """Forgets the background tasks whose description begins so; of one lane, where the caller knows
        it."""
        for each in list(self._lanes) if lane is None else (lane,):
            background_tasks = self._lanes.get(each, ())
            self._keep(each, [task for task in background_tasks if not task.what.startswith(what)])

    def _keep(self, lane: str, background_tasks: list[BackgroundTask]) -> None:
        if background_tasks:
            self._lanes[lane] = background_tasks
        else:
            self._lanes.pop(lane, None)

    def take_due(self, now_ms: int) -> list[BackgroundTask]:
        """Removes and returns what is due; of each lane in the order in which it came."""
        due: list[BackgroundTask] = []
        for lane, background_tasks in list(self._lanes.items()):
            ready = [task for task in background_tasks if task.due_ms <= now_ms]
            if ready:
                due += ready
                self._keep(lane, [task for task in background_tasks if task.due_ms > now_ms])
        return due

    def take_all(self) -> list[BackgroundTask]:
        """Removes and returns everything, due or not: the node ends."""
        lanes, self._lanes = self._lanes, {}
        return [task for background_tasks in lanes.values() for task in background_tasks]

    def run_due(self, now_ms: int) -> int:
        """Does what is due at once, for tools and tests; returns how many background tasks that were."""
        due = self.take_due(now_ms)
        for task in due:
            task.call()
            if task.done is not None:
                task.done()
        return len(due)
