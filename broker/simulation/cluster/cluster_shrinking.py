"""A run that fails, made as small as it can be: fewer steps, fewer clients, less time, fewer nodes.

Each smaller run is played from its beginning, and is kept if it fails in the same way. What is left is told
as a story. A smaller run takes another course than the larger one, since whatever is left out changes the
times of the rest; so this is a search, and ends after a bounded number of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_running import ClusterRecipe, ClusterResult, play
from broker.simulation.cluster.cluster_steps import ClusterStep
from broker.simulation.shrinking import shortest

__all__ = ["shrink_cluster"]

LARGEST_TRIALS: Final = 200
"""For the steps, each time that they are shrunk."""

replaced = msgspec.structs.replace


def shrink_cluster(result: ClusterResult, largest_trials: int = LARGEST_TRIALS) -> ClusterResult:
    """The smallest run found that fails in the same way, told. A result without a failure stays as it is."""
    failure = result.failure
    if failure is None:
        return result

    def fails(candidate: ClusterRecipe) -> bool:
        return failure.recurs_in(play(candidate).failure)

    recipe = _with_fewer_steps(result.recipe, fails, largest_trials)
    for simpler in _SIMPLER:
        recipe = _simplified(recipe, fails, simpler)
    recipe = _with_fewer_steps(recipe, fails, largest_trials)
    return play(recipe, is_told=True)


def _with_fewer_steps(
    recipe: ClusterRecipe, fails: Callable[[ClusterRecipe], bool], largest_trials: int
) -> ClusterRecipe:
    def still_fails(steps: Sequence[ClusterStep]) -> bool:
        return fails(replaced(recipe, steps=tuple(steps)))

    return replaced(recipe, steps=tuple(shortest(recipe.steps, still_fails, largest_trials)))


def _simplified(
    recipe: ClusterRecipe,
    fails: Callable[[ClusterRecipe], bool],
    simpler: Callable[[ClusterRecipe], Iterator[ClusterPlan]],
) -> ClusterRecipe:
    """Takes whatever simpler plan still fails, until none does."""
    found = True
    while found:
        found = False
        for plan in simpler(recipe):
            candidate = replaced(recipe, plan=plan)
            if fails(candidate):
                recipe, found = candidate, True
                break
    return recipe


def _shorter(recipe: ClusterRecipe) -> Iterator[ClusterPlan]:
    """The trouble ends soon after its last step, or in the half of its time."""
    plan = recipe.plan
    last_ms = max((step.at_ms for step in recipe.steps), default=0)
    for duration_ms in (last_ms + 1_000, last_ms + 10_000, plan.duration_ms // 2):
        if last_ms < duration_ms < plan.duration_ms * 9 // 10:
            yield replaced(plan, duration_ms=duration_ms)


def _fewer_clients(recipe: ClusterRecipe) -> Iterator[ClusterPlan]:
    clients = recipe.plan.clients
    for number in range(len(clients)):
        yield replaced(recipe.plan, clients=clients[:number] + clients[number + 1 :])


def _fewer_topics(recipe: ClusterRecipe) -> Iterator[ClusterPlan]:
    """One topic less, with one partition less, and no client that has no topic left."""
    plan = recipe.plan
    for gone in plan.topics[1:]:
        clients = tuple(
            replaced(client, topics=tuple(name for name in client.topics if name != gone.name))
            for client in plan.clients
        )
        yield replaced(
            plan,
            topics=tuple(topic for topic in plan.topics if topic is not gone),
            clients=tuple(client for client in clients if client.topics),
        )
    for topic in plan.topics:
        if topic.partitions > 1:
            smaller = replaced(topic, partitions=topic.partitions - 1)
            yield replaced(plan, topics=tuple(smaller if each is topic else each for each in plan.topics))


def _fewer_nodes(recipe: ClusterRecipe) -> Iterator[ClusterPlan]:
    """One node less, as long as the replicas have room and a controller is left."""
    plan = recipe.plan
    replicas = max((topic.replication_factor for topic in plan.topics), default=1)
    for gone in reversed(plan.places):
        places = tuple(place for place in plan.places if place is not gone)
        has_room = sum(place.is_broker for place in places) >= replicas
        if has_room and any(place.is_controller for place in places):
            yield replaced(plan, places=places)


_SIMPLER: Final = (_shorter, _fewer_clients, _fewer_topics, _fewer_nodes, _shorter)
"""What a run can do without, in the order in which it is tried."""
