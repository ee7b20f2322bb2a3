"""File slices whose bytes are not in memory: sent by a helper thread; the loop never waits for a disk.

sendfile of pages that the kernel has to read first blocks whoever calls it. A consumer that catches up on
old data would so stall everybody else. Before a slice is sent it is asked, one byte in every 64 KiB, what of
it is in memory (preadv with RWF_NOWAIT, which refuses instead of reading); that part leaves at once, and the
rest is sent by a thread that calls sendfile on the same socket, while the connection leaves its socket
alone. What was appended a moment ago is not asked for: see `LogSlice.is_recent`.

Where a file system does not know the question every slice that is not recent goes to a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

from config.limits import COLD_PROBE_BYTES
from config.ports import Offload

T = TypeVar("T")

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_NOT_KNOWN: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class ColdReads:
    """parts: how many parts of slices went to a helper thread. cold_bytes: how many bytes those had."""

    __slots__ = ("_byte", "_offload", "_unable", "cold_bytes", "parts")

    def __init__(self, offload: Offload) -> None:
        self.parts = 0
        self.cold_bytes = 0
        self._offload = offload
        self._byte = [bytearray(1)]
        self._unable: dict[int, None] = {}
        """Devices whose file system cannot tell."""

    def warm_bytes(self, descriptor: int, position: int, size_bytes: int) -> int:
        """How many bytes from `position` on can be sent without waiting for the disk; 0 if unknown.

        A range behind the end of the file counts as warm: whoever sends it finds out at once.
        """
        if not _NOWAIT or (self._unable and os.fstat(descriptor).st_dev in self._unable):
            return 0
        end = position + size_bytes
        at = position
        try:
            while at < end:
                if not os.preadv(descriptor, self._byte, at, _NOWAIT):
                    return size_bytes
                at += COLD_PROBE_BYTES - at % COLD_PROBE_BYTES
        except BlockingIOError:
            return at - position
        except OSError as error:
            if error.errno in _NOT_KNOWN:
                self._unable[os.fstat(descriptor).st_dev] = None
                return 0
            return size_bytes
        return size_bytes

    def submit(
        self, size_bytes: int, call: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        """Has a thread make the system call that waits for the disk."""
        self.parts += 1
        self.cold_bytes += size_bytes
        self._offload.submit(call, done)
