"""Some seeds with the driver and the disk code of production, for every push.

The long run is `python -m tests.simulation.many_seeds --real-driver`, its result is in RESULTS.md.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from broker.simulation.quorum.running import run, shrink
from tests.simulation.many_seeds import printed_under_two_hash_seeds, quorum_seed, run_some

SEEDS = int(os.environ.get("BARNABAS_SIMULATED_DRIVER_SEEDS", "100"))
EVENTS = 3_000
"""At least, for each; a timer, a turn of the loop and the end of a helper's call are events too."""


@pytest.mark.slow
def test_every_rule_holds_under_every_seed() -> None:
    """And the seeds have met what a driver and its disk must get over."""
    hundred = run_some(1, SEEDS, partial(quorum_seed, events=EVENTS, real_driver=True))
    for result in hundred.failures:
        told = shrink(result)
        pytest.fail(f"seed {result.seed}: {result.failure}\n" + "\n".join(told.lines[-200:]), pytrace=False)
    assert SEEDS < 100 or hundred.missing == []


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    """Two interpreters with other orders of sets make the same run to the letter."""
    program = (
        "from broker.simulation.quorum.running import run\n"
        "from broker.simulation.quorum.trace import Trace\n"
        "for seed in range(1, 7):\n"
        "    result = run(seed, 2000, trace=Trace(), real_driver=True)\n"
        "    print(seed, result.events, result.fingerprint, result.digest, result.failure)\n"
    )
    one, other = printed_under_two_hash_seeds(program)
    assert one == other
    assert len(one.splitlines()) == 6


def test_the_model_and_the_driver_are_two_runs_of_a_seed() -> None:
    """The fault plan is the same; what the replicas run on is not."""
    model, driver = run(11, EVENTS), run(11, EVENTS, real_driver=True)
    assert model.fault_plan == driver.fault_plan
    assert (model.real_driver, driver.real_driver) == (False, True)
    assert model.fingerprint != driver.fingerprint
    assert model.failure is None
    assert driver.failure is None
