"""A loop whose time is simulated: it jumps from one call to the next, in the same order in every run.

One loop drives all machines of a simulation in one thread. Each machine has its own clock over it, which may
differ from the others', and its own timers for each life, so that nothing runs after the life that asked for
it has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

CALL_NS: Final = 1_000
"""How long each call takes by the loop's time. So time goes on even where calls bring only further calls."""

_MS: Final = 1_000_000


class ScheduledCall:
    """One call that will be made. callback: None once it was made or cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


def _nothing() -> None:
    """For a callback that nobody needs."""


class EventLoop:
    """Calls in the order of their times; those of one time in the order in which they were asked for.

    now_ns: the simulated time, since the beginning. An exception of a call goes through to whoever runs the
    loop, as it would end a process.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls = 0
        """How many were made."""
        self._heap: list[tuple[int, int, int, ScheduledCall]] = []
        self._sequence = 0

    def call_at(self, due_ns: int, callback: Callable[[], None]) -> ScheduledCall:
        """due_ns: a past time means now; of two that have passed the earlier one comes first."""
        self._sequence += 1
        event = ScheduledCall(callback)
        heappush(self._heap, (max(due_ns, self.now_ns), due_ns, self._sequence, event))
        return event

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> ScheduledCall:
        return self.call_at(self.now_ns + delay_ns, callback)

    def step(self) -> bool:
        """Makes the next call; False if there is none."""
        while self._heap:
            due_ns, _, _, event = heappop(self._heap)
            callback = event.callback
            if callback is None:
                continue
            event.callback = None
            self.now_ns = max(self.now_ns, due_ns) + CALL_NS
            self.calls += 1
            callback()
            return True
        return False

    def run_until(self, condition: Callable[[], object], *, limit_ms: int) -> None:
        """Until the condition holds after a call. Raises TimeoutError if it does not hold within so long."""
        limit_ns = self.now_ns + limit_ms * _MS
        while not condition():
            if self.now_ns > limit_ns or not self.step():
                raise TimeoutError(f"not so after {limit_ms} simulated ms, at {self.now_ns // _MS} ms")

    def run_for(self, duration_ms: int) -> None:
        end_ns = self.now_ns + duration_ms * _MS
        while self._heap and self._heap[0][0] <= end_ns:
            self.step()
        self.now_ns = max(self.now_ns, end_ns)


class HostClock:
    """`config.ports.Clock` of one machine.

    began_wall_ms: what it takes for the time of day when the simulation begins. up_ms: for how long it says
    that it has been running by then.
    """

    def __init__(self, loop: EventLoop, *, began_wall_ms: int, up_ms: int = 0) -> None:
        self._loop = loop
        self._began_wall_ms = began_wall_ms
        self._up_ns = up_ms * _MS

    def wall_ms(self) -> int:
        return self._began_wall_ms + self._loop.now_ns // _MS

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // _MS

    def monotonic_ns(self) -> int:
        return self._up_ns + self._loop.now_ns


class HostTimers:
    """`config.ports.Timers` of one life of a machine. After `end` nothing that was asked for happens.

    on_turn: is called after each call that was asked for.
    """

    def __init__(self, loop: EventLoop, clock: HostClock, on_turn: Callable[[], None] = _nothing) -> None:
        self._loop = loop
        self._clock = clock
        self._on_turn = on_turn
        self._ended = False

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        return self.call_later(deadline_ms * _MS - self._clock.monotonic_ns(), callback)

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> ScheduledCall:
        """A delay below 0 means now."""
        return self._loop.call_later(delay_ns, lambda: self._run(callback))

    def _run(self, callback: Callable[[], None]) -> None:
        if not self._ended:
            callback()
            self._on_turn()

    def end(self) -> None:
        self._ended = True
