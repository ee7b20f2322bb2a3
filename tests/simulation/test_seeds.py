"""Some seeds for every push; the long run is `tests.simulation.many_seeds`, its result in RESULTS.md.

BARNABAS_SIMULATED_SEEDS says how many, BARNABAS_SIMULATED_FIRST_SEED from which one on.
"""

from __future__ import annotations

import gc
import os
from functools import partial

import pytest

from broker.simulation.coverage import Coverage
from broker.simulation.quorum.running import run, shrink
from broker.simulation.quorum.trace import Trace
from broker.simulation.quorum.world import World
from controller.raft.transitions import TRANSITIONS, Role
from tests.simulation.many_seeds import printed_under_two_hash_seeds, quorum_seed, run_many

SEEDS = int(os.environ.get("BARNABAS_SIMULATED_SEEDS", "1500"))
FIRST = int(os.environ.get("BARNABAS_SIMULATED_FIRST_SEED", "1"))
EVENTS = 1_200
"""At least, for each; each run ends with a quiet period of some hundred more."""
ENOUGH_FOR_ALL_TRANSITIONS = 1_000
FAILED_ONCE = (
    10, 183, 312, 383, 2358, 3589, 4471, 6646, 7358, 7419, 9120, 10594, 11305, 12689, 19569,
    32711, 33289, 36479, 38812, 50482, 98265, 206921,
)  # fmt: skip
"""In runs of 2,000 events: the node's fault, a verdict that was too strict, or the simulator's own."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_rule_holds_under_every_seed() -> None:
    """And every hundred seeds have met what a quorum must get over."""
    seen = 0
    coverage = Coverage()
    for hundred in run_many(FIRST, SEEDS, 2, partial(quorum_seed, events=EVENTS), nice=False):
        for result in hundred.failures:
            told = shrink(result)
            pytest.fail(
                f"seed {result.seed}: {result.failure}\n" + "\n".join(told.lines[-200:]), pytrace=False
            )
        assert hundred.missing == [], f"seeds from {hundred.first} on"
        seen += hundred.seeds
        coverage.add(hundred.coverage.counts)
    assert seen == SEEDS
    if SEEDS >= ENOUGH_FOR_ALL_TRANSITIONS:
        assert [pair for pair in TRANSITIONS if pair[0] is not pair[1] and not taken(coverage, *pair)] == []
        assert coverage.counts.get("looked at: voter that has moved")


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_seed_that_failed_once(seed: int) -> None:
    assert run(seed, 2_000).failure is None


def taken(coverage: Coverage, before: Role, after: Role) -> int:
    """How often a change of role has happened; an observer is counted by that name when it follows."""
    names = ["Follower", "Observer"] if after is Role.FOLLOWER else [after.name.capitalize()]
    return sum(coverage.counts.get(f"{before.name.capitalize()} > {name}", 0) for name in names)


def test_a_seed_is_a_run() -> None:
    """The same seed is the same run, told or not."""
    once = run(11, EVENTS, trace=Trace())
    again = run(11, EVENTS, trace=Trace())
    untold = run(11, EVENTS)
    assert once.failure is None
    assert len(once.lines) > 200
    assert once.digest == again.digest
    assert once.fingerprint == again.fingerprint == untold.fingerprint
    assert once.events == untold.events >= EVENTS
    assert run(12, EVENTS).fingerprint != once.fingerprint


def test_nothing_of_a_world_outlives_its_run() -> None:
    """A long run has a hundred thousand of them."""
    before = worlds()  # the tracebacks of other tests may keep some
    for seed in range(1, 6):
        assert run(seed, EVENTS).failure is None
    assert len(worlds()) == len(before)


def worlds() -> list[World]:
    """Those that the collector cannot take."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, World)]


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    """Two interpreters with other orders of sets print the same trace to the letter."""
    program = (
        "from broker.simulation.quorum.running import run\n"
        "from broker.simulation.quorum.trace import Trace\n"
        "for seed in range(1, 9):\n"
        "    outcome = run(seed, 2000, trace=Trace())\n"
        "    print(seed, outcome.events, outcome.fingerprint, outcome.digest, outcome.failure)\n"
    )
    one, other = printed_under_two_hash_seeds(program)
    assert one == other
    assert len(one.splitlines()) == 8
