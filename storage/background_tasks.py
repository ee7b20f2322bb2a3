"""Work for helper threads that a log notes and does not wait for: syncs, checkpoint files, removals.

The log notes such a call here and goes on; the log manager hands what is due to the helper threads at its
next round. A background task is one system call or a few. What depends on its end (a recovery point, for
example) is done in `done`, on the loop again. Background tasks of one log are handed over in the order in
which they were noted, but threads may finish them in another order, so each must be correct by itself.

The deletion of ten thousand topics leaves as many background tasks that wait for their time. So those of a
lane (the directory of a log, as a rule) are found without a look at all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec


class TaskKind(Enum):
    """What a background task does with its path. The value is the verb of the line that reports a failure."""

    SYNC = "sync"
    """Brings what was written to the disk."""
    WRITE = "write"
    """Replaces a small file: a checkpoint, a producer snapshot."""
    REMOVE = "remove"
    """Removes a file or a directory that nobody uses any more. No sync waits for it."""
    CHECK = "look at"
    """Asks whether a log directory can still be used."""


class BackgroundTask(msgspec.Struct, frozen=True):
    """One call for a helper thread."""

    kind: TaskKind
    path: str
    """The file or directory that is synced, written, removed or looked at."""
    lane: str
    """Tasks with the same lane run one at a time, in order. A lane is a path: that of a log's directory, or
    of a file that several tasks replace."""
    call: Callable[[], object]
    done: Callable[[], None] | None = None
    """Called on the loop after `call` has succeeded."""
    failed: Callable[[], None] | None = None
    """Called on the loop after `call` has failed."""
    due_ms: int = 0
    """The task is not begun before this time."""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.path}"


class BackgroundTasks:
    """The tasks that have not begun, by lane. The logs of a node share it."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[str, list[BackgroundTask]] = {}

    def __len__(self) -> int:
        return sum(len(background_tasks) for background_tasks in self._lanes.values())

    def add(
        self,
        kind: TaskKind,
        path: str,
        lane: str,
        call: Callable[[], object],
        done: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
        due_ms: int = 0,
    ) -> None:
        self._lanes.setdefault(lane, []).append(BackgroundTask(kind, path, lane, call, done, failed, due_ms))

    def drop(self, lane: str, *kinds: TaskKind, path: str | None = None) -> None:
        """Forgets the background tasks of these kinds in one lane: all of them, or those for one path."""
        kept = [
            task
            for task in self._lanes.get(lane, ())
            if task.kind not in kinds or (path is not None and task.path != path)
        ]
        self._keep(lane, kept)

    def _keep(self, lane: str, background_tasks: list[BackgroundTask]) -> None:
        if background_tasks:
            self._lanes[lane] = background_tasks
        else:
            self._lanes.pop(lane, None)

    def take_due(self, now_ms: int) -> list[BackgroundTask]:
        """Removes and returns the tasks that are due, those of each lane in the order in which they were
        noted."""
        due: list[BackgroundTask] = []
        for lane, background_tasks in list(self._lanes.items()):
            ready = [task for task in background_tasks if task.due_ms <= now_ms]
            if ready:
                due += ready
                self._keep(lane, [task for task in background_tasks if task.due_ms > now_ms])
        return due

    def take_all(self) -> list[BackgroundTask]:
        """Removes and returns all tasks, whether they are due or not, because the node ends."""
        lanes, self._lanes = self._lanes, {}
        return [task for background_tasks in lanes.values() for task in background_tasks]

    def run_due(self, now_ms: int) -> int:
        """Runs the tasks that are due at once, for tools and tests. Returns their number."""
        due = self.take_due(now_ms)
        for task in due:
            task.call()
            if task.done is not None:
                task.done()
        return len(due)
