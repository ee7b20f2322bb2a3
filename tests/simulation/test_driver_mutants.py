"""A run with the driver and the disk code of production notices their faults."""

from __future__ import annotations

import pytest

from broker.simulation.quorum.running import run, shrink
from tests.simulation.driver_mutants import DRIVER_MUTANTS
from tests.simulation.mutants import Mutant

SEEDS = 100
EVENTS = 2_000


@pytest.mark.parametrize("mutant", DRIVER_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_rule_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put_in(monkeypatch)
    noticed: dict[str, int] = {}
    for seed in range(1, SEEDS + 1):
        failure = run(seed, EVENTS, real_driver=True).failure
        if failure is not None:
            if failure.rule in mutant.breaks:
                return
            noticed[failure.rule] = noticed.get(failure.rule, 0) + 1
    pytest.fail(f"{mutant.name}: not noticed by {mutant.breaks} in {SEEDS} seeds, but by {noticed}")


def test_a_failure_is_told_in_its_shortest_form(monkeypatch: pytest.MonkeyPatch) -> None:
    DRIVER_MUTANTS[0].put_in(monkeypatch)
    results = (run(seed, EVENTS, real_driver=True) for seed in range(1, SEEDS))
    failed = next(result for result in results if result.failure is not None)
    told = shrink(failed, largest_trials=40)
    assert failed.failure is not None
    assert told.failure is not None
    assert told.failure.rule == failed.failure.rule
    assert told.real_driver
    assert len(told.steps) < len(failed.steps) or not failed.steps
