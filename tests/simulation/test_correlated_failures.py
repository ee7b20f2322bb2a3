"""Many nodes that fail at one instant: a rack, or all of them, by a kill or by their power."""

from __future__ import annotations

import pytest

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.cluster_running import ClusterRecipe, play
from broker.simulation.cluster.cluster_steps import ClusterStep
from broker.simulation.cluster.correlated_failures import CORRELATED_VERBS
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.verdict import without_logs
from tests.simulation.mutant_arenas import ARENAS
from tests.simulation.test_cluster_faults import until_well


def in_racks(*, is_flushed: bool = False) -> ClusterRun:
    """Nodes 1 and 4 in rack-1, the others in racks of their own; three of them vote."""
    places = tuple(
        NodePlace(number, True, number <= 3, {"broker.rack": f"rack-{number % 3}"}) for number in range(1, 5)
    )
    plan = ClusterPlan(places, (), (), {}, 60_000, is_flushed=is_flushed)
    run = ClusterRun(1, plan, ())
    run.world.rules.clear()
    with without_logs():
        run.start()
    return run


def befall(run: ClusterRun, verb: str, *, takes_all: bool) -> str:
    """All nodes, or the rack of node 1."""
    steps = (ClusterStep(0, verb, 0, bits) for bits in range(100))
    step = next(each for each in steps if (each.random().below(2) > 0) == takes_all)
    with without_logs():
        told = CORRELATED_VERBS[verb].play(run, step)
    assert told is not None
    return told


def up(run: ClusterRun) -> list[int]:
    return [node.node_id for node in run.world.nodes.values() if node.is_up]


@pytest.mark.parametrize("verb", CORRELATED_VERBS)
def test_all_nodes_fail_at_once_and_come_back(verb: str) -> None:
    run = in_racks(is_flushed=True)
    assert "all nodes" in befall(run, verb, takes_all=True)
    assert up(run) == []
    until_well(run)
    assert [node.lives for node in run.world.nodes.values()] == [2, 2, 2, 2]


@pytest.mark.parametrize("verb", CORRELATED_VERBS)
def test_a_rack_fails_and_the_others_go_on(verb: str) -> None:
    run = in_racks(is_flushed=True)
    assert "node-1, node-4 in rack-1" in befall(run, verb, takes_all=False)
    assert up(run) == [2, 3]
    until_well(run)


def test_power_that_may_not_fail_together_is_a_kill() -> None:
    """What nobody has synced would be gone on all replicas."""
    run = in_racks()
    befall(run, "cut power together", takes_all=True)
    counts = run.world.coverage.counts
    assert counts["a power cut of several nodes that became a kill"] == 1
    assert "end of a life: lost its power" not in counts
    assert not run.budget.has_lost


def test_who_has_lost_data_is_not_left_alone() -> None:
    run = in_racks()
    with without_logs():
        run.world.nodes[2].machine.kill()
    run.budget.lost(run.world.nodes[2])
    assert not run.budget.may_end_together(list(run.world.nodes.values()))


def test_nothing_that_was_acknowledged_is_missing_after_the_power_of_all_has_failed() -> None:
    steps = tuple(
        ClusterStep(at_ms, "cut power together", 0, number)
        for number, at_ms in enumerate((2_000, 8_000, 14_000, 20_000))
    )
    result = play(ClusterRecipe(1, ARENAS["power"](), steps))
    assert result.failure is None, result.failure
    assert result.coverage["power cut of several nodes that sync before they answer"] >= 2
    assert result.coverage["history: writes ok"]
