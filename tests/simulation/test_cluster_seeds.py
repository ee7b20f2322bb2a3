"""Some seeds of whole clusters for every push; the long run is `many_seeds --cluster`, see RESULTS.md.

BARNABAS_SIMULATED_CLUSTERS says how many, BARNABAS_SIMULATED_FIRST_CLUSTER from which one on.
"""

from __future__ import annotations

import gc
import os
from functools import partial
from pathlib import Path

import pytest

from broker.simulation.cluster import cluster_run, cluster_shrinking
from broker.simulation.cluster.cluster_run import PROMISES
from broker.simulation.cluster.cluster_running import (
    ClusterRecipe,
    ClusterResult,
    play,
    recipe_of,
    run_cluster,
)
from broker.simulation.cluster.cluster_shrinking import shrink_cluster
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.coverage import Coverage
from broker.simulation.histories.history import read_history
from broker.simulation.verdict import Failure, Violation, ways_in
from tests.simulation.many_seeds import cluster_seed, printed_under_two_hash_seeds, run_many
from tests.simulation.test_simulate_command import simulate

SEEDS = int(os.environ.get("BARNABAS_SIMULATED_CLUSTERS", "100"))
FIRST = int(os.environ.get("BARNABAS_SIMULATED_FIRST_CLUSTER", "1"))
SECONDS = 30
"""Of trouble, for each seed."""
AT_ONCE = 5
ENOUGH_FOR_ALL = 100

MUST_BE_MET = (
    "end of a life: been killed",
    "end of a life: lost its power",
    "bytes lost in a power cut",
    "torn writes",
    "crash between two changes of files",
    "crash of a node that starts",
    "calls to a disk that failed",
    "a node ended by itself for its disk: halted",
    "step: kill",
    "step: stop",
    "step: pause",
    "step: cut one way",
    "step: cut both ways",
    "step: rolling restart",
    "step: reassign a partition",
    "step: cancel a reassignment",
    "step: delete records of clients",
    "a move was taken back while it ran",
    "step: add a broker",
    "step: slow disk",
    "step: disk full",
    "step: clock drifts",
    "step: clock jumps",
    "step: lose disk",
    "step: lose a controller's disk",
    "step: lose a log directory",
    "voters replaced after their disk was lost",
    "step: kill together",
    "step: cut power together",
    "power cut of several nodes that sync before they answer",
    "between two lives: damage derived files",
    "between two lives: restore an older copy",
    "step: change transaction.version",
    "step: change group.version",
    "step: raise metadata.version",
    "operator: an offset was committed",
    "operator: an offset was deleted",
    "operator: an offset was deleted with its group",
    "group coordinators: moved",
    "zombie: commit is answered PRODUCER_FENCED",
    "reader: is given records by a follower",
    "looked at: truncation of a log",
    "looked at: replica that joins an ISR",
    "looked at: log of a new leader",
    "looked at: transaction marker",
    "looked at: aborted transactions that a fetch names",
    "looked at: metadata log that begins with a snapshot",
    "history: writes ok",
    "history: transactions ok",
    "history: transactions fail",
    "history: records seen",
    "histories that are judged, though records could have been lost",
)
"""By a hundred seeds. That a step was drawn is not enough: where the budget allows no loss, a power cut
becomes a kill, and no disk is lost."""


@pytest.mark.slow
@pytest.mark.timeout(3_600)  # on a machine that is busy with other things a hundred clusters take long
def test_every_rule_holds_under_every_seed() -> None:
    """And together they have met what a cluster must get over."""
    coverage = Coverage()
    run_seed = partial(cluster_seed, duration_ms=SECONDS * 1_000)
    seen = 0
    for some in run_many(FIRST, SEEDS, 2, run_seed, nice=False, at_once=AT_ONCE):
        for result in some.failures:
            told = play(result.recipe, is_told=True)
            lines = "\n".join(told.lines[-100:])
            pytest.fail(f"seed {result.seed}: {result.failure}\n{lines}", pytrace=False)
        seen += some.seeds
        coverage.add(some.coverage.counts)
    assert seen == SEEDS
    if SEEDS >= ENOUGH_FOR_ALL:
        assert [name for name in MUST_BE_MET if not coverage.counts.get(name)] == []


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    """Two interpreters with other orders of sets exchange the same bytes at the same times."""
    program = "from tests.simulation.cluster_digests import digests\nprint(*digests(1, 3, 15), sep='\\n')\n"
    one, other = printed_under_two_hash_seeds(program)
    assert one == other
    assert len(one.splitlines()) == 3


class NobodyIsKilled:
    """A rule that a cluster in trouble breaks soon."""

    def after_turn(self, node: SimulatedNode) -> None: ...

    def has_ended(self, node: SimulatedNode) -> None:
        raise Violation("nobody is killed", f"{node} was")

    def has_happened(self, event: object) -> None: ...


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rules only that one holds the cluster to something."""
    monkeypatch.setattr(cluster_run, "all_rules", lambda *_: [NobodyIsKilled()])


@pytest.mark.usefixtures("fragile")
def test_a_failure_is_shrunk_to_what_matters(tmp_path: Path) -> None:
    """One step, one node that it befalls and those that must be there, nobody else; and it fails again from
    a file. (Seeds 1 and 2 are led to steps that end no node unless a client works.)"""
    result = next(
        result for seed in range(3, 20) if (result := run_cluster(seed, 30_000)).failure is not None
    )
    told = shrink_cluster(result)
    assert told.failure is not None
    assert told.failure.rule == "nobody is killed"
    assert len(told.recipe.steps) == 1
    assert told.recipe.plan.clients == ()
    assert any("was" in line for line in told.lines)
    path = tmp_path / "run.json"
    told.recipe.write(path)
    again = play(ClusterRecipe.read(path))
    assert again.failure == told.failure
    assert again.digest == told.digest


def test_a_run_is_not_shrunk_to_another_failure_of_the_same_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer than three steps it breaks the rule too, but in another way."""

    def played(recipe: ClusterRecipe, *, is_told: bool = False) -> ClusterResult:
        kind = "lost write" if len(recipe.steps) > 2 else "hanging transaction"
        failure = Failure(PROMISES, f"{PROMISES}: {kind}", 0, (kind,))
        return ClusterResult(recipe=recipe, events=0, simulated_ms=0, digest="", coverage={}, failure=failure)

    monkeypatch.setattr(cluster_shrinking, "play", played)
    result = played(recipe_of(1, 60_000))
    assert len(result.recipe.steps) > 3
    assert len(shrink_cluster(result).recipe.steps) == 3


def test_a_failure_recurs_where_the_rule_is_broken_in_the_same_ways() -> None:
    lost = Failure.of(Violation("a", "of topic-1-0", ["lost write"]), 1)
    both = Failure.of(Violation("a", "of topic-2-1", ["duplicate", "lost write"]), 2)
    other = Failure.of(Violation("b", "of topic-1-0", ["lost write"]), 1)
    assert lost.recurs_in(both)
    assert not both.recurs_in(lost)
    assert not lost.recurs_in(other)
    assert not lost.recurs_in(None)
    assert raised(KeyError("topic-1")).recurs_in(raised(KeyError("topic-2")))
    assert not raised(KeyError("topic-1")).recurs_in(raised(ValueError("topic-1")))


def raised(error: Exception) -> Failure:
    try:
        raise error
    except Exception as caught:
        return Failure.of(caught, 0)


@pytest.mark.parametrize(
    ("reasons", "ways"),
    [
        ("node-3 is down", ["is down"]),
        ("topic-1-0 has replicas that are not in sync: (1, 2)", ["has replicas that are not in sync"]),
        (
            "a-0 is owned by nobody in g-1; a-1 is owned by ['c', 'd'] in g-1; b-0 is owned by nobody in g-2",
            ["is owned by nobody in", "is owned by in"],
        ),
    ],
)
def test_names_and_numbers_are_no_way_to_fail(reasons: str, ways: list[str]) -> None:
    assert ways_in(reasons) == ways


@pytest.mark.usefixtures("fragile")
def test_the_command_tells_a_failure_and_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert simulate("--cluster --seed 1 --seeds 20 --minutes 0.5") == 1
    printed, told = capsys.readouterr()
    assert "broke a rule" in told
    (path,) = tmp_path.glob("simulated-seed-*.json")
    assert f"again: barnabas simulate --cluster --replay {path.name} --trace" in printed
    assert simulate(f"--replay {path.name} --trace") == 1
    assert "nobody is killed" in capsys.readouterr().out


def test_the_command_sums_up_and_writes_the_history(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    assert simulate(f"--cluster --seed 2 --minutes 0.1 --coverage --history {path}") == 0
    printed = capsys.readouterr().out
    assert "every rule held in" in printed
    assert "steps that no seed has taken: " in printed
    assert read_history(path).outcome_counts()["writes ok"] > 0


@pytest.mark.parametrize("content", ["", "{}", '{"seed": 1, "plan": 2, "steps": []}'])
def test_a_file_that_is_no_run_is_refused(
    content: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    assert simulate(f"--replay {path}") == 2
    assert "is not a run that was written by barnabas simulate" in capsys.readouterr().err


def test_steps_of_a_later_release_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    recipe_of(1, 60_000).write(path)
    path.write_text(path.read_text().replace('"verb": "kill"', '"verb": "teleport"'))
    assert simulate(f"--replay {path}") == 2
    assert "teleport" in capsys.readouterr().err


def test_nothing_of_a_world_outlives_its_run() -> None:
    """A long run has thousands of them, of some fifty megabytes each."""
    before = len(worlds())
    for seed in (1, 2, 3):
        run_cluster(seed, 5_000)
    assert len(worlds()) == before


def worlds() -> list[ClusterWorld]:
    """Those that the collector cannot take."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, ClusterWorld)]
