"""Small clusters in which mutants are caught soon: each is in one kind of trouble, and works hard.

An arena draws its steps from a seed as any run does; what it is does not depend on the seed. So mutants that
are caught under the same seed of one arena share the run that shows that nothing is wrong without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan, TopicPlan
from broker.simulation.cluster.cluster_running import ClusterRecipe
from broker.simulation.cluster.cluster_steps import draw_steps
from broker.simulation.cluster.drawn_plan import RACK_AWARE
from broker.simulation.cluster.simulated_node import NodePlace

__all__ = ["ARENAS", "recipe_in", "recipe_of_plan", "versions"]

PROPERTIES: Final = MappingProxyType(
    {
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "600",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.session.timeout.ms": "5000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
        "min.insync.replicas": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
        "leader.imbalance.check.interval.seconds": "5",
        "unclean.leader.election.enable": "false",
    }
)

SLOWLY: Final = MappingProxyType({"replica.fetch.wait.max.ms": "150", "replica.fetch.min.bytes": "100000"})
"""Followers are behind most of the time: a leader that fails has records that nobody else has."""

TOPIC: Final = TopicPlan("topic-1", 4, 3, {"min.insync.replicas": "2"})
FAST: Final = MappingProxyType({"pause_ms": "40"})

PRODUCERS: Final = (
    ClientPlan("producer", "producer-1", ("topic-1",), options={"acks": "all", **FAST}),
    ClientPlan("producer", "producer-2", ("topic-1",), options={"acks": "1", "idempotent": "false", **FAST}),
)
READER: Final = ClientPlan(
    "reader", "reader-1", ("topic-1",), options={"isolation": "read_uncommitted", "checks": "ask"}
)


def _places() -> tuple[NodePlace, ...]:
    settings = {**PROPERTIES, **SLOWLY}
    brokers = (NodePlace(number, True, False, settings) for number in (1, 2, 3))
    return (NodePlace(101, False, True, settings), *brokers)


def _plan(
    weights: Mapping[str, int],
    clients: tuple[ClientPlan, ...] = (*PRODUCERS, READER),
    *,
    seconds: int = 12,
    gap_ms: int = 800,
    topics: tuple[TopicPlan, ...] = (TOPIC,),
) -> ClusterPlan:
    return ClusterPlan(
        places=_places(),
        topics=topics,
        clients=clients,
        weights=weights,
        duration_ms=seconds * 1_000,
        gap_ms=gap_ms,
    )


def _failures() -> ClusterPlan:
    """Processes are killed and stand still, ways are cut: leaders change, ISRs shrink and grow."""
    return _plan({"kill": 6, "pause": 3, "cut one way": 2, "cut both ways": 2, "elect preferred leaders": 3})


def _small_segments() -> ClusterPlan:
    """Logs of many files, at which retention looks all the time."""
    topic = replace(TOPIC, configs={**TOPIC.configs, "internal.segment.bytes": "50000"})
    plan = replace(_failures(), topics=(topic,))
    return plan.with_properties(
        {"log.initial.task.delay.ms": "500", "log.retention.check.interval.ms": "1000"}
    )


def _deletions() -> ClusterPlan:
    """Records are deleted under readers, members of groups and producers that take in what they commit."""
    consumers = (
        ClientPlan(kind, f"{kind}-{number}", ("topic-1",), f"group-of-{kind}s")
        for kind in ("classic_consumer", "consumer")
        for number in (1, 2)
    )
    copier = ClientPlan(
        "transactional", "copier-1", ("topic-2",), "copiers", {"source": "topic-1", "pause_ms": "60"}
    )
    plan = _small_segments()
    weights = {"delete records of clients": 8, "kill": 2, "pause": 2, "pause a client": 4}
    clients = (*plan.clients, *consumers, copier)
    topics = (*plan.topics, replace(TOPIC, name="topic-2"))
    return replace(plan, weights=weights, clients=clients, topics=topics, duration_ms=20_000, gap_ms=500)


def _transactions() -> ClusterPlan:
    """Producers of both protocols, some of which read what they commit."""
    clients = tuple(
        ClientPlan(
            "transactional",
            f"transactional-{number}",
            ("topic-1",),
            f"transformers-{number}" if number < 3 else "",
            {
                "protocol": str(1 + number % 2),
                "pause_ms": "60",
                "timeout_ms": "3000",
                **({"source": "topic-1"} if number < 3 else {}),
            },
        )
        for number in range(1, 5)
    )
    reader = ClientPlan("reader", "reader-1", ("topic-1",), options={"isolation": "read_committed"})
    return _plan({"kill": 4, "pause": 3, "cut one way": 2, "stop": 2}, (*clients, reader), gap_ms=900)


def versions() -> ClusterPlan:
    """Protocols of transactions and of groups change while clients speak them. No mutant is caught here."""
    plan = _transactions()
    clients = [
        replace(client, options={**client.options, "follows": "true"})
        for client in plan.clients
        if client.options.get("protocol") != "1"
    ]
    clients += [
        ClientPlan("consumer", f"consumer-{number}", ("topic-1",), "group-of-consumers") for number in (1, 2)
    ]
    weights = {"change transaction.version": 6, "change group.version": 2, "kill": 1}
    return replace(plan, clients=tuple(clients), weights=weights, duration_ms=15_000)


def _nearby() -> ClusterPlan:
    """Readers read from followers, which are behind, and whose leaders change."""
    readers = tuple(
        ClientPlan("reader", f"reader-{number}", ("topic-1",), options={"isolation": isolation, "rack": rack})
        for number, (isolation, rack) in enumerate(
            (("read_uncommitted", "rack-1"), ("read_committed", "rack-2"), ("read_committed", "rack-3")), 1
        )
    )
    plan = _plan({"kill": 3, "pause": 3, "cut one way": 3, "slow link": 3}, (*PRODUCERS, *readers))
    places = tuple(
        replace(
            place,
            properties={
                **place.properties,
                "broker.rack": f"rack-{place.node_id % 3 + 1}",
                "replica.selector.class": RACK_AWARE,
            },
        )
        for place in plan.places
    )
    return replace(plan, places=places)


def _groups() -> ClusterPlan:
    """Members of a group of either protocol come and go, and so do their coordinators."""
    clients = [ClientPlan("producer", "producer-1", ("topic-1",), options={"pause_ms": "150"})]
    for kind in ("classic_consumer", "consumer"):
        options = {"assignor": "range"} if kind == "classic_consumer" else {}
        clients += [
            ClientPlan(kind, f"{kind}-{number}", ("topic-1",), f"group-of-{kind}s", options)
            for number in range(1, 4)
        ]
    topics = (TopicPlan("topic-1", 4, 3, {"min.insync.replicas": "2"}),)
    weights = {"kill": 2, "cut both ways": 2, "kill a consumer": 6, "pause a client": 8}
    return _plan(weights, tuple(clients), topics=topics, seconds=20, gap_ms=900)


def _transformers(members: str) -> ClusterPlan:
    """Producers of transactions share what they take in as members of a group, and crash and come back."""
    producer = ClientPlan("producer", "producer-1", ("topic-1",), options={"pause_ms": "100"})
    transformers = (
        ClientPlan(
            "transformer",
            f"transformer-{number}",
            ("topic-2",),
            "transformers",
            {"source": "topic-1", "members": members, "pause_ms": "60", "timeout_ms": "3000"},
        )
        for number in range(1, 4)
    )
    topics = (TOPIC, replace(TOPIC, name="topic-2"))
    weights = {"kill": 2, "cut both ways": 2, "pause a client": 3, "lose answers": 4, "slow link": 12}
    return _plan(weights, (producer, *transformers), topics=topics, seconds=30, gap_ms=900)


def _power() -> ClusterPlan:
    """All is synced before it is answered, and the power of all machines fails at one instant."""
    topic = replace(TOPIC, configs={**TOPIC.configs, "flush.messages": "1"})
    weights = {"cut power together": 6, "kill together": 2, "kill": 2}
    plan = _plan(weights, topics=(topic,), seconds=24, gap_ms=3_000)
    return replace(plan, is_flushed=True).with_properties({"log.flush.interval.messages": "1"})


def _damage() -> ClusterPlan:
    """Files are damaged between two lives, in logs of many small segments."""
    small = {"internal.segment.bytes": "4000", "index.interval.bytes": "500", "file.delete.delay.ms": "1000"}
    topics = (replace(TOPIC, configs={**TOPIC.configs, **small}),)
    plan = _transactions()
    clients = (*PRODUCERS, *(each for each in plan.clients if each.kind == "reader" or not each.group))
    weights = {"damage derived files": 9, "spoil a batch": 3, "restore an older copy": 3, "kill": 1}
    return _plan(weights, clients, topics=topics, seconds=24, gap_ms=1_500)


ARENAS: Final[Mapping[str, Callable[[], ClusterPlan]]] = MappingProxyType(
    {
        "failures": _failures,
        "small segments": _small_segments,
        "deletions": _deletions,
        "transactions": _transactions,
        "groups": _groups,
        "nearby": _nearby,
        "classic transformers": partial(_transformers, "classic"),
        "transformers": partial(_transformers, "consumer"),
        "power": _power,
        "damage": _damage,
    }
)


def recipe_in(arena: str, seed: int) -> ClusterRecipe:
    return recipe_of_plan(ARENAS[arena](), seed)


def recipe_of_plan(plan: ClusterPlan, seed: int) -> ClusterRecipe:
    return ClusterRecipe(seed, plan, tuple(draw_steps(seed, plan.weights, plan.duration_ms, plan.gap_ms)))
