"""One seed of a whole cluster from its beginning to its verdict.

result = run_cluster(seed, duration_ms=600_000)
result.failure                    None, or which rule was broken and how

A run can be kept in a file and played again from it: `ClusterRecipe` is all that a run is made of.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_run import VERBS, ClusterRun
from broker.simulation.cluster.cluster_steps import ClusterStep, draw_steps
from broker.simulation.cluster.drawn_plan import drawn_plan
from broker.simulation.cluster.older_levels import with_older_levels
from broker.simulation.cluster.slow_worlds import slowed
from broker.simulation.cluster.small_limits import with_small_limits
from broker.simulation.cluster.story import Story
from broker.simulation.histories.history import Event
from broker.simulation.verdict import Failure, Violation, only_contained_errors, rare_collections

__all__ = ["ClusterRecipe", "ClusterResult", "play", "recipe_of", "run_cluster"]

_LINES_OF_AN_ERROR: Final = 12


class ClusterRecipe(msgspec.Struct, frozen=True):
    """All that a run is made of."""

    seed: int
    plan: ClusterPlan
    steps: tuple[ClusterStep, ...]

    def write(self, path: Path) -> None:
        """For people too."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> ClusterRecipe:
        """Raises ValueError where the file is no recipe, and OSError where it cannot be read."""
        try:
            recipe = msgspec.json.decode(path.read_bytes(), type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} is not a run that was written by barnabas simulate: {error}") from error
        unknown = sorted({step.verb for step in recipe.steps} - set(VERBS))
        if unknown:
            raise ValueError(f"{path} has steps that this release does not know: {', '.join(unknown)}")
        return recipe


class ClusterResult(msgspec.Struct, frozen=True):
    """What became of one run. digest: of every byte that arrived anywhere, with its time. events: calls that
    the loop has made, most of them turns of a machine."""

    recipe: ClusterRecipe
    events: int
    simulated_ms: int
    digest: str
    coverage: Mapping[str, int]
    failure: Failure | None
    lines: Sequence[str] = ()
    history: Sequence[Event] = ()

    @property
    def seed(self) -> int:
        return self.recipe.seed


def recipe_of(seed: int, duration_ms: int, nodes: int | None = None) -> ClusterRecipe:
    """The seed's own."""
    plan = with_small_limits(seed, drawn_plan(seed, duration_ms, VERBS, nodes=nodes))
    plan = slowed(seed, with_older_levels(seed, plan))
    return ClusterRecipe(seed, plan, tuple(draw_steps(seed, plan.weights, duration_ms, plan.gap_ms)))


def run_cluster(
    seed: int, duration_ms: int, *, nodes: int | None = None, is_told: bool = False
) -> ClusterResult:
    """duration_ms: of the trouble, in simulated time. is_told: with a story."""
    return play(recipe_of(seed, duration_ms, nodes), is_told=is_told)


def play(recipe: ClusterRecipe, *, is_told: bool = False) -> ClusterResult:
    """The run of a recipe, which is the same each time."""
    with rare_collections():
        return _play(recipe, is_told=is_told)


def _play(recipe: ClusterRecipe, *, is_told: bool) -> ClusterResult:
    run = ClusterRun(recipe.seed, recipe.plan, recipe.steps)
    world = run.world
    story = Story(world) if is_told else None
    failure = None
    errors: list[str] = []
    try:
        with only_contained_errors(world.contained.append):
            run.run()
    except Exception as error:
        failure = Failure.of(error, world.loop.now_ns // 1_000)
        if not isinstance(error, Violation):
            errors = traceback.format_exc().splitlines()[-_LINES_OF_AN_ERROR:]
    pace = "slow" if recipe.plan.is_slow else "brisk"
    world.coverage.add({f"simulated seconds of {pace} worlds": int(world.now_ms) // 1_000})
    world.coverage.add({f"events of {pace} worlds": world.loop.calls})
    lines: list[str] = []
    if story is not None:
        lines = story.lines
        if failure is not None:
            story.tell(failure.text)
            lines = [*story.lines, *errors, *story.holdings(failure.text)]
    return ClusterResult(
        recipe=recipe,
        events=world.loop.calls,
        simulated_ms=int(world.now_ms),
        digest=world.network.digest,
        coverage=world.coverage.counts,
        failure=failure,
        lines=lines,
        history=world.history,
    )
