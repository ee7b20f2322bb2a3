"""What nodes make of their own faults: nothing fails by one, whatever happens around them.

A request, a connection or a coordinator that raises what nobody expected is contained: that is logged,
somebody is answered UNKNOWN_SERVER_ERROR, and the node goes on. Clients try again, so no other rule would see
it. A disk that fails is no fault of the node; but a file that is missing, or a directory that is given up,
while every call to the disk has done what it should, is. Nor does anybody in a cluster of ours send what is
no message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.dispatch.dispatcher import Dispatcher
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from broker.simulation.verdict import Violation, without_numbers

__all__ = ["CONTAINED", "DIRECTORY_FAILED", "MALFORMED", "FaultRules"]

CONTAINED: Final = "nothing fails by a fault of ours"
DIRECTORY_FAILED: Final = "no directory fails while its disk works"
MALFORMED: Final = "all that is sent is a message"


class FaultRules:
    """`cluster_world.Rule`: what nodes have contained or given up, and what they could not read."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def after_turn(self, node: SimulatedNode) -> None:
        """See `cluster_world.Rule`."""
        self._judge_contained(node)
        for dispatcher in _dispatchers(node):
            if dispatcher.metrics.malformed:
                raise Violation(MALFORMED, f"{node} has closed a connection for what it sent")
        if node.broker is None or node.machine.trouble.errors:
            return
        for failed in node.broker.services.logs.failed_directories:
            raise Violation(DIRECTORY_FAILED, f"{node} has given up {failed.path}: {failed.reason}")

    def has_ended(self, node: SimulatedNode) -> None:
        """What it has contained in its last turn. The next life counts anew."""
        self._judge_contained(node)

    def has_happened(self, event: Event) -> None:
        """Clients are no matter of these rules."""

    def _judge_contained(self, node: SimulatedNode) -> None:
        """Only this node has run since the last time."""
        contained = self._world.contained
        while contained:
            error = contained[0]
            if not (error.is_of_system and node.machine.trouble.errors):
                raise Violation(CONTAINED, f"{node}: {error}", [without_numbers(error.error)])
            del contained[0]


def _dispatchers(node: SimulatedNode) -> Iterator[Dispatcher]:
    if node.broker is not None:
        yield node.broker.dispatcher
    if node.controller is not None:
        yield node.controller.dispatcher
