"""A whole cluster in one process, under one seed: its nodes, its clients, what befalls them, and who watches.

    seed ──▶ plan ──▶ nodes, clients ──▶ loop ──▶ a turn of one machine ──▶ rules
                                    steps ──┘

The loop makes one call after the other in simulated time; most of them are turns of one machine. After each
turn of a node the rules look at that node. Nothing here looks at the real clock, at real chance or at the
order of a set, so a seed is a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

from broker.simulation.cluster.active_faults import ActiveFaults
from broker.simulation.cluster.client import SimulatedClient
from broker.simulation.cluster.event_loop import EventLoop
from broker.simulation.cluster.memory_network import MemoryNetwork
from broker.simulation.cluster.restarts import Restarts
from broker.simulation.cluster.simulated_node import (
    BROKER_PORTS,
    CONTROLLER_PORTS,
    FirstVoters,
    NodePlace,
    SimulatedNode,
)
from broker.simulation.cluster.surroundings import LifeEnd, Machine
from broker.simulation.coverage import Coverage
from broker.simulation.histories.history import Event
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.verdict import ContainedError
from protocol.messages.fetch import FetchResponse

__all__ = ["AskedBroker", "ClusterWorld", "FetchedPart", "RefusedPart", "Rule"]

_MS = 1_000_000


class Rule(Protocol):
    """Something that must hold. Each raises Violation. What a rule has no use for it does nothing in."""

    def after_turn(self, node: SimulatedNode) -> None:
        """The node has run for a turn; only it can have changed."""
        ...

    def has_ended(self, node: SimulatedNode) -> None:
        """A life of the node is over, in whatever way."""
        ...

    def has_happened(self, event: Event) -> None:
        """A client has done or been told something."""
        ...


class FetchedPart(NamedTuple):
    """What a reader has been given of a partition, without an error. offset: from which it reads.
    is_committed: it reads what is committed alone. Record bytes are valid for the call that has this."""

    reader: str
    topic_id: bytes
    partition: int
    offset: int
    is_committed: bool
    data: FetchResponse.PartitionData


class AskedBroker(NamedTuple):
    """Which broker a client has asked, and when, in simulated time."""

    node_id: int
    at_ms: float


class RefusedPart(NamedTuple):
    """A broker does not have, by its own words, what the client has been given of a partition, or what was
    written before the batch that it sends. offset: the client's position, None for a producer. why: in
    words."""

    client: str
    asked: AskedBroker
    topic_id: bytes
    partition: int
    offset: int | None
    why: str


class ClusterWorld:
    """places: the nodes, of which the controllers are the first voters. is_dynamic: the quorum's voters can
    be changed (KIP-853). has_other_ports: nodes may be found at the second of their ports. features: see
    `SimulatedNode`. may_lose_records: `ClusterPlan.allows_unclean`; what was lost indeed is in `losses`."""

    def __init__(
        self,
        seed: int,
        places: Sequence[NodePlace],
        *,
        is_dynamic: bool = False,
        has_other_ports: bool = False,
        features: Mapping[str, int] = MappingProxyType({}),
        may_lose_records: bool = False,
    ) -> None:
        self.seed = seed
        self.may_lose_records = may_lose_records
        self.loop = EventLoop()
        self.coverage = Coverage()
        self.network = MemoryNetwork(self.loop, seed, self.coverage)
        self.faults = ActiveFaults(self.loop)
        self.restarts = Restarts(self)
        self.rules: list[Rule] = []
        self.nodes: dict[int, SimulatedNode] = {}
        self.former_nodes: dict[int, SimulatedNode] = {}
        """Those that were taken out of the cluster for good."""
        self.clients: list[SimulatedClient] = []
        self.history: list[Event] = []
        self.listeners: list[Callable[[str], None]] = []
        """Whoever is told what happens, in words."""
        self.fetch_listeners: list[Callable[[FetchedPart], None]] = []
        """Whoever judges what readers are given."""
        self.refusal_listeners: list[Callable[[RefusedPart], None]] = []
        """Whoever judges what clients are refused."""
        self.contained: list[ContainedError] = []
        """The exceptions that nodes have met and gone on after, and that no rule has judged yet."""
        self.losses: dict[tuple[str, int], None] = {}
        """The partitions that have lost committed records, by topic and index, in a plan that allows it. With
        records of transactions a marker or a fence may be lost, too."""
        self.life_listeners: list[Callable[[SimulatedNode, LifeEnd], None]] = []
        """Whoever is told how lives of nodes end."""
        controllers = tuple(place for place in places if place.is_controller)
        chance = self.random("directories of the first voters")
        self.broker_ports = BROKER_PORTS if has_other_ports else BROKER_PORTS[:1]
        """Where clients look for the brokers of a host."""
        self.voters = FirstVoters(
            controllers,
            [chance.random_bytes(16) for _ in controllers if is_dynamic],
            CONTROLLER_PORTS if has_other_ports else CONTROLLER_PORTS[:1],
        )
        self.features = features
        for place in places:
            self.add_node(place)

    @property
    def now_ms(self) -> float:
        """Simulated time since the beginning."""
        return self.loop.now_ns / _MS

    def random(self, name: str) -> SeededRandom:
        """A stream of its own for each name."""
        return SeededRandom(self.seed, name)

    # Nodes and clients

    def add_node(self, place: NodePlace) -> SimulatedNode:
        """It is formatted, and not started."""
        machine = Machine(self.network, place.host, self.seed)
        node = SimulatedNode(place, machine, self.voters, features=self.features)
        machine.on_turn = partial(self._after_turn, node)
        machine.on_life_ended = partial(self._life_ended, node)
        node.format()
        self.nodes[place.node_id] = node
        return node

    def remove_node(self, node: SimulatedNode) -> None:
        """It is down, and its operator will never start it again."""
        del self.nodes[node.node_id]
        self.former_nodes[node.node_id] = node

    def add_client(self, client: SimulatedClient) -> None:
        self.clients.append(client)

    @property
    def brokers(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.place.is_broker]

    def start_all(self, *, limit_ms: int = 60_000) -> None:
        """Starts every node, until all are ready."""
        for node in self.nodes.values():
            node.start()
        self.loop.run_until(lambda: all(node.is_ready for node in self.nodes.values()), limit_ms=limit_ms)

    def _after_turn(self, node: SimulatedNode) -> None:
        for rule in self.rules:
            rule.after_turn(node)

    def _life_ended(self, node: SimulatedNode, end: LifeEnd) -> None:
        """A life of the node is over, and its machine says how."""
        self.coverage.count(f"end of a life: {end.how}")
        self.tell(f"{node} has {end.how}" + (f": {end.sentence}" if end.sentence else ""))
        for rule in self.rules:
            rule.has_ended(node)
        for listener in self.life_listeners:
            listener(node, end)
        self.restarts.has_ended(node, end)

    # What is told

    def note(self, event: Event) -> None:
        """A line of the history."""
        self.history.append(event)
        for rule in self.rules:
            rule.has_happened(event)

    def tell(self, text: str) -> None:
        """A line of the story."""
        for listener in self.listeners:
            listener(text)
