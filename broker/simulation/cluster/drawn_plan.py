"""The plan that a seed draws: what kind of cluster it is, who uses it, and which faults it has to bear.

Each seed draws its own kinds of trouble, and most kinds are absent from most seeds (swarm testing): a cluster
to which everything happens at once only ever meets the same few fates, and never gets far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from broker.simulation.cluster.address_changes import ADDRESS_VERBS
from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan, TopicPlan
from broker.simulation.cluster.cluster_steps import Verb
from broker.simulation.cluster.correlated_failures import CORRELATED_VERBS, CUT_POWER_TOGETHER
from broker.simulation.cluster.directory_moves import DIRECTORY_MOVE_VERBS
from broker.simulation.cluster.disk_losses import DISK_LOSS_VERBS
from broker.simulation.cluster.feature_changes import CHANGE_TRANSACTION_VERSION, FEATURE_VERBS
from broker.simulation.cluster.file_damage import DAMAGE_VERBS
from broker.simulation.cluster.older_levels import UPGRADE_VERBS
from broker.simulation.cluster.operator_looks import OPERATOR_VERBS
from broker.simulation.cluster.record_deletions import RECORD_DELETION_VERBS
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.seeded_random import SeededRandom

__all__ = ["RACK_AWARE", "drawn_plan"]

RACKS: Final = ("rack-1", "rack-2", "rack-3")
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEAST_NODES: Final = 3
POWER_WEIGHT: Final = 8
"""Of power that fails everywhere at once, in clusters that must bear it."""
_LATER_VERBS: Final = frozenset(
    {
        *FEATURE_VERBS,
        *DISK_LOSS_VERBS,
        *OPERATOR_VERBS,
        *ADDRESS_VERBS,
        *DIRECTORY_MOVE_VERBS,
        *CORRELATED_VERBS,
        *DAMAGE_VERBS,
        *UPGRADE_VERBS,
        *RECORD_DELETION_VERBS,
    }
)
_PRESENT: Final = (0, 0, 1, 2, 4)
"""How often a verb is drawn, as a multiple of its own weight: two of five verbs are absent from a seed."""


def drawn_plan(
    seed: int, duration_ms: int, verbs: Mapping[str, Verb], *, nodes: int | None = None
) -> ClusterPlan:
    """nodes: at the beginning; None lets the seed decide."""
    random = SeededRandom(seed, "plan")
    count = max(nodes or random.one_of((3, 3, 3, 4, 5)), 1)
    nearby = SeededRandom(seed, "racks")
    has_racks = nearby.below(2) > 0
    places = _places(random, count)
    replicas = min(3, sum(place.is_broker for place in places))
    topics = _topics(random, replicas)
    weights = {
        name: verb.weight * _stream(seed, random, name).one_of(_PRESENT) for name, verb in verbs.items()
    }
    clients = _clients(random, topics)
    if weights.get(CHANGE_TRANSACTION_VERSION):
        clients = tuple(_following(client) for client in clients)
    clients = _sharing_an_id(SeededRandom(seed, "shared transactional ids"), clients)
    clients = _committing_late(SeededRandom(seed, "late commits"), clients)
    clients = _transforming_together(SeededRandom(seed, "transformers"), clients)
    if has_racks:
        places, clients = _with_racks(places), _with_readers_nearby(nearby, clients, topics)
    plan = ClusterPlan(
        places=places,
        topics=topics,
        clients=clients,
        weights={name: weight for name, weight in weights.items() if weight},
        duration_ms=duration_ms,
        gap_ms=random.one_of((500, 2_000, 2_000, 8_000)),
        min_insync_replicas=min(2, replicas),
        is_dynamic=random.below(3) > 0,
        has_other_ports=any(weights.get(verb) for verb in ADDRESS_VERBS),
        allows_unclean=random.below(5) == 0,
    )
    return _flushed(SeededRandom(seed, "flushed"), plan)


def _flushed(random: SeededRandom, plan: ClusterPlan) -> ClusterPlan:
    """In some seeds all is synced before it is answered, and the power of all nodes fails now and then."""
    if random.below(6) or plan.allows_unclean:
        return plan
    topics = tuple(
        msgspec.structs.replace(topic, configs={**topic.configs, "flush.messages": "1"})
        for topic in plan.topics
    )
    weights = {**plan.weights, CUT_POWER_TOGETHER: POWER_WEIGHT}
    flushed = msgspec.structs.replace(plan, topics=topics, weights=weights, is_flushed=True)
    return flushed.with_properties({"log.flush.interval.messages": "1"})


def _stream(seed: int, random: SeededRandom, verb: str) -> SeededRandom:
    """A verb that came later draws by itself, so that what earlier ones have drawn stays."""
    return SeededRandom(seed, f"weight of {verb}") if verb in _LATER_VERBS else random


def _following(client: ClientPlan) -> ClientPlan:
    """One of transactions looks now and then which protocol the cluster wants."""
    if client.kind != "transactional" or client.options.get("protocol") == "1":
        return client
    return msgspec.structs.replace(client, options={**client.options, "follows": "true"})


def _sharing_an_id(random: SeededRandom, clients: tuple[ClientPlan, ...]) -> tuple[ClientPlan, ...]:
    """In some seeds all producers of transactions have one transactional id, as where a service was started
    twice: each new incarnation fences the other's."""
    if random.below(4):
        return clients
    return _with_option(clients, "transactional", "transactional_id", "shared")


def _committing_late(random: SeededRandom, clients: tuple[ClientPlan, ...]) -> tuple[ClientPlan, ...]:
    """In some seeds commits of a classic group overtake each other, so that one comes too late."""
    if random.below(3):
        return clients
    return _with_option(clients, "classic_consumer", "late_commits", "true")


def _with_option(
    clients: tuple[ClientPlan, ...], kind: str, option: str, value: str
) -> tuple[ClientPlan, ...]:
    """All clients, those of the kind with this option."""
    return tuple(
        msgspec.structs.replace(client, options={**client.options, option: value})
        if client.kind == kind
        else client
        for client in clients
    )


def _transforming_together(random: SeededRandom, clients: tuple[ClientPlan, ...]) -> tuple[ClientPlan, ...]:
    """In some seeds all producers of transactions are members of one group (KIP-447), two at least; not those
    that share a transactional id and fence each other without end."""
    some = [client for client in clients if client.kind == "transactional"]
    if random.below(2) or not some or "transactional_id" in some[0].options:
        return clients
    if len(some) == 1:
        some.append(msgspec.structs.replace(some[0], name="transactional-2"))
    members = random.one_of(("classic", "consumer"))
    together = tuple(
        msgspec.structs.replace(
            client,
            kind="transformer",
            group="transformers",
            options={**client.options, "source": client.topics[0], "members": members},
        )
        for client in some
    )
    return (*(client for client in clients if client.kind != "transactional"), *together)


def _places(random: SeededRandom, count: int) -> tuple[NodePlace, ...]:
    """Combined nodes, or brokers with controllers of their own beside them."""
    properties = _properties(random)
    is_combined = random.happens(0.6)
    voters = min(count, random.one_of((1, 3, 3, 3)) if count > 1 else 1)
    if is_combined:
        return tuple(NodePlace(number, True, number <= voters, properties) for number in range(1, count + 1))
    brokers = [NodePlace(number, True, False, properties) for number in range(1, count + 1)]
    controllers = [NodePlace(100 + number, False, True, properties) for number in range(1, voters + 1)]
    return (*controllers, *brokers)


def _properties(random: SeededRandom) -> dict[str, str]:
    """Of every node. Times are short beside Kafka's defaults, so that more happens in a simulated minute."""
    session_ms = random.one_of((3_000, 6_000, 9_000))
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // 4),
        "replica.lag.time.max.ms": str(random.one_of((2_000, 5_000, 15_000))),
        "replica.fetch.wait.max.ms": "500",
        "num.replica.fetchers": str(random.one_of((1, 1, 2))),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": str(random.one_of((0, 500))),
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "8000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "2000",
        "min.insync.replicas": "2",
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "20000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3000",
        "auto.leader.rebalance.enable": random.one_of(("true", "false")),
        "leader.imbalance.check.interval.seconds": "15",
        "unclean.leader.election.enable": "false",
        "log.dirs": random.one_of(("/data", "/data", "/data,/data-2")),
    }


def _topics(random: SeededRandom, replicas: int) -> tuple[TopicPlan, ...]:
    count = random.one_of((1, 2, 2, 3))
    return tuple(
        TopicPlan(f"topic-{number}", random.between(1, 3), replicas, _topic_configs(random))
        for number in range(1, count + 1)
    )


def _topic_configs(random: SeededRandom) -> dict[str, str]:
    configs = {"min.insync.replicas": "2"}
    if random.below(3) == 0:
        configs["flush.messages"] = str(random.one_of((1, 10)))
    return configs


def _clients(random: SeededRandom, topics: tuple[TopicPlan, ...]) -> tuple[ClientPlan, ...]:
    """Some of each kind, and never none that writes."""
    names = tuple(topic.name for topic in topics)
    pace = {"pause_ms": str(random.one_of((100, 400, 1_500)))}
    made = [ClientPlan("producer", "producer-1", names, options={"acks": "all", **pace})]
    for number in range(2, random.between(2, 4)):
        options = {"acks": random.one_of(("0", "1", "all")), "idempotent": "false", **pace}
        made.append(ClientPlan("producer", f"producer-{number}", names, options=options))
    made += [_transactional(random, number, names, pace) for number in range(1, random.between(1, 4))]
    for number in range(1, random.between(1, 3)):
        options = {
            "isolation": random.one_of(("read_committed", "read_uncommitted")),
            "sessions": random.one_of(("true", "false")),
            "checks": random.one_of(("fetch", "ask")),
        }
        made.append(ClientPlan("reader", f"reader-{number}", names, options=options))
    return (*made, *_group(random, "classic_consumer", names), *_group(random, "consumer", names))


def _with_racks(places: tuple[NodePlace, ...]) -> tuple[NodePlace, ...]:
    """Brokers in so many racks, and leaders that send readers to a replica in theirs."""
    return tuple(
        msgspec.structs.replace(
            place,
            properties={
                **place.properties,
                "broker.rack": RACKS[place.node_id % len(RACKS)],
                "replica.selector.class": RACK_AWARE,
            },
        )
        for place in places
    )


def _with_readers_nearby(
    random: SeededRandom, clients: tuple[ClientPlan, ...], topics: tuple[TopicPlan, ...]
) -> tuple[ClientPlan, ...]:
    """Most of the readers say in which rack they are; there is one at least."""
    if not any(client.kind == "reader" for client in clients):
        names = tuple(topic.name for topic in topics)
        options = {"isolation": random.one_of(("read_committed", "read_uncommitted"))}
        clients = (*clients, ClientPlan("reader", "reader-1", names, options=options))
    return tuple(
        msgspec.structs.replace(client, options={**client.options, "rack": random.one_of(RACKS)})
        if client.kind == "reader" and random.below(4) > 0
        else client
        for client in clients
    )


def _transactional(
    random: SeededRandom, number: int, names: tuple[str, ...], pace: Mapping[str, str]
) -> ClientPlan:
    """Of either protocol; half of them consume what they transform."""
    options = {"protocol": random.one_of(("1", "2")), **pace}
    group = f"transformers-{number}" if random.below(2) else ""
    if group:
        options["source"] = names[0]
    return ClientPlan("transactional", f"transactional-{number}", names, group, options)


def _group(random: SeededRandom, kind: str, names: tuple[str, ...]) -> list[ClientPlan]:
    """The members of one group, some of which have a place of their own (group.instance.id)."""
    members = random.one_of((0, 2, 3))
    has_instances = random.below(3) == 0
    assignor = random.one_of(("range", "roundrobin")) if kind == "classic_consumer" else ""
    made = []
    for number in range(1, members + 1):
        options = {"assignor": assignor} if assignor else {}
        if has_instances:
            options["instance"] = f"{kind}-instance-{number}"
        made.append(ClientPlan(kind, f"{kind}-{number}", names, f"group-of-{kind}s", options))
    return made
