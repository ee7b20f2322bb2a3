"""File slices whose bytes are not in memory: sent by a helper thread; the loop never waits for a disk.

sendfile of pages that the kernel has to read first blocks whoever calls it. A consumer that catches up on
old data would so stall everybody else. Before a slice is sent the kernel is asked whether all of it is in
memory (`PageCache`), and, as what is there may still be on its way from the disk, a byte here and there
whether it can be had at once (preadv with RWF_NOWAIT, which refuses instead of waiting). If so, the slice
leaves at once; else it is sent by a thread that calls sendfile on the same socket, while the connection
leaves its socket alone. What was appended a moment ago is not asked for: see `LogSlice.is_recent`.

The questions cost as much as a small slice does, so for a file that is read in order they reach ahead of the
slice, twice as far each time, and what was found in memory is taken to be there for a fifth of a second.

The kernel reads ahead, some megabytes of a file that is read in order, and has that done by whoever touches
the file next: that would be the loop, and it would wait until the disk has taken so many orders. So a file
that was met cold gets no read-ahead any more; the thread itself asks for what comes next.

What is on its way comes in pieces of a megabyte or so, in order, so the first byte of each megabyte and the
last byte of all are asked for; every 64 KiB where the kernel does not know the first question.

Where a file system does not know the second question every slice that is not recent goes to a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

from broker.network.page_cache import PageCache
from broker.network.response_pieces import NOTHING_WARM, SharedBySlices
from config.limits import COLD_PART_BYTES, COLD_PROBE_BYTES, MIB
from config.ports import Clock, Offload

T = TypeVar("T")

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_ASKED_BYTES: Final = 16 * MIB
"""The bytes about which the kernel is asked at once whether they are in memory."""

_WARM_NS: Final = 200_000_000
"""So long what was in memory is taken to be there still. Later the kernel may have given the memory to
somebody else."""

_NOT_KNOWN: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


def send_cold(target: int, descriptor: int, position: int, size_bytes: int) -> int:
    """Sends bytes of a file to the socket `target` and returns how many left. It waits for the disk, so only
    a helper thread may call it."""
    _order(descriptor, position, size_bytes)
    return os.sendfile(target, descriptor, position, size_bytes)


def read_cold(descriptor: int, size_bytes: int, position: int) -> bytes:
    """Reads bytes of a file, for a socket that cannot send files. It waits for the disk, so only a helper
    thread may call it."""
    _order(descriptor, position, size_bytes)
    return os.pread(descriptor, size_bytes, position)


def _order(descriptor: int, position: int, size_bytes: int) -> None:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    os.posix_fadvise(descriptor, position, size_bytes + COLD_PART_BYTES, os.POSIX_FADV_WILLNEED)


class ColdReads:
    """Decides which file slices the loop may send itself, and gives the others to helper threads.

    parts: how many parts of slices went to a helper thread. cold_bytes: how many bytes those had.
    """

    __slots__ = ("_byte", "_clock", "_offload", "_page_cache", "_unable", "cold_bytes", "parts")

    def __init__(self, offload: Offload, clock: Clock) -> None:
        self.parts = 0
        self.cold_bytes = 0
        self._offload = offload
        self._clock = clock
        self._page_cache = PageCache()
        self._byte = [bytearray(1)]
        self._unable: dict[int, None] = {}
        """The devices whose file system cannot say whether a byte is in memory."""

    def is_warm(self, shared: SharedBySlices, descriptor: int, position: int, size_bytes: int) -> bool:
        """Whether these bytes of a file can be sent without waiting for the disk. False if unknown."""
        begin, end, until_ns = shared.warm
        stop = position + size_bytes
        now_ns = self._clock.monotonic_ns()
        if begin <= position and stop <= end and now_ns < until_ns:
            return True
        until_ns = now_ns + _WARM_NS
        if begin <= position <= end:
            ahead = position + min(2 * (end - begin), _ASKED_BYTES)
            if ahead > stop:
                ahead = min(ahead, os.fstat(descriptor).st_size)
            if ahead > stop and self.asked_is_warm(descriptor, position, ahead - position):
                shared.warm = (position, ahead, until_ns)
                return True
        is_warm = self.asked_is_warm(descriptor, position, size_bytes)
        shared.warm = (position, stop, until_ns) if is_warm else NOTHING_WARM
        return is_warm

    def asked_is_warm(self, descriptor: int, position: int, size_bytes: int) -> bool:
        """`is_warm` as the kernel says it now.

        Whoever sends a range behind the end of the file finds that out, on the loop or in a thread.
        """
        if not _NOWAIT or (self._unable and os.fstat(descriptor).st_dev in self._unable):
            return False
        if self._page_cache.lacks(descriptor, position, size_bytes):
            return False
        step_bytes = COLD_PART_BYTES if self._page_cache.is_told else COLD_PROBE_BYTES
        end = position + size_bytes
        at = position
        try:
            while at < end:
                if not os.preadv(descriptor, self._byte, at, _NOWAIT):
                    return True
                at = min(at + step_bytes - at % step_bytes, end - 1) if at < end - 1 else end
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NOT_KNOWN:
                self._unable[os.fstat(descriptor).st_dev] = None
                return False
        return True

    def submit(
        self, size_bytes: int, call: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        """Lets a helper thread make a system call that waits for the disk; `done` gets its result or its
        error."""
        self.parts += 1
        self.cold_bytes += size_bytes
        self._offload.submit(call, done)
