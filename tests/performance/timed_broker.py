"""A broker that tells how much processor time each step of its loop takes, where that is much.

A step is what runs from the loop without giving it back: what arrived on a connection, a turn of one, a
timer.
Lines on standard error: `STEP 12.3 ms in LoopTimers.call_soon Lane._run`.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from broker.network.connection import Connection
from broker.ports.timers import LoopTimers

TOLD_ABOVE_NS: Final = 3_000_000


class Steps:
    """Measures the outermost of the calls that it wraps."""

    def __init__(self) -> None:
        self._is_within = False

    def timed(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            if self._is_within:
                return function(*arguments)
            self._is_within = True
            began_ns = time.thread_time_ns()
            try:
                return function(*arguments)
            finally:
                self._is_within = False
                took_ns = time.thread_time_ns() - began_ns
                if took_ns > TOLD_ABOVE_NS:
                    print(f"STEP {took_ns / 1e6:.1f} ms in {what}", file=sys.stderr, flush=True)

        return run

    def wrap(self) -> None:
        for name in ("received", "turn"):
            setattr(Connection, name, self.timed(f"Connection.{name}", getattr(Connection, name)))
        call_soon, call_at = LoopTimers.call_soon, LoopTimers.call_at

        def timed_call_soon(timers: LoopTimers, callback: Callable[[], None]) -> None:
            call_soon(timers, self.timed(_name(callback), callback))

        def timed_call_at(timers: LoopTimers, deadline_ms: int, callback: Callable[[], None]) -> Any:
            return call_at(timers, deadline_ms, self.timed(_name(callback), callback))

        setattr(LoopTimers, "call_soon", timed_call_soon)  # noqa: B010
        setattr(LoopTimers, "call_at", timed_call_at)  # noqa: B010


def _name(callback: Any) -> str:
    return str(getattr(getattr(callback, "func", callback), "__qualname__", callback))


if __name__ == "__main__":
    Steps().wrap()
    sys.argv[0] = "broker"
    runpy.run_module("broker", run_name="__main__", alter_sys=True)
