"""Runs background tasks: those of one lane one after the other, those of different lanes side by side.

While the node serves, helper threads run them and the loop is told when they have ended. When the node ends
there is no loop any more: `finish` does what is left, as many lanes at once as its caller has threads. A sync
costs a disk little more when others wait for it at the same time, so a thousand logs are closed about as fast
as their directories can be walked.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from config.limits import HELPER_THREADS
from config.ports import Offload
from storage.background_tasks import BackgroundTask, TaskKind

SideBySide = Callable[[Sequence[Callable[[], None]]], None]
"""Runs all calls and returns when the last has ended. They raise nothing."""

_logger: Final = logging.getLogger("barnabas.storage")


LANES_AT_ONCE: Final = HELPER_THREADS // 2
"""The number of lanes that run at once. The other helper threads are for work for which clients wait, for
example commits of the metadata log."""


class _Given:
    """A task that was given to the helper threads, and that may still wait for one of them."""

    __slots__ = ("is_dropped", "task")

    def __init__(self, task: BackgroundTask) -> None:
        self.task = task
        self.is_dropped = False

    def call(self) -> object:
        """Runs the task in a helper thread, unless it was dropped before."""
        return None if self.is_dropped else self.task.call()


class BackgroundTaskLanes:
    """The tasks that are running, and those that wait for their lane. All calls come from the loop."""

    def __init__(
        self, offload: Offload, on_failure: Callable[[BackgroundTask, BaseException], None] | None = None
    ) -> None:
        """on_failure: called with each background task that has failed."""
        self._offload = offload
        self._on_failure = on_failure
        self._running: dict[str, _Given] = {}
        """The task of each lane that a helper thread has."""
        self._queued: dict[str, deque[BackgroundTask]] = {}
        """The tasks that have not begun, by lane. The lanes stand in the order of their turns."""

    def is_busy(self, lane: str) -> bool:
        return lane in self._running or lane in self._queued

    def submit(self, task: BackgroundTask) -> None:
        """Has a helper thread run the task when its lane has its turn."""
        self._queued.setdefault(task.lane, deque()).append(task)
        self._fill()

    def drop(self, lane: str, *kinds: TaskKind) -> None:
        """Forgets the tasks of these kinds in one lane that have not begun. The end of one that runs already
        is not told any more, and the next task of its lane waits for it."""
        kept = deque(task for task in self._queued.get(lane, ()) if task.kind not in kinds)
        if kept:
            self._queued[lane] = kept
        else:
            self._queued.pop(lane, None)
        given = self._running.get(lane)
        if given is not None and given.task.kind in kinds:
            given.is_dropped = True

    def _fill(self) -> None:
        while len(self._running) < LANES_AT_ONCE:
            lane = next((each for each in self._queued if each not in self._running), None)
            if lane is None:
                return
            queue = self._queued.pop(lane)
            task = queue.popleft()
            if queue:
                self._queued[lane] = queue
            given = self._running[lane] = _Given(task)
            self._offload.submit(given.call, partial(self._ended, given))

    def _ended(self, given: _Given, result: object) -> None:
        if not given.is_dropped:
            self._tell(given.task, result)
        del self._running[given.task.lane]
        self._fill()

    def _tell(self, task: BackgroundTask, result: object) -> None:
        """Logs a failure. The next round of housekeeping tries again what can be tried again."""
        if isinstance(result, FileNotFoundError):
            _logger.info("No need to %s: %s", task, result)
        elif isinstance(result, BaseException):
            _logger.error("Cannot %s: %s", task, result)
            if task.failed is not None:
                task.failed()
        elif task.done is not None:
            task.done()
        if isinstance(result, BaseException) and self._on_failure is not None:
            self._on_failure(task, result)

    def take_unfinished(self) -> list[BackgroundTask]:
        """Removes and returns the tasks that are not known to have ended, in order. The helper threads have
        ended, and whether they ran them is not known. To run them again does no harm."""
        unfinished = [given.task for given in self._running.values() if not given.is_dropped]
        for queue in self._queued.values():
            unfinished += queue
        self._running.clear()
        self._queued.clear()
        return unfinished


def one_after_the_other(calls: Sequence[Callable[[], None]]) -> None:
    """A `SideBySide` without threads, for tools and tests."""
    for call in calls:
        call()


def finish(background_tasks: Iterable[BackgroundTask], side_by_side: SideBySide) -> list[BackgroundTask]:
    """Runs all tasks, each lane in its order. Returns those that have failed. Their callbacks are called
    afterwards, one after the other."""
    lanes: dict[str, list[BackgroundTask]] = {}
    for task in background_tasks:
        lanes.setdefault(task.lane, []).append(task)
    failures: list[BackgroundTask] = []
    side_by_side([partial(_run_lane, lane, failures) for lane in lanes.values()])
    for lane in lanes.values():
        for task in lane:
            if task.done is not None and not any(task is failure for failure in failures):
                task.done()
    return failures


def _run_lane(lane: Sequence[BackgroundTask], failures: list[BackgroundTask]) -> None:
    """Does the tasks of one lane in order, in a thread of its own."""
    for task in lane:
        try:
            task.call()
        except FileNotFoundError as error:
            _logger.info("No need to %s: %s", task, error)
        except OSError as error:
            _logger.error("Cannot %s: %s", task, error)
            failures.append(task)
