"""Some seeds have clusters with small limits; the others stay what they were."""

from __future__ import annotations

from broker.simulation.cluster.cluster_run import VERBS
from broker.simulation.cluster.drawn_plan import drawn_plan
from broker.simulation.cluster.small_limits import SMALL_LIMITS, with_small_limits

SEEDS = range(1, 201)


def test_each_kind_comes_in_some_seeds_and_nothing_else_changes() -> None:
    signs = {
        "metadata": "metadata.log.max.snapshot.interval.ms",
        "sessions": "max.incremental.fetch.session.cache.slots",
        "expiry": "transactional.id.expiration.ms",
    }
    found = dict.fromkeys(SMALL_LIMITS, 0)
    untouched = 0
    for seed in SEEDS:
        drawn = drawn_plan(seed, 30_000, VERBS)
        plan = with_small_limits(seed, drawn)
        assert (plan.weights, plan.gap_ms) == (drawn.weights, drawn.gap_ms)
        assert [each.name for each in plan.clients] == [each.name for each in drawn.clients]
        assert [
            place.properties.items() >= before.properties.items()
            for place, before in zip(plan.places, drawn.places, strict=True)
        ] == [True] * len(plan.places)
        for name, sign in signs.items():
            found[name] += sign in plan.places[0].properties
        for name, sign in (("logs", "segment.index.bytes"), ("compaction", "cleanup.policy")):
            found[name] += all(sign in topic.configs for topic in plan.topics)
        untouched += plan == drawn
    assert untouched > len(SEEDS) // 20
    assert all(len(SEEDS) // 8 < count < 3 * len(SEEDS) // 4 for count in found.values()), found
