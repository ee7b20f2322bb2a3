"""Files that are damaged between two lives of a simulated node: the broker loses nothing by it."""

from __future__ import annotations

import pytest

from broker.simulation.cluster.cluster_running import ClusterRecipe, ClusterResult, play
from broker.simulation.cluster.cluster_steps import ClusterStep
from broker.simulation.cluster.file_damage import DAMAGE_VERBS, WAYS
from tests.simulation.mutant_arenas import ARENAS

EVERY_MS = 1_500


def befallen(verb: str, seed: int = 1) -> ClusterResult:
    """A cluster to which it is done all the time."""
    plan = ARENAS["damage"]()
    times = range(EVERY_MS, plan.duration_ms, EVERY_MS)
    steps = tuple(ClusterStep(at_ms, verb, number, number) for number, at_ms in enumerate(times))
    return play(ClusterRecipe(seed, plan, steps))


@pytest.mark.parametrize("verb", DAMAGE_VERBS)
def test_the_cluster_gets_over_it(verb: str) -> None:
    result = befallen(verb)
    assert result.failure is None, result.failure
    assert result.coverage[f"between two lives: {verb}"] >= 1
    assert result.coverage["history: writes ok"]


def test_files_of_most_kinds_are_damaged() -> None:
    counts = befallen("damage derived files", 2).coverage
    damaged = [kind for kind in WAYS if any(f"damaged: {kind} {way}" in counts for way in WAYS[kind])]
    assert len(damaged) >= len(WAYS) // 2, damaged


@pytest.mark.parametrize("verb", DAMAGE_VERBS)
def test_nothing_is_damaged_when_the_trouble_is_over(verb: str) -> None:
    """Though a step had said that it would be."""
    plan = ARENAS["damage"]()
    steps = tuple(ClusterStep(plan.duration_ms - 1, verb, number, number) for number in range(4))
    result = play(ClusterRecipe(1, plan, steps))
    assert result.failure is None, result.failure
    assert result.coverage[f"step: {verb}"] == 4
    assert f"between two lives: {verb}" not in result.coverage
