"""What befalls disks and clocks: calls fail, a disk is full or slow, clocks drift and jump.

A node that has met a failing call may have given the directory up, or have ended its process. Both last until
it is started again, so when the disk is well again the node is stopped and started, as its operator does.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.host_files import CHANGES, READS, SYNCS, WRITES, DiskFault
from broker.simulation.cluster.machine_faults import drawn_duration_ms, whose_turn
from broker.simulation.cluster.simulated_node import DATA, SimulatedNode
from broker.simulation.cluster.surroundings import Machine
from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["CLOCK_VERBS", "DISK_VERBS"]

LONGEST_TROUBLE_MS: Final = 20_000
RESTART_MS: Final = 1_000
MOST_CALL_MS: Final = 500
"""So long at most takes a call of a slow disk."""
MOST_DRIFT: Final = 50_000
"""By so many parts per million at most a clock is too fast or too slow."""
LONGEST_JUMP_MS: Final = 3_600_000
_MS: Final = 1_000_000
_MILLION: Final = 1_000_000


def _fail(run: ClusterRun, step: ClusterStep, make: Callable[[str, SeededRandom], DiskFault]) -> str | None:
    """Has calls below one of a node's log directories fail for a while."""
    node = whose_turn(run, step)
    if node is None or node.machine.trouble.faults or not run.budget.may_fail(node):
        return None
    random = step.random()
    fault = make(random.one_of(node.place.properties.get("log.dirs", DATA).split(",")), random)
    duration_ms = drawn_duration_ms(random, most_ms=LONGEST_TROUBLE_MS)
    node.machine.trouble.faults.append(fault)
    run.world.faults.begin(step.verb, duration_ms, partial(_repair, run, node, fault))
    return f"{node}, {fault.directory}: {step.verb} for {duration_ms} ms"


def _repair(run: ClusterRun, node: SimulatedNode, fault: DiskFault) -> None:
    trouble = node.machine.trouble
    trouble.faults.remove(fault)
    if fault.struck:
        run.world.coverage.add({"calls to a disk that failed": fault.struck})
    if node.is_up and trouble.errors and node.node is not None and not node.node.is_stopping:
        run.world.restarts.after(node, RESTART_MS)
        node.machine.stop()


def _calls_fail(calls: frozenset[str], directory: str, random: SeededRandom) -> DiskFault:
    return DiskFault(directory, calls)


def _one_call_fails(directory: str, random: SeededRandom) -> DiskFault:
    calls = random.one_of((READS, WRITES, SYNCS, CHANGES))
    return DiskFault(directory, calls, left=1, part_probability=0.3)


def _full(directory: str, random: SeededRandom) -> DiskFault:
    return DiskFault(directory, frozenset({"write", "makedirs"}), errno.ENOSPC, part_probability=0.3)


def _slow_disk(run: ClusterRun, step: ClusterStep) -> str | None:
    node = whose_turn(run, step)
    if node is None or node.machine.trouble.slowness_ns is not None:
        return None
    random, trouble = step.random(), node.machine.trouble
    most_ms = drawn_duration_ms(random, 1, MOST_CALL_MS)
    duration_ms = drawn_duration_ms(random)
    trouble.slowness_ns = (0, most_ms * _MS)
    run.world.faults.begin(step.verb, duration_ms, partial(setattr, trouble, "slowness_ns", None))
    return f"each call to the disk of {node} takes up to {most_ms} ms, for {duration_ms} ms"


def _machine(run: ClusterRun, step: ClusterStep) -> Machine:
    """Of a node or of a client."""
    world = run.world
    machines = [node.machine for node in world.nodes.values()]
    machines += [client.machine for client in world.clients]
    return machines[step.whom % len(machines)]


def _drift(run: ClusterRun, step: ClusterStep) -> str | None:
    random, machine = step.random(), _machine(run, step)
    rate = _MILLION + random.between(-MOST_DRIFT, MOST_DRIFT)
    duration_ms = drawn_duration_ms(random)
    machine.clock.run_at(rate)
    run.world.faults.begin(step.verb, duration_ms, partial(machine.clock.run_at, _MILLION))
    return f"the clock of {machine.name} runs at {rate / 1e4:.2f} % for {duration_ms} ms"


def _jump(run: ClusterRun, step: ClusterStep) -> str | None:
    """The time of day is wrong for a while, and is then set right."""
    random, machine = step.random(), _machine(run, step)
    by_ms = drawn_duration_ms(random, 1_000, LONGEST_JUMP_MS) * random.one_of((-1, 1))
    duration_ms = drawn_duration_ms(random)
    machine.clock.jump(by_ms)
    run.world.faults.begin(step.verb, duration_ms, partial(machine.clock.jump, -by_ms))
    return f"the time of day of {machine.name} is wrong by {by_ms / 1e3:+.1f} s for {duration_ms} ms"


def _failing(name: str, make: Callable[[str, SeededRandom], DiskFault], weight: int) -> tuple[str, Verb]:
    return name, Verb(partial(_fail, make=make), weight, healing(name))


DISK_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    dict(
        (
            _failing("reads fail", partial(_calls_fail, READS), 2),
            _failing("writes fail", partial(_calls_fail, WRITES), 2),
            _failing("syncs fail", partial(_calls_fail, SYNCS), 2),
            _failing("one call fails", _one_call_fails, 4),
            _failing("disk full", _full, 3),
            ("slow disk", Verb(_slow_disk, 5, healing("slow disk"))),
        )
    )
)

CLOCK_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "clock drifts": Verb(_drift, 4, healing("clock drifts")),
        "clock jumps": Verb(_jump, 3, healing("clock jumps")),
    }
)
