"""What the product's driver and disk code get as their outside world on a simulated machine (`config.ports`).

    MachineClock      the machine's own clock, which may drift
    MachineTimers     deadlines and later turns of the loop, as events of the world's queue
    MachineOffload    helper threads: a call begins in the order of the calls, takes a seeded time, has its
                      effect, and a moment later its result reaches the loop
    MachineFiles      files in memory, on which the power can fail before any call that changes something

All belong to one life of a machine. What they have posted when the life ends is forgotten: a call of a helper
thread that was under way has then had its effect, or has not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.simulation.quorum.machine import LARGEST_RINGS
from broker.simulation.verdict import Violation
from storage.faulty_files import FaultyFiles
from storage.memory_files import MemoryFiles

if TYPE_CHECKING:
    from broker.simulation.quorum.driver_machine import DriverMachine

__all__ = ["MachineClock", "MachineFiles", "MachineOffload", "MachineTimers", "PowerCut"]

T = TypeVar("T")

WALL_BASE_MS: Final = 1_700_000_000_000
LONGEST_TURN: Final = 30
"""So many microseconds at most pass between two turns of a loop."""

_CHANGES: Final = frozenset(
    {
        "write",
        "truncate",
        "fdatasync",
        "fsync",
        "makedirs",
        "rename",
        "unlink",
        "rmtree",
        "fsync_directory",
    }
)
_SYNCS: Final = frozenset({"fdatasync", "fsync", "fsync_directory"})


class PowerCut(BaseException):
    """The power of a machine fails within a call: nothing of the process goes on. No code of the product
    catches it, as none survives the real thing."""


class MachineClock:
    """`config.ports.Clock` of one machine."""

    def __init__(self, machine: DriverMachine) -> None:
        self._machine = machine

    def wall_ms(self) -> int:
        return WALL_BASE_MS + self._machine.now_ms()

    def monotonic_ms(self) -> int:
        return self._machine.now_ms()

    def monotonic_ns(self) -> int:
        return self._machine.now_ms() * 1_000_000


class MachineTimer:
    """One promised call; None once it ran or was cancelled."""

    __slots__ = ("callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class MachineTimers:
    """`config.ports.Timers` of one life."""

    def __init__(self, machine: DriverMachine) -> None:
        self._machine = machine
        self._life = machine.life
        self._timers: dict[MachineTimer, None] = {}
        self._soon: deque[Callable[[], None]] = deque()
        self._rings = 0
        self._rang_at = 0

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> MachineTimer:
        timer = MachineTimer(deadline_ms, callback)
        self._timers[timer] = None
        self._post(timer)
        return timer

    def _post(self, timer: MachineTimer) -> None:
        machine = self._machine
        machine.world.post(machine.delay_until(timer.deadline_ms), self._due, timer)

    def _due(self, timer: MachineTimer) -> None:
        """The loop sees it in its next turn, unless it was cancelled by then."""
        if timer.callback is None:
            self._timers.pop(timer, None)
        elif timer in self._timers:
            self._machine.on_loop(self._life, partial(self._ring, timer))

    def _ring(self, timer: MachineTimer) -> None:
        callback = timer.callback
        if callback is None or timer not in self._timers:
            return
        if self._machine.now_ms() < timer.deadline_ms:  # the clock has become slower
            self._post(timer)
            return
        del self._timers[timer]
        timer.callback = None
        now = self._machine.world.now
        self._rings = self._rings + 1 if now == self._rang_at else 0
        self._rang_at = now
        if self._rings > LARGEST_RINGS:
            raise Violation(
                "a node that waits does not spin", f"{self._machine} is called at {now} again and again"
            )
        callback()

    def clock_changed(self) -> None:
        """The clock runs at another rate: each deadline lies at another moment of the world."""
        for timer in [each for each in self._timers if each.callback is not None]:
            self._post(timer)

    def call_soon(self, callback: Callable[[], None]) -> None:
        if not self._soon:
            machine = self._machine
            delay = 1 + machine.random.below(LONGEST_TURN)
            machine.world.post(delay, machine.on_loop, self._life, self._turn)
        self._soon.append(callback)

    def _turn(self) -> None:
        """What was put off until now; what is put off meanwhile is for the next turn."""
        ready, self._soon = self._soon, deque()
        for callback in ready:
            if self._machine.life != self._life:
                return
            callback()


class MachineOffload:
    """`config.ports.Offload` of one life: so many helper threads."""

    def __init__(self, machine: DriverMachine, threads: int, *, largest_delay: int = 0) -> None:
        """largest_delay: so many microseconds more than a sync a call may take, and now and then it does."""
        self._machine = machine
        self._largest_delay = largest_delay
        self._life = machine.life
        self._free = threads
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._waiting.append((call, done))
        self._begin()

    def _begin(self) -> None:
        world = self._machine.world
        while self._free and self._waiting:
            self._free -= 1
            delay = world.sync_time() + (world.stall_time() if world.stalls() else 0)
            if self._largest_delay and self._machine.random.below(4) == 0:
                delay += self._machine.random.below(self._largest_delay)
            world.post(delay, self._work, *self._waiting.popleft())

    def _work(self, call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        machine = self._machine
        if machine.life != self._life:
            machine.world.coverage.count("helper's call lost before its effect")
            return
        result = machine.in_helper(call)
        if machine.life != self._life:
            return
        self._free += 1
        machine.world.post(1 + machine.random.below(LONGEST_TURN), self._end, done, result)
        self._begin()

    def _end(self, done: Callable[[Any], None], result: object) -> None:
        if self._machine.life != self._life:
            self._machine.world.coverage.count("helper's call lost after its effect")
        self._machine.on_loop(self._life, lambda: done(result))


class MachineFiles(FaultyFiles):
    """`config.ports.Files` of one machine, over `disk`. Each change may be the one before which the power
    fails; `has_synced` says that something has become durable since somebody looked."""

    def __init__(self, disk: MemoryFiles, before_change: Callable[[], None]) -> None:
        super().__init__(disk)
        self._before_change = before_change
        self.has_synced = True

    def ask(self, call: str, path: str) -> int | None:
        if call in _CHANGES:
            self._before_change()
            if call in _SYNCS:
                self.has_synced = True
        return super().ask(call, path)

    def sync_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                file = self.open(path)
            except FileNotFoundError:
                continue
            file.fdatasync()
            file.close()

    def write_atomically(self, path: str, data: bytes) -> None:
        """In the steps in which a file system takes it: the power may fail between any two of them."""
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write([data], 0)
        file.fsync()
        file.close()
        self.rename(path + ".tmp", path)
        self.fsync_directory(path.rpartition("/")[0])
