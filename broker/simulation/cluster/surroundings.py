"""A simulated machine, and whole nodes on it: `broker.ports.surroundings.Surroundings` without a real part.

A machine has a disk, a clock and an address, which outlive the node; timers, connections, helper threads and
locks belong to one life of it. Helper threads are calls that the loop makes later: between the order and the
call, and between the call and its result, other events happen, and the power may be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from broker.admin.pages import Pages
from broker.metrics.loop_health import CollectorPauses
from broker.node import Node, StartFailed
from broker.ports.surroundings import HelperThreads, Surroundings
from broker.simulation.cluster.event_loop import HostClock, HostTimers, LifeOver
from broker.simulation.cluster.host_files import DiskTrouble, HostFiles
from broker.simulation.cluster.memory_network import HostNetwork, MemoryNetwork
from broker.simulation.seeded_random import SeededRandom
from config.broker_config import BrokerConfig
from config.limits import MIB
from config.ports import ChildProcess
from controller.raft.log_failure import MetadataLogFailed
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


class LifeEnd(msgspec.Struct, frozen=True):
    """How a life of a machine has ended. by_itself: the node has ended its process, and nobody asked it to.
    disk_errors: how many calls to the disk had failed in this life. sentence: what the node said last."""

    how: str
    by_itself: bool = False
    disk_errors: int = 0
    sentence: str = ""


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
        """What is on its disk, without what is wrong with the disk."""
        self.trouble = DiskTrouble(SeededRandom(seed, f"disk of {name}"))
        self.on_turn: Callable[[], None] = _nothing
        """Is called after each turn of the node's loop."""
        self.on_life_ended: Callable[[LifeEnd], None] = _nothing
        """Is called after the end of each life of a node."""
        self._network = network
        self._life: _Life | None = None
        self._runs_node = self.is_starting = False
        self._untold: LifeEnd | None = None

    @property
    def appends_under_way(self) -> int:
        """Writes to the log and syncs of it that a helper thread was given, and whose end the node has not
        heard of."""
        return 0 if self._life is None else self._life.appends.waiting

    def surroundings(self) -> Surroundings:
        """Those of a new life, for a node or for whoever wants to use the network from here."""
        self.trouble.begin_life()
        self._life = _Life(self, self._network)
        return self._life.surroundings()

    def start(self, config: BrokerConfig, cluster_id: str) -> Node | None:
        """Starts a node on this machine, whose directories are formatted. None if the life was over before it
        had started. Raises what the start of a node raises; its process has ended then."""
        self.ready_line, self.has_stopped = None, False
        surroundings = self.surroundings()
        self._runs_node = self.is_starting = True
        try:
            node = self.node = Node(
                surroundings, config, cluster_id, on_ready=self._ready, on_stopped=self._stopped
            )
            node.start()
            return node
        except LifeOver:
            return None
        except EndsProcess as error:
            if not self.contains(error):
                raise
            return None
        except (StartFailed, OSError) as error:
            self._end_process(LifeEnd("failed at its start", True, self.trouble.errors, str(error)))
            raise
        finally:
            self.is_starting = False
            self.tell_end()

    def _ready(self, line: str) -> None:
        self.ready_line = line

    def _stopped(self) -> None:
        self.has_stopped = True
        if self._life is not None:
            self._life.timers.call_soon(self.close)

    # The end of a life

    def stop(self) -> None:
        """Asks the node to stop in order (SIGTERM)."""
        node, life = self.node, self._life
        if node is not None and life is not None:
            life.timers.call_soon(node.stop)

    def close(self) -> None:
        """After the node has stopped in order: it writes what it has, and its process ends. It does so by
        itself in the turn after it has stopped."""
        node = self.node
        if node is None:
            self._end_process(LifeEnd("stopped"))
            return
        end = LifeEnd("stopped", node.has_failed, self.trouble.errors, node.failure)
        try:
            node.close()
        except OSError as error:
            if not self.trouble.errors:
                raise
            end = LifeEnd("stopped, with a disk that failed", False, self.trouble.errors, str(error))
        self._end_process(end)

    def kill(self) -> None:
        """Ends the process in the middle of whatever it does (SIGKILL). What was written stays, synced or
        not; the system closes its connections."""
        self._end_process(LifeEnd("been killed"))

    def cut_power(self, tear_plan: TearPlan, *, keep_names: bool = True) -> None:
        """In the middle of whatever it does. See `MemoryFiles.cut_power` for what the disk keeps."""
        if self._life is not None:
            self._life.lose_power()
        self.files.cut_power(tear_plan, keep_names=keep_names)
        self._ended(LifeEnd("lost its power"))

    def lose_disk(self) -> None:
        """The disk is broken, and another one, empty and not formatted, is in its place. For a machine whose
        node is down."""
        self.files = MemoryFiles(self.clock.wall_ms)

    def lose_directory(self, path: str) -> None:
        """The disk that is mounted there is broken, and an empty one in its place. As `lose_disk`."""
        self.files.rmtree(path)
        self.files.fsync_directory(path.rpartition("/")[0] or "/")

    def _end_process(self, end: LifeEnd) -> None:
        if self._life is not None:
            self._life.lose_process()
        self.files.kill_process()
        self._ended(end)

    def _ended(self, end: LifeEnd) -> None:
        """It is told when the node's own code is no more on the stack."""
        life, self._life, self.node = self._life, None, None
        if self._runs_node:
            self._runs_node = False
            self._untold = end
        if life is None or not (life.timers.is_in_turn or self.is_starting):
            self.tell_end()

    def tell_end(self) -> None:
        end, self._untold = self._untold, None
        if end is not None:
            self.on_life_ended(end)

    def contains(self, error: EndsProcess) -> bool:
        """Whether a node may end its process with this; then it has."""
        if not isinstance(error, Halted | MetadataLogFailed):
            return False
        self._end_process(LifeEnd("halted", True, self.trouble.errors, str(error)))
        return True

    # A machine that stands still

    @property
    def is_still(self) -> bool:
        return self._life is not None and self._life.timers.is_still

    def stand_still(self, duration_ns: int) -> None:
        """Its node makes no turn for so long (SIGSTOP), while its system goes on taking bytes."""
        if self._life is not None:
            self._life.timers.stand_still(duration_ns)

    def go_on(self) -> None:
        if self._life is not None:
            self._life.timers.go_on()


class _Life:
    """From one start of a machine to the end of the process, or of the power."""

    def __init__(self, machine: Machine, network: MemoryNetwork) -> None:
        self._machine = machine
        self.timers = HostTimers(
            network.loop,
            machine.clock,
            machine.on_turn,
            on_end=machine.tell_end,
            contains=machine.contains,
        )
        self._network = HostNetwork(network, machine.name, machine.clock, self.timers)
        self._files = HostFiles(machine.files, machine.trouble, self._wait)
        self._stalls = _Stalls(machine.clock)
        self.appends = self._thread()

    def surroundings(self) -> Surroundings:
        machine, timers = self._machine, self.timers
        return Surroundings(
            clock=machine.clock,
            timers=timers,
            random_source=machine.random,
            stalls=self._stalls,
            files=self._files,
            threads=self._threads(),
            workers=SimulatedWorkers(self._files, self._thread()),
            start_process=_no_process,
            network=self._network,
            service_manager=_NoServiceManager(),
            loggers=_NoLoggers(),
            collector_pauses=_NoPauses(machine.clock),
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
        machine = self._machine
        return SimulatedThread(self.timers, machine.random, machine.trouble, self._files)

    def _wait(self, duration_ns: int) -> None:
        """A call of the loop's own thread waits for the disk, and the loop with it."""
        self._stalls.waited_ns += duration_ns
        self.timers.stand_still(duration_ns)

    def lose_power(self) -> None:
        self._network.lose_power()
        self._end()

    def lose_process(self) -> None:
        self._network.lose_process()
        self._end()

    def _end(self) -> None:
        self.timers.end()
        self._files.end()


class SimulatedThread:
    """`config.ports.Offload`: calls one after the other, each of which takes a while."""

    def __init__(
        self, timers: HostTimers, random: SeededRandom, trouble: DiskTrouble, files: HostFiles
    ) -> None:
        self._timers = timers
        self._random = random
        self._trouble = trouble
        self._files = files
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
        duration_ns = self._random.between(LEAST_CALL_NS, MOST_CALL_NS) + self._trouble.slow_call_ns()
        self._timers.call_later(duration_ns, self._call)

    def _call(self) -> None:
        call, done = self._calls[0]
        result: object
        self._files.is_in_helper = True
        try:
            result = call()
        except Exception as error:
            result = error
        finally:
            self._files.is_in_helper = False
        self._timers.call_later(WAY_BACK_NS, partial(self._finish, done, result))
        del self._calls[0]
        if self._calls:
            self._work_on()

    def _finish(self, done: Callable[[object], None], result: object) -> None:
        self.waiting -= 1
        done(result)


class SimulatedWorkers(DirectWorkers):
    """`storage.jobs.Workers`: the jobs are done in this process, and their results come later."""

    def __init__(self, files: HostFiles, thread: SimulatedThread) -> None:
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


class _Stalls:
    """`config.ports.Stalls`: time goes on between turns, and while a call waits for a slow disk."""

    def __init__(self, clock: HostClock) -> None:
        self._clock = clock
        self.waited_ns = 0

    def stalled_ns(self) -> int:
        return self._clock.monotonic_ns() + self.waited_ns

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


class _NoPauses(CollectorPauses):
    """The collector belongs to the process that runs the simulation, and takes no simulated time."""

    def install(self) -> None:
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
