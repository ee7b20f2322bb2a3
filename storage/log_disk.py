"""One log directory's disk, as appends see it: is it slow, and the helper threads that write to it.

An append writes on the loop, since the page cache takes a batch in microseconds. A disk that is congested or
breaking makes such a write wait, and with it everybody on the loop. So writes are timed, and while a
directory is slow its appends go through helper threads (see `append_lane`), so that logs in other
directories, and reads, go on.

A write takes long for another reason, too: on a machine that is short of processors the loop's thread is
interrupted in it as anywhere else, for 20 ms and more. Helper threads are no help then, they make it worse.
So a long write makes a directory watched only. Of a watched one each timed write is measured by how long it
stalled (`config.ports.Stalls`): neither ran nor waited for a processor. One that stalled makes it slow. To
ask the machine for that costs some microseconds, which the writes of a quick directory do not pay.

               a write took long            one stalled
      quick ───────────────────► watched ───────────────────► slow ◄──┐
        ▲                         │   ▲                         │ └───┘ one in a thread stalled
        └──── none did any more ──┘   └── none did for a rest ──┘

After a rest without a slow write appends are tried on the loop again. A directory that is slow again soon
rests twice as long, so one that is slow now and then costs the loop little, and one that was slow once is
soon as quick as ever.

Only so many threads work for one directory at a time: the others are for the other directories.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from config.limits import (
    SLOW_DIRECTORY_LONGEST_REST_MS,
    SLOW_DIRECTORY_MS,
    SLOW_DIRECTORY_RELAPSE_MS,
    SLOW_DIRECTORY_REST_MS,
    WATCHED_DIRECTORY_MS,
    WATCHED_WRITES,
    WRITES_PER_DIRECTORY,
)
from config.ports import Offload

_MS: Final = 1_000_000
SLOW_NS: Final = SLOW_DIRECTORY_MS * _MS

_logger: Final = logging.getLogger("barnabas.storage")

Done = Callable[[object], None]


def no_time_ns() -> int:
    """The clock of logs whose writes are not timed. It always returns 0."""
    return 0


class LogDisk:
    """The disk under a log directory, which the logs in it share. All calls come from the loop."""

    __slots__ = (
        "_offload",
        "_queued",
        "_readings_left",
        "_relapse_until_ns",
        "_rest_ms",
        "_running",
        "_slow_until_ns",
        "_wall_ns",
        "_watched_until_ns",
        "is_slow",
        "now_ns",
        "path",
        "slow_writes",
        "stalled_ns",
    )

    def __init__(
        self,
        path: str,
        offload: Offload | None = None,
        now_ns: Callable[[], int] = no_time_ns,
        stalled_ns: Callable[[], int] | None = None,
    ) -> None:
        """now_ns: a monotonic clock. stalled_ns: that of `config.ports.Stalls`, or the clock itself if there
        is none. Without an offload the disk is never slow, and `submit` runs the call at once."""
        self.path = path
        self.now_ns = now_ns
        """The clock by which writes on the loop are timed. A write is timed by one clock from its begin to
        its end: read this attribute once, and call it twice."""
        self.stalled_ns = stalled_ns or now_ns
        """The clock by which writes in helper threads are timed."""
        self.is_slow = False
        self.slow_writes = 0
        """The number of writes that have stalled too long, on the loop or in a thread."""
        self._wall_ns = now_ns
        self._watched_until_ns = 0
        self._readings_left = 0
        self._slow_until_ns = 0
        self._rest_ms = SLOW_DIRECTORY_REST_MS
        self._relapse_until_ns = 0
        self._offload = offload
        self._running = 0
        self._queued: deque[tuple[Callable[[], object], Done]] = deque()

    @property
    def is_watched(self) -> bool:
        """Whether writes on the loop are measured by how long they stall."""
        return self.now_ns is not self._wall_ns

    def took(self, duration_ns: int) -> None:
        """Takes in how long a write on the loop took by `now_ns`. It must be called at least if that was more
        than `SLOW_NS`."""
        if duration_ns <= SLOW_NS or self._offload is None:
            return
        if self.is_watched:
            self.stalled(duration_ns)
        else:
            self._watch()

    def stalled(self, duration_ns: int) -> None:
        """Takes in how long a write in a helper thread took by `stalled_ns`."""
        if duration_ns <= SLOW_NS or self._offload is None:
            return
        self.slow_writes += 1
        now_ns = self._wall_ns()
        if not self.is_slow:
            is_relapse = now_ns < self._relapse_until_ns
            self._rest_ms = (
                min(2 * self._rest_ms, SLOW_DIRECTORY_LONGEST_REST_MS)
                if is_relapse
                else SLOW_DIRECTORY_REST_MS
            )
            self.is_slow = True
            _logger.warning(
                "A write in %s waited %d ms for the disk, longer than %d ms: appends there go through helper "
                "threads until it has been quick for %d ms",
                self.path, duration_ns // _MS, SLOW_DIRECTORY_MS, self._rest_ms,
            )  # fmt: skip
        self._slow_until_ns = now_ns + self._rest_ms * _MS

    def still_slow(self) -> bool:
        """Whether the next append shall go through a thread. Notices when the disk has been quick for long
        enough."""
        if self.is_slow:
            now_ns = self._wall_ns()
            if now_ns >= self._slow_until_ns:
                self.is_slow = False
                self._relapse_until_ns = now_ns + SLOW_DIRECTORY_RELAPSE_MS * _MS
                self._watch()
                _logger.info("Writes in %s are quick again", self.path)
        return self.is_slow

    def _watch(self) -> None:
        self._watched_until_ns = self._wall_ns() + WATCHED_DIRECTORY_MS * _MS
        self._readings_left = 2 * WATCHED_WRITES
        self.now_ns = self._watching_ns

    def _watching_ns(self) -> int:
        """The clock of a watched directory: how long this thread has stalled so far."""
        self._readings_left -= 1
        if self._readings_left < 0 and self._wall_ns() >= self._watched_until_ns:
            self.now_ns = self._wall_ns  # from the next write on
        return self.stalled_ns()

    def submit(self, call: Callable[[], object], done: Done) -> None:
        """Has a helper thread do a write or a sync. `done` gets the result, or the exception, on the loop."""
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
