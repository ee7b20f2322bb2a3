"""A loop whose time is simulated: it jumps from one call to the next, in the same order in every run.

One loop drives all machines of a simulation in one thread. Each machine has its own clock over it, which may
differ from the others', and its own timers for each life, so that nothing runs after the life that asked for
it has ended. All that a machine does is a turn of these timers: so a machine that stands still does nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from protocol.errors import EndsProcess

CALL_NS: Final = 1_000
"""How long each call takes by the loop's time. So time goes on even where calls bring only further calls."""

_MS: Final = 1_000_000
_NEVER_NS: Final = 1 << 200
_MILLION: Final = 1_000_000


class LifeOver(BaseException):
    """The process or the power of a machine ends within a call, and nothing of the process goes on. No code
    of the product catches it, as none survives the real thing. Whoever raises it has ended the life
    before."""


class ScheduledCall:
    """One call that will be made. callback: None once it was made or cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def run(self) -> None:
        """Its time has come."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


def _nothing() -> None:
    """For a callback that nobody needs."""


def _never(_error: EndsProcess) -> bool:
    return False


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
        event = ScheduledCall(callback)
        self.schedule(due_ns, event)
        return event

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> ScheduledCall:
        return self.call_at(self.now_ns + delay_ns, callback)

    def schedule(self, due_ns: int, event: ScheduledCall) -> None:
        """As `call_at`."""
        self._sequence += 1
        heappush(self._heap, (max(due_ns, self.now_ns), due_ns, self._sequence, event))

    def step(self) -> bool:
        """Makes the next call; False if there is none."""
        return self._step_before(_NEVER_NS)

    def _step_before(self, end_ns: int) -> bool:
        """Makes the next call that is due by then; False if there is none."""
        heap = self._heap
        while heap and heap[0][0] <= end_ns:
            when_ns, _, _, event = heappop(heap)
            if event.callback is None:
                continue
            self.now_ns = max(self.now_ns, when_ns) + CALL_NS
            self.calls += 1
            event.run()
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
        while self._step_before(end_ns):
            pass
        self.now_ns = max(self.now_ns, end_ns)


class HostClock:
    """`config.ports.Clock` of one machine.

    began_wall_ms: what it takes for the time of day when the simulation begins. up_ms: for how long it says
    that it has been running by then. It may run at another rate than the world's time, and its time of day
    may be set; its monotonic time never goes back.
    """

    def __init__(self, loop: EventLoop, *, began_wall_ms: int, up_ms: int = 0) -> None:
        self._loop = loop
        self._rate = _MILLION
        """Its nanoseconds in a million of the world's."""
        self._since_ns = loop.now_ns
        """Since then it runs at this rate."""
        self._ran_ns = up_ms * _MS
        """What it said by then."""
        self._wall_ns = (began_wall_ms - up_ms) * _MS - self._since_ns
        """Its time of day when its monotonic time was 0."""

    def wall_ms(self) -> int:
        return (self._wall_ns + self.monotonic_ns()) // _MS

    def monotonic_ms(self) -> int:
        return (self._ran_ns + (self._loop.now_ns - self._since_ns) * self._rate // _MILLION) // _MS

    def monotonic_ns(self) -> int:
        return self._ran_ns + (self._loop.now_ns - self._since_ns) * self._rate // _MILLION

    def until_ns(self, deadline_ns: int) -> int:
        """When it will say so, by the world's time, if it goes on at its rate."""
        left_ns = deadline_ns - self._ran_ns
        return self._since_ns - (-left_ns * _MILLION // self._rate)

    def run_at(self, parts_per_million: int) -> None:
        """From now on it makes so many nanoseconds in a million of the world's. What waits for a moment of
        this clock comes never too early, but at first late by as much as it has become faster."""
        self._ran_ns = self.monotonic_ns()
        self._since_ns = self._loop.now_ns
        self._rate = parts_per_million

    def jump(self, by_ms: int) -> None:
        """Its time of day is set forwards or backwards."""
        self._wall_ns += by_ms * _MS


class HostCall(ScheduledCall):
    """A call that one life of a machine has asked for. deadline_ns: a moment of its clock before which the
    call must not come; 0 for none."""

    __slots__ = ("_timers", "deadline_ns")

    def __init__(self, timers: HostTimers, callback: Callable[[], None], deadline_ns: int = 0) -> None:
        super().__init__(callback)
        self._timers = timers
        self.deadline_ns = deadline_ns

    def run(self) -> None:
        self._timers.ring(self)


class HostTimers:
    """`config.ports.Timers` of one life of a machine. After `end` nothing that was asked for happens.

    on_turn: is called after each call that was asked for. on_end: is called in its place if the life has
    ended within the call. contains: whether an error of a call means that the process has ended by itself;
    what it does not take goes on to whoever runs the loop.
    """

    def __init__(
        self,
        loop: EventLoop,
        clock: HostClock,
        on_turn: Callable[[], None] = _nothing,
        *,
        on_end: Callable[[], None] = _nothing,
        contains: Callable[[EndsProcess], bool] = _never,
    ) -> None:
        self.is_in_turn = False
        self._loop = loop
        self._clock = clock
        self._on_turn = on_turn
        self._on_end = on_end
        self._contains = contains
        self._ended = False
        self._still_until_ns = 0
        """Until then the machine makes no turn."""
        self._held: deque[HostCall] = deque()
        """Whose time came while it stood still, in order."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.schedule(self._loop.now_ns, HostCall(self, callback))

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        call = HostCall(self, callback, deadline_ms * _MS)
        self._loop.schedule(self._clock.until_ns(call.deadline_ns), call)
        return call

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> ScheduledCall:
        """A delay below 0 means now."""
        call = HostCall(self, callback)
        self._loop.schedule(self._loop.now_ns + delay_ns, call)
        return call

    def enter(self, callback: Callable[[], None]) -> None:
        """Something comes to the machine from outside: a turn of it, at once unless it stands still. Not to
        be called within a turn."""
        self.ring(HostCall(self, callback))

    def ring(self, call: HostCall) -> None:
        """The time of a call has come."""
        if self._ended:
            return
        if call.deadline_ns and self._clock.monotonic_ns() < call.deadline_ns:  # the clock has become slower
            self._loop.schedule(self._clock.until_ns(call.deadline_ns), call)
        elif self._held or self._loop.now_ns < self._still_until_ns:
            self._hold(call)
        else:
            self._turn(call)

    def _turn(self, call: HostCall) -> None:
        callback, call.callback = call.callback, None
        if callback is None:
            return
        self.is_in_turn = True
        try:
            callback()
        except LifeOver:
            pass
        except EndsProcess as error:
            if self._ended or not self._contains(error):
                raise
        finally:
            self.is_in_turn = False
        if self._ended:
            self._on_end()
        else:
            self._on_turn()

    # A machine that stands still

    @property
    def is_still(self) -> bool:
        return self._loop.now_ns < self._still_until_ns

    def stand_still(self, duration_ns: int) -> None:
        """The machine makes no turn for so long, and then all those whose time has come meanwhile."""
        self._still_until_ns = max(self._still_until_ns, self._loop.now_ns + duration_ns)

    def go_on(self) -> None:
        if self.is_still:
            self._still_until_ns = self._loop.now_ns
            self._loop.call_later(0, self._release)

    def _hold(self, call: HostCall) -> None:
        if not self._held:
            self._loop.call_at(self._still_until_ns, self._release)
        self._held.append(call)

    def _release(self) -> None:
        """Makes the first of the calls that were held back; the others come after it."""
        if self._ended or not self._held:
            return
        if self.is_still:
            self._loop.call_at(self._still_until_ns, self._release)
            return
        self._turn(self._held.popleft())
        if self._held:
            self._loop.call_later(0, self._release)

    def end(self) -> None:
        self._ended = True
        self._held.clear()
