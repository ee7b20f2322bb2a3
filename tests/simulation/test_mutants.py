"""Every rule is able to fail: each mutant is caught by the rule that it breaks, within some seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import controller.simulation
from controller.simulation.running import THE_NODE_FAILS, run
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS = 150
EVENTS = 1_500

RULE = re.compile(r'(?:Violation\(\s*|rule = )"([a-z][^"]+)"')


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_rule_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put_in(monkeypatch)
    noticed: dict[str, int] = {}
    for seed in range(1, SEEDS + 1):
        failure = run(seed, EVENTS).failure
        if failure is not None:
            if failure.rule in mutant.breaks:
                return
            noticed[failure.rule] = noticed.get(failure.rule, 0) + 1
    pytest.fail(f"{mutant.name}: not noticed by {mutant.breaks} in {SEEDS} seeds, but by {noticed}")


def test_every_rule_has_a_mutant() -> None:
    """What no mutant breaks might as well not be checked."""
    package = Path(controller.simulation.__file__).parent
    rules = {rule for path in package.glob("*.py") for rule in RULE.findall(path.read_text())}
    rules.add(THE_NODE_FAILS)
    assert len(rules) > 20
    assert rules - {rule for mutant in MUTANTS for rule in mutant.breaks} == set()


def test_there_are_enough_mutants() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 20
