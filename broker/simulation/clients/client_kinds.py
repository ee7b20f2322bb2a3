"""The kinds of clients that a plan can name, and those that read everything when a run is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker.simulation.clients.classic_consumer import ClassicConsumer
from broker.simulation.clients.cluster_client import ClusterClient
from broker.simulation.clients.consumer_protocol import ConsumerProtocolConsumer
from broker.simulation.clients.producers import make_producer
from broker.simulation.clients.readers import Reader
from broker.simulation.clients.transactional_producers import TransactionalProducer
from broker.simulation.clients.transformers import Transformer
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.histories.history import READ_COMMITTED, READ_UNCOMMITTED

__all__ = ["CLIENTS", "MakeClient", "last_readers", "make_client"]

MakeClient = Callable[[ClusterWorld, ClientPlan, Sequence[str]], ClusterClient]

CLIENTS: Final[Mapping[str, MakeClient]] = MappingProxyType(
    {
        "producer": make_producer,
        "transactional": TransactionalProducer,
        "transformer": Transformer,
        "reader": Reader,
        "classic_consumer": ClassicConsumer,
        "consumer": ConsumerProtocolConsumer,
    }
)


def make_client(world: ClusterWorld, plan: ClientPlan, bootstrap: Sequence[str]) -> ClusterClient:
    """A client of the world; `start` lets it begin."""
    client = CLIENTS[plan.kind](world, plan, bootstrap)
    world.add_client(client)
    return client


def last_readers(world: ClusterWorld, topics: Sequence[str], bootstrap: Sequence[str]) -> list[Reader]:
    """One reader of each isolation level, for the end of a run. Each has to be told `read_to_end`."""
    readers = []
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        options = {"isolation": isolation}
        plan = ClientPlan("reader", f"last-{isolation.replace('_', '-')}", tuple(topics), options=options)
        reader = Reader(world, plan, bootstrap)
        world.add_client(reader)
        readers.append(reader)
    return readers
