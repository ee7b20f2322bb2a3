"""Nodes whose process has ended are started again, as a service manager or an operator does.

Who ends a life on purpose says beforehand when the next one begins (`after`). A node may also end its process
by itself: because its disk has failed, or because it could not register in time, in a life that began while
there was trouble. That it does so without such a reason is a violation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.node import StartFailed
from broker.simulation.cluster.event_loop import ScheduledCall
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.cluster.surroundings import LifeEnd
from broker.simulation.verdict import Violation

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_world import ClusterWorld

__all__ = ["ENDS_BY_ITSELF", "Restarts"]

ENDS_BY_ITSELF: Final = "a node does not end by itself"
LEAST_WAIT_MS: Final = 500
MOST_WAIT_MS: Final = 10_000
"""How long a service manager waits before it starts a node that has ended by itself."""
IN_HURRY_MS: Final = 100
_MS: Final = 1_000_000
_GAVE_UP: Final = "could not register within"
"""What a broker says that has waited for too long for a controller; nothing is wrong with it."""


class Restarts:
    """in_hurry: the trouble is over, so whatever ends is started at once."""

    def __init__(self, world: ClusterWorld) -> None:
        self.in_hurry = False
        self._world = world
        self._random = world.random("restarts")
        self._after_ms: dict[int, int] = {}
        self._due: dict[int, ScheduledCall] = {}
        self._calm_lives: dict[int, int] = {}
        """By node, the number of its newest life that began when the trouble was over."""
        self._before: dict[int, list[Callable[[], None]]] = {}

    def after(self, node: SimulatedNode, duration_ms: int) -> None:
        """The life that is about to end is followed by another one after so long."""
        self._after_ms[node.node_id] = duration_ms

    def before_next(self, node: SimulatedNode, call: Callable[[], None]) -> None:
        """Has something done to the machine when its next life is about to begin."""
        self._before.setdefault(node.node_id, []).append(call)

    def has_ended(self, node: SimulatedNode, end: LifeEnd) -> None:
        """A life is over."""
        if end.by_itself:
            self._judge(node, end)
        wait_ms = self._after_ms.pop(node.node_id, None)
        if wait_ms is None and (end.by_itself or end.disk_errors):
            wait_ms = self._random.between(LEAST_WAIT_MS, MOST_WAIT_MS)
        if wait_ms is not None:
            self._start_later(node, IN_HURRY_MS if self.in_hurry else wait_ms)

    def _judge(self, node: SimulatedNode, end: LifeEnd) -> None:
        coverage = self._world.coverage
        if end.disk_errors:
            coverage.count(f"a node ended by itself for its disk: {end.how}")
        elif _GAVE_UP in end.sentence and self._calm_lives.get(node.node_id) != node.lives:
            coverage.count("a broker could not register in time")
        else:
            raise Violation(ENDS_BY_ITSELF, f"{node} has {end.how}: {end.sentence}")

    def _start_later(self, node: SimulatedNode, wait_ms: int) -> None:
        start = partial(self._start, node)
        self._due[node.node_id] = self._world.loop.call_later(wait_ms * _MS, start)

    def _start(self, node: SimulatedNode) -> None:
        self._due.pop(node.node_id, None)
        if node.is_up or self._world.nodes.get(node.node_id) is not node:
            return
        for call in self._before.pop(node.node_id, ()):
            call()
        self._world.tell(f"{node} starts, for the {node.lives + 1}. time")
        if self.in_hurry:
            self._calm_lives[node.node_id] = node.lives + 1
        try:
            node.start()
        except (StartFailed, OSError):
            return  # its end was told, with the sentence
        if node.is_up:
            self._world.coverage.count("starts after a fault")

    @property
    def waiting(self) -> list[int]:
        """Nodes that will be started later."""
        return list(self._due)

    def start_all_now(self) -> None:
        """Whoever is to be started later is started now, and from now on nobody waits."""
        self.in_hurry = True
        for node_id in self.waiting:
            self._due.pop(node_id).cancel()
            node = self._world.nodes.get(node_id)
            if node is not None:
                self._start(node)
