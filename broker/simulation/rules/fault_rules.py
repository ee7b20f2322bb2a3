"""What nodes make of their own faults: nothing fails by one, whatever happens around them.

A request, a connection or a coordinator that raises what nobody expected is contained: that is logged,
somebody is answered UNKNOWN_SERVER_ERROR, and the node goes on. Clients try again, so no other rule would see
it. Nor does anybody in a cluster of ours send what is no message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.dispatch.dispatcher import Dispatcher
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from broker.simulation.verdict import Violation

__all__ = ["CONTAINED", "MALFORMED", "FaultRules"]

CONTAINED: Final = "nothing fails by a fault of ours"
MALFORMED: Final = "all that is sent is a message"


class FaultRules:
    """`cluster_world.Rule`: what nodes have contained, and what they could not read."""

    def __init__(self, world: ClusterWorld) -> None:
        self._contained = world.contained

    def after_turn(self, node: SimulatedNode) -> None:
        """See `cluster_world.Rule`."""
        if self._contained:
            raise Violation(CONTAINED, f"{node}: {self._contained[0]}")
        for dispatcher in _dispatchers(node):
            if dispatcher.metrics.malformed:
                raise Violation(MALFORMED, f"{node} has closed a connection for what it sent")

    def has_ended(self, node: SimulatedNode) -> None:
        """The next life counts anew."""

    def has_happened(self, event: Event) -> None:
        """Clients are no matter of these rules."""


def _dispatchers(node: SimulatedNode) -> Iterator[Dispatcher]:
    if node.broker is not None:
        yield node.broker.dispatcher
    if node.controller is not None:
        yield node.controller.dispatcher
