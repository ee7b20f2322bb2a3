"""Failures that befall many nodes at one instant: they share a rack, a power supply, or a command.

    kill together        the processes of all nodes, or of one rack, end between two turns
    cut power together   their power goes. Where the plan says that everything is synced before it is answered
                         (`ClusterPlan.is_flushed`), nothing that was acknowledged may be missing afterwards,
                         though no replica has kept its page cache. Elsewhere the processes end, and no more

The nodes come back together, as when the power comes back, or each in its own time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import Tear, drawn_duration_ms, start_all_now, whose_turn
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["CORRELATED_VERBS", "CUT_POWER_TOGETHER", "KILL_TOGETHER"]

KILL_TOGETHER: Final = "kill together"
CUT_POWER_TOGETHER: Final = "cut power together"
RACK: Final = "broker.rack"
LONGEST_DOWN_MS: Final = 20_000


def _kill_together(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    nodes, who = _who_ends(run, step, random)
    for node in nodes:
        node.machine.kill()
    return f"kill -9 of {who}" if nodes else None


def _cut_power_together(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    nodes, who = _who_ends(run, step, random)
    if not nodes:
        return None
    if not run.budget.may_lose_power_together:
        run.world.coverage.count("a power cut of several nodes that became a kill")
        for node in nodes:
            node.machine.kill()
        return f"kill -9 of {who}, as their power must not be cut"
    keeps_names = random.below(3) > 0
    for node in nodes:
        run.budget.power_lost(node)
        tear = Tear(run.world.coverage, random)
        node.machine.cut_power(tear.leaves, keep_names=keeps_names)
    if run.plan.is_flushed:
        run.world.coverage.count("power cut of several nodes that sync before they answer")
    return f"the power of {who} fails"


def _who_ends(run: ClusterRun, step: ClusterStep, random: SeededRandom) -> tuple[list[SimulatedNode], str]:
    """The nodes that end together and come back, and how to call them; none where the budget is against
    it."""
    nodes, who = _befallen(run, step, random)
    if not nodes or not run.budget.may_end_together(nodes):
        return [], who
    _come_back(run, nodes, random)
    return nodes, who


def _befallen(run: ClusterRun, step: ClusterStep, random: SeededRandom) -> tuple[list[SimulatedNode], str]:
    """All nodes that are up, or those of one of their racks, where there are racks; and how to call them."""
    nodes = [node for node in run.world.nodes.values() if node.is_up]
    takes_all = random.below(2) > 0
    one = whose_turn(run, step)
    rack = "" if one is None else one.place.properties.get(RACK, "")
    if takes_all or not rack:
        return nodes, "all nodes"
    some = [node for node in nodes if node.place.properties.get(RACK) == rack]
    return some, f"{', '.join(map(str, some))} in {rack}"


def _come_back(run: ClusterRun, nodes: Sequence[SimulatedNode], random: SeededRandom) -> None:
    """All at once, or each in its own time."""
    is_together = random.below(2) > 0
    together_ms = drawn_duration_ms(random, most_ms=LONGEST_DOWN_MS)
    for node in nodes:
        alone_ms = drawn_duration_ms(random, most_ms=LONGEST_DOWN_MS)
        run.world.restarts.after(node, together_ms if is_together else alone_ms)


CORRELATED_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        KILL_TOGETHER: Verb(_kill_together, 3, start_all_now),
        CUT_POWER_TOGETHER: Verb(_cut_power_together, 3, start_all_now),
    }
)
