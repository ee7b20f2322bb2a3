"""Some hundred stories of logs beside their models, and faults in the engine that the stories must notice.

`BARNABAS_LOG_SEEDS=N` runs N stories instead; the long run and its result are in RESULTS.md.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.properties.log_mutants import MUTANTS, Mutant
from tests.properties.log_stories import MUST_BE_MET
from tests.support.log_story.shrink import run_seed, shrunk

STORIES = int(os.environ.get("BARNABAS_LOG_SEEDS", "300"))
FIRST = int(os.environ.get("BARNABAS_LOG_FIRST_SEED", "100000"))
ENOUGH_FOR_ALL_FAULTS = 200
FOUND_A_FAULT = (
    2184, 4277, 5826, 10334, 11024, 11801, 12380, 13423, 25664, 27024, 28368, 40063, 41569,
    61419, 61747, 61856, 62590, 85517, 85845, 90210, 50031, 52773, 53405, 68171,
)  # fmt: skip
"""Stories that failed once, in the engine or in the model; what they tell has changed a little since."""
FOR_A_MUTANT = 400


def test_the_engine_is_the_model() -> None:
    counts: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + STORIES):
        outcome = run_seed(seed)
        counts.update(outcome.counts)
        if outcome.kind:
            pytest.fail(shrunk(outcome).text())
    print(f"seeds {FIRST} to {FIRST + STORIES - 1}: {dict(sorted(counts.items()))}")
    if STORIES >= ENOUGH_FOR_ALL_FAULTS:
        assert [name for name in MUST_BE_MET if not counts[name]] == []


@pytest.mark.parametrize("seed", FOUND_A_FAULT)
def test_a_story_that_failed_once_does_not_fail_again(seed: int) -> None:
    outcome = run_seed(seed)
    assert not outcome.kind, outcome.text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_fault_in_the_engine_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put_in(monkeypatch)
    assert any(run_seed(mutant.first_seed + number).kind for number in range(FOR_A_MUTANT))


def test_a_story_that_fails_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = next(each for each in MUTANTS if each.name == "the high watermark falls back")
    mutant.put_in(monkeypatch)
    outcome = next(found for seed in range(FOR_A_MUTANT) if (found := run_seed(seed)).kind)
    short = shrunk(outcome)
    assert short.kind == outcome.kind
    assert len(short.told) <= min(len(outcome.told), 12)
    assert f"seed {outcome.seed}: Wrong" in short.text()
