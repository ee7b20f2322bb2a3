"""What befalls the nodes' machines: processes are killed and paused, the power fails, disks are lost.

A node that goes down is started again after a time that the step draws; calm starts it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["MACHINE_VERBS", "drawn_duration_ms", "whose_turn"]

SHORTEST_MS: Final = 200
LONGEST_MS: Final = 40_000
_MS: Final = 1_000_000


def drawn_duration_ms(random: SeededRandom, least_ms: int = SHORTEST_MS, most_ms: int = LONGEST_MS) -> int:
    """Short ones as often as long ones, by orders of magnitude: half of them are shorter than the geometric
    mean of both ends."""
    most_ms = min(most_ms, least_ms << random.below((most_ms // least_ms).bit_length() + 1))
    return random.between(least_ms, most_ms)


def whose_turn(run: ClusterRun, step: ClusterStep) -> SimulatedNode | None:
    """The running node that a step is meant for."""
    nodes = [node for node in run.world.nodes.values() if node.is_up]
    return nodes[step.whom % len(nodes)] if nodes else None


def _kill(run: ClusterRun, step: ClusterStep) -> str | None:
    node = whose_turn(run, step)
    if node is None:
        return None
    down_ms = drawn_duration_ms(step.random())
    run.world.restarts.after(node, down_ms)
    node.machine.kill()
    return f"kill -9 of {node}, which starts again after {down_ms} ms"


def _stop(run: ClusterRun, step: ClusterStep) -> str | None:
    """A controlled shutdown, as `barnabas stop` asks for it."""
    node = whose_turn(run, step)
    if node is None or node.node is None or node.node.is_stopping or node.machine.is_still:
        return None
    down_ms = drawn_duration_ms(step.random())
    run.world.restarts.after(node, down_ms)
    node.machine.stop()
    return f"{node} is asked to stop, and starts again {down_ms} ms after that"


def _pause(run: ClusterRun, step: ClusterStep) -> str | None:
    node = whose_turn(run, step)
    if node is None or node.machine.is_still:
        return None
    duration_ms = drawn_duration_ms(step.random())
    node.machine.stand_still(duration_ms * _MS)
    run.world.faults.begin("pause", duration_ms, node.machine.go_on)
    return f"{node} stands still for {duration_ms} ms"


def _start_all_now(run: ClusterRun) -> None:
    run.world.restarts.start_all_now()


MACHINE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "kill": Verb(_kill, 10, _start_all_now),
        "stop": Verb(_stop, 6, _start_all_now),
        "pause": Verb(_pause, 6, healing("pause")),
    }
)
