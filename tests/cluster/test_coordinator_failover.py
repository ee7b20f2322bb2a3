"""Group coordinators go where the leaders of their partitions go, and the groups with them."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.clients.spread import create_placed
from tests.support.clients.wire_client import WireClient

GROUP = "workers"
TOPIC = "work"
REPLICATED = FAST | {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "1"}


def three_nodes(new_cluster: NewCluster) -> Cluster:
    """With a topic of one partition on all of them."""
    cluster = new_cluster(
        OURS, OURS, OURS, **{key.replace(".", "_"): value for key, value in REPLICATED.items()}
    )
    create_placed(cluster.bootstrap, TOPIC, [[1, 2, 3]])
    return cluster


def coordinator(cluster: Cluster) -> int:
    """The broker that every running one names."""

    def agreed() -> int | None:
        named = set()
        for node_id in cluster.brokers:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
            with WireClient(cluster.nodes[node_id].client_address) as client:
                (found,) = client.ask_for(FindCoordinatorResponse, request, 4).coordinators
            named.add(found.node_id if found.error_code == ErrorCode.NONE else -1)
        (only,) = named if len(named) == 1 else {-1}
        return only if only in cluster.brokers else None

    return cluster.wait(agreed, "coordinator that all brokers name")


def write(cluster: Cluster, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(60) == 0


def member(cluster: Cluster) -> Consumer:
    servers = ",".join(node.client_address for node in cluster.nodes.values())
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 45_000,
        }
    )


def read(consumer: Consumer, count: int) -> list[int]:
    values: list[int] = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None, f"so far {values}"
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        values.append(int(value))
    return values


def test_committed_offsets_are_where_the_next_coordinator_is(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster)
    write(cluster, 0, 20)
    first = member(cluster)
    first.subscribe([TOPIC])
    assert read(first, 20) == list(range(20))
    first.commit(offsets=[TopicPartition(TOPIC, 0, 13)], asynchronous=False)
    first.close()
    former = coordinator(cluster)
    cluster.nodes[former].kill()
    assert coordinator(cluster) != former
    second = member(cluster)
    (committed,) = second.committed([TopicPartition(TOPIC, 0)], timeout=60)
    assert committed.offset == 13
    second.subscribe([TOPIC])
    assert read(second, 7) == list(range(13, 20))
    second.close()


def test_a_member_goes_on_with_the_next_coordinator(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster)
    write(cluster, 0, 5)
    consumer = member(cluster)
    consumer.subscribe([TOPIC])
    assert read(consumer, 5) == list(range(5))
    consumer.commit(asynchronous=False)
    former = coordinator(cluster)
    cluster.nodes[former].kill()
    assert coordinator(cluster) != former
    write(cluster, 5, 5)
    assert read(consumer, 5) == list(range(5, 10))
    consumer.commit(asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)
    assert committed.offset == 10
    consumer.close()
