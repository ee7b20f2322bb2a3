"""One log directory's disk, as appends see it: is it slow, and the helper threads that write to it.

An append writes on the loop, since the page cache takes a batch in microseconds. A disk that is congested or
breaking makes such a write wait, and with it everybody on the loop. So writes are timed: one that took longer
than `SLOW_DIRECTORY_MS` makes its directory slow, and from then on its appends go through helper threads (see
`append_lane`), so that logs in other directories, and reads, go on. Each slow write in a thread prolongs it;
when there was none for `SLOW_DIRECTORY_REST_MS`, appends write on the loop again.

      quick ──── a write on the loop took too long ────► slow ◄──┐
        ▲                                                 │  └───┘ another one did, in a thread
        └──────── no such write for a while ──────────────┘

Only so many threads work for one directory at a time: the others are for the other directories.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from config.limits import SLOW_DIRECTORY_MS, SLOW_DIRECTORY_REST_MS, WRITES_PER_DIRECTORY
from config.ports import Offload

SLOW_NS: Final = SLOW_DIRECTORY_MS * 1_000_000
_REST_NS: Final = SLOW_DIRECTORY_REST_MS * 1_000_000

_logger: Final = logging.getLogger(__name__)

Done = Callable[[object], None]


def no_time_ns() -> int:
    """The clock of logs whose writes nobody times."""
    return 0


class LogDisk:
    """Shared by the logs of a directory. All calls come from the loop."""

    __slots__ = (
        "_offload",
        "_queued",
        "_running",
        "_slow_until_ns",
        "is_slow",
        "now_ns",
        "path",
        "slow_writes",
    )

    def __init__(
        self, path: str, offload: Offload | None = None, now_ns: Callable[[], int] = no_time_ns
    ) -> None:
        """now_ns: a monotonic clock. Without an offload the disk is never slow, `submit` works at once."""
        self.path = path
        self.now_ns = now_ns
        self.is_slow = False
        self.slow_writes = 0
        """How many writes took too long, on the loop or in a thread."""
        self._slow_until_ns = 0
        self._offload = offload
        self._running = 0
        self._queued: deque[tuple[Callable[[], object], Done]] = deque()

    def took(self, duration_ns: int) -> None:
        """How long a write took; to be told at least if that was beyond `SLOW_NS`."""
        if duration_ns <= SLOW_NS or self._offload is None:
            return
        self.slow_writes += 1
        self._slow_until_ns = self.now_ns() + _REST_NS
        if not self.is_slow:
            self.is_slow = True
            _logger.warning(
                "A write in %s took %d ms, longer than %d ms: appends there go through helper threads until "
                "it is quick again",
                self.path, duration_ns // 1_000_000, SLOW_DIRECTORY_MS,
            )  # fmt: skip

    def still_slow(self) -> bool:
        """Whether the next append shall go through a thread; notices that the disk has been quick for long
        enough."""
        if self.is_slow and self.now_ns() >= self._slow_until_ns:
            self.is_slow = False
            _logger.info("Writes in %s are quick again", self.path)
        return self.is_slow

    def submit(self, call: Callable[[], object], done: Done) -> None:
        """Has a helper thread do a write or a sync; `done` gets the result, or the exception, on the loop."""
        if self._offload is None:
            result: object
            try:
                result = call()
            except OSError as error:
                result = error
            done(result)
            return
        if self._running >= WRITES_PER_DIRECTORY:
            self._queued.append((call, done))
            return
        self._running += 1
        self._offload.submit(call, partial(self._ended, done))

    def _ended(self, done: Done, result: object) -> None:
        self._running -= 1
        if self._queued and self._offload is not None:
            call, its_done = self._queued.popleft()
            self._running += 1
            self._offload.submit(call, partial(self._ended, its_done))
        done(result)
