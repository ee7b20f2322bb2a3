"""Clusters that an earlier release has formatted: they work at every level, and while it is raised."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.cluster_running import ClusterRecipe, ClusterResult, play
from broker.simulation.cluster.cluster_steps import ClusterStep
from broker.simulation.cluster.drawn_plan import drawn_plan
from broker.simulation.cluster.older_levels import (
    RAISE_KRAFT_VERSION,
    RAISE_METADATA_VERSION,
    with_older_levels,
)
from controller.metadata.image.features import GROUP_VERSION, METADATA_VERSION, TRANSACTION_VERSION
from tests.simulation.mutant_arenas import versions

EVERY_MS = 2_000


def raised_from(features: Mapping[str, int]) -> ClusterResult:
    """Clients of all kinds, a broker that is killed now and then, and levels that rise."""
    plan = replace(versions(), features=features)
    verbs = (RAISE_METADATA_VERSION, RAISE_METADATA_VERSION, "kill")
    times = range(1_000, plan.duration_ms, EVERY_MS)
    steps = tuple(
        ClusterStep(at_ms, verbs[number % len(verbs)], number, number) for number, at_ms in enumerate(times)
    )
    return play(ClusterRecipe(1, plan, steps))


@pytest.mark.parametrize("level", [7, 12, 15, 22])
def test_levels_are_raised_while_the_cluster_works(level: int) -> None:
    result = raised_from({METADATA_VERSION: level, GROUP_VERSION: 1, TRANSACTION_VERSION: level % 3})
    assert result.failure is None, result.failure
    assert result.coverage[f"step: {RAISE_METADATA_VERSION}"] >= 1
    assert result.coverage["history: transactions ok"]


def test_the_voters_of_a_static_quorum_are_written_into_its_log() -> None:
    """Whoever is killed and comes back finds them there, though its properties still name them."""
    plan = replace(versions(), weights={})
    assert not plan.is_dynamic
    steps = [ClusterStep(1_000, RAISE_KRAFT_VERSION, 1, 1)]
    steps += [ClusterStep(at_ms, "kill", at_ms, at_ms) for at_ms in range(1_500, plan.duration_ms, EVERY_MS)]
    run = ClusterRun(1, plan, steps)
    run.run()
    assert {node.kraft_version for node in run.world.nodes.values()} == {1}
    assert run.world.coverage.counts["step: kill"] >= 3


def test_some_static_quorums_are_raised() -> None:
    plans = [with_older_levels(seed, drawn_plan(seed, 30_000, {})) for seed in range(60)]
    raised = [plan for plan in plans if RAISE_KRAFT_VERSION in plan.weights]
    assert 3 < len(raised) < sum(not plan.is_dynamic for plan in plans)
    assert not any(plan.is_dynamic for plan in raised)


def test_some_seeds_begin_with_older_levels() -> None:
    plans = [with_older_levels(seed, drawn_plan(seed, 30_000, {})) for seed in range(60)]
    older = [plan for plan in plans if plan.features]
    assert 3 < len(older) < 30
    assert all(RAISE_METADATA_VERSION in plan.weights for plan in older)
    assert any(plan.features[METADATA_VERSION] < 17 for plan in older)
