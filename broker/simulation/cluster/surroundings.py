"""A simulated machine, and whole nodes on it: `broker.ports.surroundings.Surroundings` without a real part.

A machine has a disk, a clock and an address, which outlive the node; timers, connections, helper threads and
locks belong to one life of it. Helper threads are calls that the loop makes later: between the order and the
call, and between the call and its result, other events happen, and the power may be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from broker.admin.pages import Pages
from broker.metrics.loop_health import CollectorPauses
from broker.node import Node
from broker.ports.surroundings import HelperThreads, Surroundings
from broker.simulation.cluster.event_loop import HostClock, HostTimers
from broker.simulation.cluster.memory_network import HostNetwork, MemoryNetwork
from broker.simulation.seeded_random import SeededRandom
from config.broker_config import BrokerConfig
from config.limits import MIB
from config.ports import ChildProcess
from protocol.errors import EndsProcess
from protocol.serving.request_context import RequestContext
from storage.background_task_lanes import one_after_the_other
from storage.jobs import DirectWorkers, Job, JobFailed, P, R
from storage.memory_files import MemoryFiles, TearPlan

T = TypeVar("T")

BEGAN_WALL_MS: Final = 1_700_000_000_000
"""The time of day at which simulations begin: in November 2023."""
SKEW_MS: Final = 500
"""By so much at most the machines' clocks differ from it."""

LEAST_CALL_NS: Final = 20_000
MOST_CALL_NS: Final = 2_000_000
"""How long a call of a helper thread takes."""
WAY_BACK_NS: Final = 20_000
"""How long its result takes to the loop: the same for all, so results come in the order of the calls."""

_DESCRIPTORS: Final = 100_000
_MEMORY_BYTES: Final = 1024 * MIB


class Halted(EndsProcess):
    """A node has ended its process, with this last sentence."""


class Machine:
    """One machine and the lives of the node on it. name: its address in the network."""

    def __init__(self, network: MemoryNetwork, name: str, seed: int) -> None:
        self.name = name
        self.node: Node | None = None
        self.ready_line: str | None = None
        """What the node said when it was ready, in this life."""
        self.has_stopped = False
        self.random = SeededRandom(seed, f"machine {name}")
        skew_ms = self.random.between(-SKEW_MS, SKEW_MS)
        self.clock = HostClock(
            network.loop, began_wall_ms=BEGAN_WALL_MS + skew_ms, up_ms=self.random.between(1, 1_000_000)
        )
        self.files = MemoryFiles(self.clock.wall_ms)
        self.on_turn: Callable[[], None] = _nothing
        """Is called after each turn of the node's loop."""
        self._network = network
        self._life: _Life | None = None

    @property
    def appends_under_way(self) -> int:
        """Writes to the log and syncs of it that a helper thread was given, and whose end the node has not
        heard of."""
        return 0 if self._life is None else self._life.appends.waiting

    def surroundings(self) -> Surroundings:
        """Those of a new life, for a node or for whoever wants to use the network from here."""
        self._life = _Life(self, self._network)
        return self._life.surroundings()

    def start(self, config: BrokerConfig, cluster_id: str) -> Node:
        """Starts a node on this machine, whose directories are formatted. Raises what its start raises."""
        self.ready_line, self.has_stopped = None, False
        self.node = Node(
            self.surroundings(), config, cluster_id, on_ready=self._ready, on_stopped=self._stopped
        )
        self.node.start()
        return self.node

    def _ready(self, line: str) -> None:
        self.ready_line = line

    def _stopped(self) -> None:
        self.has_stopped = True

    def close(self) -> None:
        """After the node has stopped in order: it writes what it has, and its process ends."""
        if self.node is not None:
            self.node.close()
        if self._life is not None:
            self._life.lose_process()
        self._life = self.node = None

    def cut_power(self, tear_plan: TearPlan, *, keep_names: bool = True) -> None:
        """In the middle of whatever it does. See `MemoryFiles.cut_power` for what the disk keeps."""
        if self._life is not None:
            self._life.lose_power()
        self._life = self.node = None
        self.files.cut_power(tear_plan, keep_names=keep_names)


class _Life:
    """From one start of a machine to the end of the process, or of the power."""

    def __init__(self, machine: Machine, network: MemoryNetwork) -> None:
        self._machine = machine
        self._timers = HostTimers(network.loop, machine.clock, machine.on_turn)
        self._network = HostNetwork(network, machine.name, machine.clock, self._timers)
        self._collector_pauses = CollectorPauses(machine.clock)
        self.appends = self._thread()

    def surroundings(self) -> Surroundings:
        machine, timers = self._machine, self._timers
        return Surroundings(
            clock=machine.clock,
            timers=timers,
            random_source=machine.random,
            stalls=_NoStalls(machine.clock),
            files=machine.files,
            threads=self._threads(),
            workers=SimulatedWorkers(machine.files, self._thread()),
            start_process=_no_process,
            network=self._network,
            service_manager=_NoServiceManager(),
            loggers=_NoLoggers(),
            collector_pauses=self._collector_pauses,
            watch_loop=_NoWatch,
            serve_pages=_NoPages,
            halt=_halt,
            descriptor_limit=_DESCRIPTORS,
            available_memory_bytes=_MEMORY_BYTES,
            close=_nothing,
        )

    def _threads(self) -> HelperThreads:
        return HelperThreads(
            files=self._thread(),
            quorum=self._thread(),
            cold_reads=self._thread(),
            appends=self.appends,
            codecs=self._thread(),
            policies=self._thread(),
            side_by_side=one_after_the_other,
        )

    def _thread(self) -> SimulatedThread:
        return SimulatedThread(self._timers, self._machine.random)

    def lose_power(self) -> None:
        self._timers.end()
        self._network.lose_power()
        self._collector_pauses.remove()

    def lose_process(self) -> None:
        self._timers.end()
        self._network.lose_process()
        self._collector_pauses.remove()


class SimulatedThread:
    """`config.ports.Offload`: calls one after the other, each of which takes a while."""

    def __init__(self, timers: HostTimers, random: SeededRandom) -> None:
        self._timers = timers
        self._random = random
        self._calls: list[tuple[Callable[[], object], Callable[[object], None]]] = []
        self.waiting = 0
        """Calls of whose end the loop has not heard."""

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """See `config.ports.Offload`."""
        self.waiting += 1
        self._calls.append((call, done))  # type: ignore[arg-type]
        if len(self._calls) == 1:
            self._work_on()

    def _work_on(self) -> None:
        self._timers.call_later(self._random.between(LEAST_CALL_NS, MOST_CALL_NS), self._call)

    def _call(self) -> None:
        call, done = self._calls[0]
        result: object
        try:
            result = call()
        except Exception as error:
            result = error
        self._timers.call_later(WAY_BACK_NS, partial(self._finish, done, result))
        del self._calls[0]
        if self._calls:
            self._work_on()

    def _finish(self, done: Callable[[object], None], result: object) -> None:
        self.waiting -= 1
        done(result)


class SimulatedWorkers(DirectWorkers):
    """`storage.jobs.Workers`: the jobs are done in this process, and their results come later."""

    def __init__(self, files: MemoryFiles, thread: SimulatedThread) -> None:
        super().__init__(files)
        self._thread = thread

    def submit(
        self,
        job: Job[P, R],
        plan: P,
        done: Callable[[R | JobFailed], None],
        *,
        bytes_per_second: float = 0,
    ) -> None:
        """See `storage.jobs.Workers`."""

        def came(result: R | JobFailed | BaseException) -> None:
            if isinstance(result, BaseException) and not isinstance(result, JobFailed):
                raise result
            done(result)

        self._thread.submit(lambda: self.run_all(job, [plan], 1, _nothing)[0], came)


class _NoStalls:
    """`config.ports.Stalls`: a simulated disk answers at once."""

    def __init__(self, clock: HostClock) -> None:
        self.stalled_ns = clock.monotonic_ns

    def ran_ns(self) -> int:
        return 0


class _NoServiceManager:
    """`config.ports.ServiceManager`: there is none."""

    def notify(self, *lines: str) -> bool:
        return False


class _NoLoggers:
    """`config.log_levels.Loggers`: levels are those of the process that runs the simulation."""

    def levels(self) -> dict[str, str]:
        return {"root": "INFO"}

    def set_level(self, name: str, level: str) -> None:
        """Has no effect."""

    def inherit_level(self, name: str) -> None:
        """Has no effect."""


class _NoWatch:
    """`broker.ports.surroundings.LoopWatch`: no turn takes any time."""

    slow_turns = 0

    def __init__(self, current: Callable[[], RequestContext | None]) -> None:
        pass

    def start(self) -> None:
        """Has no effect."""

    def stop(self) -> None:
        """Has no effect."""


class _NoPages:
    """`broker.ports.surroundings.PageServer`: nobody looks."""

    def __init__(self, pages: Pages) -> None:
        pass

    def open(self, host: str, port: int) -> None:
        """Has no effect."""

    def close(self) -> None:
        """Has no effect."""


def _no_process(command: Sequence[str]) -> ChildProcess:
    raise OSError("a simulated machine runs no other programs")


def _halt(sentence: str) -> None:
    raise Halted(sentence)


def _nothing(*_: object) -> None:
    """For callbacks that nobody needs."""
