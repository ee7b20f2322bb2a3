"""The machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """`config.ports.Clock` over the operating system; each reading costs some 50 ns."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)
    """The operating system's own function: it is asked several times for each request."""
