"""The machine's clocks, and what threads wait for by Linux's account of them.

`/proc/<process>/task/<thread>/schedstat` holds three numbers: for how many nanoseconds the thread has run,
for how many it was ready to run and had no processor (also because a cgroup's share was used up), and how
often it ran. In the rest of the time it has slept. A thread that is in a call on a file sleeps because it
waits for the disk, or for the interpreter's lock, which the loop's thread holds.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final

_LARGEST_BYTES: Final = 128


class SystemClock:
    """`config.ports.Clock` over the operating system; each reading costs some 50 ns."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """The operating system's own function: it is asked several times for each request."""


class ThreadStalls:
    """`config.ports.Stalls`. It must be made in the thread of the loop.

    A reading costs some 6 µs in that thread, and 30 µs in others.
    """

    def __init__(self) -> None:
        self._loop_thread = threading.get_native_id()
        self._loop_account = _opened(f"/proc/self/task/{self._loop_thread}/schedstat")

    def stalled_ns(self) -> int:
        account = self._loop_account
        if account < 0:
            return time.monotonic_ns()
        waited_ns = _waited_ns(account)
        if threading.get_native_id() != self._loop_thread:
            own = _opened("/proc/thread-self/schedstat")
            if own >= 0:
                try:
                    waited_ns += _waited_ns(own)
                finally:
                    os.close(own)
        return time.monotonic_ns() - time.thread_time_ns() - waited_ns

    ran_ns = staticmethod(time.thread_time_ns)

    def close(self) -> None:
        """Closes the account. From then on all time that passes counts as stalled."""
        account, self._loop_account = self._loop_account, -1
        if account >= 0:
            os.close(account)


def _opened(path: str) -> int:
    """Opens the account of a thread. Returns the descriptor; -1 where the system has no such file."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _waited_ns(account: int) -> int:
    """How long the thread has waited for a processor."""
    fields = os.pread(account, _LARGEST_BYTES, 0).split()
    return int(fields[1]) if len(fields) > 1 else 0
