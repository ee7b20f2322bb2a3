"""Half of the seeds of long runs are slow worlds, and nothing else is changed by that."""

from __future__ import annotations

import gc

from msgspec.structs import replace

from broker.simulation.cluster.cluster_run import VERBS
from broker.simulation.cluster.cluster_running import ClusterRecipe, play, recipe_of
from broker.simulation.cluster.drawn_plan import drawn_plan
from broker.simulation.cluster.older_levels import with_older_levels
from broker.simulation.cluster.slow_worlds import SLOW_FROM_MS, slowed
from broker.simulation.cluster.small_limits import with_small_limits
from broker.simulation.verdict import rare_collections

SEEDS = range(1, 41)


def test_short_runs_are_never_slow() -> None:
    for seed in SEEDS:
        plan = drawn_plan(seed, SLOW_FROM_MS - 1, VERBS)
        assert slowed(seed, plan) is plan


def test_of_long_runs_some_are_slow_and_the_others_stay_what_they_were() -> None:
    slow = 0
    for seed in SEEDS:
        drawn = with_small_limits(seed, drawn_plan(seed, SLOW_FROM_MS, VERBS))
        drawn = with_older_levels(seed, drawn)
        plan = recipe_of(seed, SLOW_FROM_MS).plan
        slow += plan.is_slow
        assert plan.is_slow or plan == drawn
        assert (plan.weights, plan.topics) == (drawn.weights, drawn.topics)
        assert plan.gap_ms >= drawn.gap_ms
    assert len(SEEDS) // 4 < slow < 3 * len(SEEDS) // 4


def test_little_happens_in_a_slow_world_and_its_result_says_so() -> None:
    seed = next(each for each in SEEDS if recipe_of(each, SLOW_FROM_MS).plan.is_slow)
    slow, brisk = (
        play(ClusterRecipe(seed, replace(plan, duration_ms=20_000), ()))
        for plan in (recipe_of(seed, SLOW_FROM_MS).plan, drawn_plan(seed, SLOW_FROM_MS, VERBS))
    )
    assert slow.failure is None
    assert brisk.failure is None
    assert 2 * slow.events / slow.simulated_ms < brisk.events / brisk.simulated_ms
    assert slow.coverage["simulated seconds of slow worlds"] == slow.simulated_ms // 1_000
    assert brisk.coverage["events of brisk worlds"] == brisk.events


def test_the_collector_is_as_it_was_when_a_run_is_over() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
