"""Nodes whose next life has another address, as after a change of their configuration.

    move a broker       clients and other brokers find it at another port of its host
    move a controller   a voter of a dynamic quorum is at another port, and tells the others (KIP-853)

Each listener has two ports in turn, so whatever remembers a former address of a node finds nobody there, or
comes to a later life of it. Clients and nodes have both among their bootstrap servers. An operator moves one
voter after the other, and the next one when all voters are known at their present addresses. Until then no
voter is taken out or loses its disk, and one of two does not move. Else those who are left might not
find each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import drawn_duration_ms, end_without_order, start_all_now
from broker.simulation.cluster.membership_changes import may_change_voters
from broker.simulation.cluster.simulated_node import (
    BROKER_PORTS,
    CONTROLLER_PORTS,
    NodePlace,
    SimulatedNode,
)
from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["ADDRESS_VERBS"]

LONGEST_DOWN_MS: Final = 10_000


def _move_broker(run: ClusterRun, step: ClusterStep) -> str | None:
    brokers = [node for node in run.world.brokers if _may_move(node)]
    if not run.plan.has_other_ports or not brokers:
        return None
    node, random = brokers[step.whom % len(brokers)], step.random()
    port = _other(BROKER_PORTS, node.place.broker_port)
    place = msgspec.structs.replace(node.place, broker_port=port)
    in_order = random.below(2) > 0 and node.is_ready
    return _moved(run, node, place, random, in_order=in_order)


def _move_controller(run: ClusterRun, step: ClusterStep) -> str | None:
    controllers = [node for node in run.world.nodes.values() if node.place.is_controller and _may_move(node)]
    is_two = sum(node.place.is_controller for node in run.world.nodes.values()) == 2
    if not (run.plan.has_other_ports and controllers and may_change_voters(run)) or is_two:
        return None
    node, random = controllers[step.whom % len(controllers)], step.random()
    port = _other(CONTROLLER_PORTS, node.place.controller_port)
    place = msgspec.structs.replace(node.place, controller_port=port)
    return _moved(run, node, place, random)


def _may_move(node: SimulatedNode) -> bool:
    return node.node is not None and not node.node.is_stopping and not node.machine.is_still


def _other(ports: tuple[int, int], port: int) -> int:
    return ports[1 - ports.index(port)]


def _moved(
    run: ClusterRun, node: SimulatedNode, place: NodePlace, random: SeededRandom, *, in_order: bool = False
) -> str | None:
    """Ends a life, so that the next one is at another place; None if this life must go on."""
    down_ms = drawn_duration_ms(random, most_ms=LONGEST_DOWN_MS)
    former, node.place = node.place, place
    how: str | None = "is asked to stop"
    if in_order:
        run.world.restarts.after(node, down_ms)
        node.machine.stop()
    else:
        how = end_without_order(run, node, random, down_ms)
    if how is None:
        node.place = former
        return None
    return f"{node} {how}, and comes back at ports {place.broker_port} and {place.controller_port}"


ADDRESS_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "move a broker": Verb(_move_broker, 4, start_all_now),
        "move a controller": Verb(_move_controller, 4, start_all_now),
    }
)
