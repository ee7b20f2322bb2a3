"""File slices whose bytes are not in memory: sent by a helper thread; the loop never waits for a disk.

sendfile of pages that the kernel has to read first blocks whoever calls it. A consumer that catches up on
old data would so stall everybody else. Before a slice is sent the kernel is asked whether all of it is in
memory (`PageCache`), and, as what is there may still be on its way from the disk, one byte in every 64 KiB
whether it can be had at once (preadv with RWF_NOWAIT, which refuses instead of waiting). If so, the slice
leaves at once; else it is sent by a thread that calls sendfile on the same socket, while the connection
leaves its socket alone. What was appended a moment ago is not asked for: see `LogSlice.is_recent`.

The kernel reads ahead, some megabytes of a file that is read in order, and has that done by whoever touches
the file next: that would be the loop, and it would wait until the disk has taken so many orders. So a file
that was met cold gets no read-ahead any more; the thread itself asks for what comes next.

Where a file system does not know the second question every slice that is not recent goes to a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

from broker.network.page_cache import PageCache
from config.limits import COLD_PART_BYTES, COLD_PROBE_BYTES
from config.ports import Offload

T = TypeVar("T")

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
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

    __slots__ = ("_byte", "_offload", "_page_cache", "_unable", "cold_bytes", "parts")

    def __init__(self, offload: Offload) -> None:
        self.parts = 0
        self.cold_bytes = 0
        self._offload = offload
        self._page_cache = PageCache()
        self._byte = [bytearray(1)]
        self._unable: dict[int, None] = {}
        """The devices whose file system cannot say whether a byte is in memory."""

    def warm_bytes(self, descriptor: int, position: int, size_bytes: int) -> int:
        """How many bytes from `position` on can be sent without waiting for the disk: all or none, as nobody
        knows what lies between two of the bytes that were asked for. 0 if unknown.

        Whoever sends a range behind the end of the file finds that out, on the loop or in a thread.
        """
        if not _NOWAIT or (self._unable and os.fstat(descriptor).st_dev in self._unable):
            return 0
        if self._page_cache.lacks(descriptor, position, size_bytes):
            return 0
        end = position + size_bytes
        at = position
        try:
            while at < end:
                if not os.preadv(descriptor, self._byte, at, _NOWAIT):
                    return size_bytes
                at += COLD_PROBE_BYTES - at % COLD_PROBE_BYTES
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno in _NOT_KNOWN:
                self._unable[os.fstat(descriptor).st_dev] = None
                return 0
            return size_bytes
        return size_bytes

    def submit(
        self, size_bytes: int, call: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        """Lets a helper thread make a system call that waits for the disk; `done` gets its result or its
        error."""
        self.parts += 1
        self.cold_bytes += size_bytes
        self._offload.submit(call, done)
