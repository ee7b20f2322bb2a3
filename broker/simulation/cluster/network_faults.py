"""What befalls the network: ways are cut, machines isolated, links slow, connections reset.

Within a connection no byte is lost or comes out of turn; see `memory_network` for what a cut does to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.machine_faults import drawn_duration_ms
from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["NETWORK_VERBS"]

Ways = Sequence[tuple[str, str]]
"""Each from one machine to another."""


def _hosts(run: ClusterRun) -> list[str]:
    """All machines, the nodes' first."""
    return _nodes(run) + [client.name for client in run.world.clients]


def _nodes(run: ClusterRun) -> list[str]:
    return [node.place.host for node in run.world.nodes.values()]


def _pair(run: ClusterRun, step: ClusterStep, random: SeededRandom) -> tuple[str, str] | None:
    """A node and another machine."""
    nodes = _nodes(run)
    one = nodes[step.whom % len(nodes)]
    others = [host for host in _hosts(run) if host != one]
    return (one, random.one_of(others)) if others else None


def _cut(world: ClusterWorld, kind: str, ways: Ways, duration_ms: int) -> None:
    links = [world.network.links.of(*way) for way in ways]
    for link in links:
        link.cuts += 1

    def mend() -> None:
        for link in links:
            link.cuts -= 1
        world.network.flow()

    world.faults.begin(kind, duration_ms, mend)


def _cut_one_way(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    pair = _pair(run, step, random)
    if pair is None:
        return None
    source, target = pair if random.below(2) else pair[::-1]
    duration_ms = drawn_duration_ms(random)
    _cut(run.world, "cut one way", [(source, target)], duration_ms)
    return f"nothing comes from {source} to {target} for {duration_ms} ms"


def _both(one: Sequence[str], other: Sequence[str]) -> Ways:
    """All ways between two groups of machines."""
    return [way for here in one for there in other for way in ((here, there), (there, here))]


def _cut_both_ways(run: ClusterRun, step: ClusterStep) -> str | None:
    random = step.random()
    pair = _pair(run, step, random)
    if pair is None:
        return None
    duration_ms = drawn_duration_ms(random)
    _cut(run.world, "cut both ways", _both(pair[:1], pair[1:]), duration_ms)
    return f"{pair[0]} and {pair[1]} do not hear each other for {duration_ms} ms"


NETWORK_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "cut one way": Verb(_cut_one_way, 5, healing("cut one way")),
        "cut both ways": Verb(_cut_both_ways, 5, healing("cut both ways")),
    }
)
