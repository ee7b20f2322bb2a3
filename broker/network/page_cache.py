"""How much of a file is in memory, as the kernel tells it without reading any of it: cachestat(2), Linux 6.5.

The same question byte by byte (preadv with RWF_NOWAIT) begins to read what it does not find, and a fast disk
has that there before the next byte is asked for: up to every second cold file was called warm by it.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

_SYSTEM_CALL: Final = 451
"""The number of the cachestat system call, on every architecture but Alpha."""


class PageCache:
    """Asks the kernel how much of a file is in memory. Only one thread may use it, because each call uses the
    same memory for its arguments and results."""

    __slots__ = ("_cached_pages", "is_told")

    def __init__(self) -> None:
        self.is_told = True
        """Whether the kernel answers the call; False on an older kernel, and in a sandbox that forbids it."""
        self._cached_pages: Callable[[int, int, int], int] | None = None

    def lacks(self, descriptor: int, position: int, size_bytes: int) -> bool:
        """Whether a part of these bytes is surely not in memory; False too where the kernel does not tell.

        Pages that are being read at the moment count as there, bytes behind the end of the file do not.
        """
        if not self.is_told:
            return False
        if self._cached_pages is None:
            self._cached_pages = _cachestat()
        there = self._cached_pages(descriptor, position, size_bytes)
        if there < 0:
            self.is_told = False
            return False
        return there <= (position + size_bytes - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE


def _cachestat() -> Callable[[int, int, int], int]:
    """A function (descriptor, position, bytes) that returns the number of pages in memory; below 0 if the
    kernel refuses."""
    import ctypes  # takes some milliseconds; only a broker that sends old data needs it

    call = ctypes.PyDLL(None).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    call.restype = ctypes.c_long
    span = (ctypes.c_uint64 * 2)()
    counts = (ctypes.c_uint64 * 5)()  # cached, dirty, in writeback, evicted, recently evicted

    def cached_pages(descriptor: int, position: int, size_bytes: int) -> int:
        span[0], span[1] = position, size_bytes
        if call(_SYSTEM_CALL, descriptor, span, counts, 0) != 0:
            return -1
        return counts[0]

    return cached_pages
