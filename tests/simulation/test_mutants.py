"""Every rule is able to fail: each mutant is caught by the rule that it breaks, within some seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import broker.simulation.quorum
from broker.cli.parser import build_parser
from broker.simulation.quorum.running import run, shrink
from broker.simulation.verdict import THE_NODE_FAILS
from tests.simulation.driver_mutants import DRIVER_MUTANTS
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


def test_a_failure_is_told_in_its_shortest_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that is printed breaks the same rule with fewer steps, and no step of it can be spared."""
    mutant = next(each for each in MUTANTS if each.name == "counts what it has sent")
    mutant.put_in(monkeypatch)
    failed = next(result for seed in range(1, SEEDS) if (result := run(seed, EVENTS)).failure)
    told = shrink(failed)
    assert failed.failure is not None
    assert told.failure is not None
    assert told.failure.rule == failed.failure.rule
    assert len(told.steps) < len(failed.steps) or not failed.steps
    assert told.lines
    for number in range(len(told.steps)):
        fewer = [step for index, step in enumerate(told.steps) if index != number]
        again = run(told.seed, failed.events, fault_plan=told.fault_plan, steps=fewer)
        assert again.failure is None or again.failure.rule != failed.failure.rule


def test_the_command_prints_a_failure_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutant = next(each for each in MUTANTS if each.name == "counts what it has sent")
    mutant.put_in(monkeypatch)
    options = build_parser().parse_args(
        ["simulate", "--seed", "1", "--seeds", "100", "--events", "1500", "--nodes", "3"]
    )
    assert options.run(options) == 1
    printed, told = capsys.readouterr()
    assert "broke a rule" in told
    assert "an acknowledged append lies on a majority's disks" in printed
    assert "again: barnabas simulate --seed" in printed


def test_every_rule_has_a_mutant() -> None:
    """What no mutant breaks might as well not be checked."""
    package = Path(broker.simulation.quorum.__file__).parent
    rules = {rule for path in package.glob("*.py") for rule in RULE.findall(path.read_text())}
    rules.add(THE_NODE_FAILS)
    assert len(rules) > 20
    assert rules - {rule for mutant in (*MUTANTS, *DRIVER_MUTANTS) for rule in mutant.breaks} == set()


def test_there_are_enough_mutants() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 20
