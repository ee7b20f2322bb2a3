"""What is better done before anybody wants it, and can wait until nobody wants anything.

After the start the broker has all the time that its first clients leave it. So it looks now and then whether
the loop is idle, and does one small thing each time that it is: to import a library of compression takes some
milliseconds, which the first batch in that codec need not wait for. A loop that comes late to the look has
other things to do, and is asked again later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from config.ports import Clock, Timers
from protocol.records.compression import LAZY_CODECS, compress

FIRST_LOOK_MS: Final = 500
"""When the loop is first checked, after the start. Clients that waited for the start come before this
work."""
LOOK_MS: Final = 100
BUSY_LOOK_MS: Final = 1_000
QUIET_MS: Final = 5
"""The loop counts as idle if the check is late by no more than this."""


def codec_imports() -> list[Callable[[], object]]:
    """One task for each codec whose library is imported only when it is first used."""
    return [partial(compress, codec, b"") for codec in LAZY_CODECS]


class IdleWork:
    """The tasks of one node that wait until its loop is idle; each idle check runs one of them."""

    def __init__(self, clock: Clock, timers: Timers, tasks: Iterable[Callable[[], object]]) -> None:
        self._clock = clock
        self._timers = timers
        self._tasks = deque(tasks)
        self._due_ms = 0

    def start(self) -> None:
        self._look_in(FIRST_LOOK_MS)

    def stop(self) -> None:
        """Drops the tasks that have not been run."""
        self._tasks.clear()

    def _look_in(self, delay_ms: int) -> None:
        self._due_ms = self._clock.monotonic_ms() + delay_ms
        self._timers.call_at(self._due_ms, self._look)

    def _look(self) -> None:
        if not self._tasks:
            return
        if self._clock.monotonic_ms() - self._due_ms > QUIET_MS:
            self._look_in(BUSY_LOOK_MS)
            return
        self._tasks.popleft()()
        if self._tasks:
            self._look_in(LOOK_MS)
