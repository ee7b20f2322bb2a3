"""Transactions of a genuine client on one node and on three, whose coordinator, leaders and clients die.

A reader of committed records sees each record of a committed transaction once and none of an aborted one,
whoever is killed in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.clients.ledger_load import finish
from tests.support.clients.librdkafka import until
from tests.support.clients.spread import create_placed
from tests.support.clients.wire_client import WireClient

TOPIC = "ledger"
PATIENCE_SECONDS = 120
SHORT = FAST | {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
REPLICATED = SHORT | {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}


def nodes(new_cluster: NewCluster, count: int) -> Cluster:
    """With a topic of two partitions that all of them host."""
    properties = REPLICATED if count > 1 else SHORT
    cluster = new_cluster(
        *[OURS] * count, **{key.replace(".", "_"): value for key, value in properties.items()}
    )
    ids = list(cluster.nodes)
    create_placed(cluster.bootstrap, TOPIC, [ids, ids[::-1]])
    return cluster


def servers(cluster: Cluster) -> str:
    """Addresses of all nodes, for clients that outlive some of them."""
    return ",".join(node.client_address for node in cluster.nodes.values())


def producer(cluster: Cluster, name: str = "tx", timeout_ms: int = 60_000) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": servers(cluster),
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": min(timeout_ms, 60_000),
        }
    )
    made.init_transactions(PATIENCE_SECONDS)
    return made


def write(sender: Producer, values: Iterable[str]) -> None:
    """One record for each partition."""
    for value in values:
        for partition in range(2):
            sender.produce(TOPIC, value, partition=partition)


def committed(cluster: Cluster, partition: int) -> list[str]:
    """All that a reader of committed records sees up to the last stable offset."""
    reader = Consumer(
        {
            "bootstrap.servers": servers(cluster),
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    reader.assign([TopicPartition(TOPIC, partition, 0)])
    found = []
    while (message := reader.poll(PATIENCE_SECONDS)) is not None and message.error() is None:
        found.append((message.value() or b"").decode())
    reader.close()
    return found


def coordinator(cluster: Cluster, name: str = "tx") -> int:
    """The broker that every running one names."""

    def agreed() -> int | None:
        named = set()
        for node_id in cluster.brokers:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
            with WireClient(cluster.nodes[node_id].client_address) as client:
                (found,) = client.ask_for(FindCoordinatorResponse, request, 4).coordinators
            named.add(found.node_id if found.error_code == ErrorCode.NONE else -1)
        (only,) = named if len(named) == 1 else {-1}
        return only if only in cluster.brokers else None

    return cluster.wait(agreed, "coordinator that all brokers name")


def state(cluster: Cluster, name: str = "tx") -> str:
    with WireClient(cluster.nodes[coordinator(cluster, name)].client_address) as client:
        request = DescribeTransactionsRequest([name])
        (found,) = client.ask_for(DescribeTransactionsResponse, request, 0).transaction_states
    return found.transaction_state


@pytest.mark.parametrize("count", [1, 3])
def test_readers_see_exactly_what_was_committed(new_cluster: NewCluster, count: int) -> None:
    cluster = nodes(new_cluster, count)
    senders = [producer(cluster, f"tx-{number}") for number in range(3)]
    expected = []
    for turn in range(6):
        for sender in senders:
            sender.begin_transaction()
        for number, sender in enumerate(senders):
            write(sender, [f"{turn}-{number}-{place}" for place in range(3)])
        for number, sender in enumerate(senders):
            if finish(sender, commit=(turn + number) % 3 > 0):
                expected += [f"{turn}-{number}-{place}" for place in range(3)]
    assert len(expected) == 36
    for partition in range(2):
        until(lambda at=partition: sorted(committed(cluster, at)) == sorted(expected), "all is stable")  # type: ignore[misc]


def test_the_coordinator_is_killed_again_and_again(new_cluster: NewCluster) -> None:
    """Before a transaction begins, in the midst of one, and right after the commit was asked for."""
    cluster = nodes(new_cluster, 3)
    sender = producer(cluster)
    expected = []
    for turn in range(4):
        former = coordinator(cluster)
        if turn % 3 == 0:
            cluster.nodes[former].kill()
        sender.begin_transaction()
        values = [f"{turn}-{place}" for place in range(5)]
        write(sender, values)
        if turn % 3 == 1:
            sender.flush(PATIENCE_SECONDS)
            cluster.nodes[former].kill()
        if finish(sender, commit=turn != 3):
            expected += values
        if turn % 3 == 2:
            cluster.nodes[former].kill()
        cluster.nodes[former].start()
        cluster.await_brokers()
    assert len(expected) >= 10, "most transactions outlive their coordinator"
    for partition in range(2):
        until(lambda at=partition: committed(cluster, at) == expected, "all is stable", timeout_seconds=60)  # type: ignore[misc]


def test_a_node_that_dies_with_an_open_transaction(new_cluster: NewCluster) -> None:
    """It knows the transaction when it is back: readers wait, and the next producer of its name aborts it."""
    cluster = nodes(new_cluster, 1)
    sender = producer(cluster)
    sender.begin_transaction()
    write(sender, ["committed"])
    assert finish(sender, commit=True)
    sender.begin_transaction()
    write(sender, ["open"])
    assert sender.flush(PATIENCE_SECONDS) == 0
    node = cluster.nodes[1]
    node.kill()
    node.start()
    cluster.await_brokers()
    assert state(cluster) == "Ongoing"
    assert committed(cluster, 0) == ["committed"]
    successor = producer(cluster)
    successor.begin_transaction()
    write(successor, ["next"])
    assert finish(successor, commit=True)
    until(lambda: committed(cluster, 0) == ["committed", "next"], "the open one is aborted")


def test_a_producer_that_dies_is_aborted_when_its_time_is_over(new_cluster: NewCluster) -> None:
    cluster = nodes(new_cluster, 1)
    sender = producer(cluster, timeout_ms=2_000)
    begun_at = time.monotonic()
    sender.begin_transaction()
    write(sender, ["late"])
    assert sender.flush(PATIENCE_SECONDS) == 0
    found = state(cluster)
    assert found == "Ongoing" or time.monotonic() - begun_at > 2, found
    until(lambda: state(cluster) == "CompleteAbort", "the transaction is aborted")
    with pytest.raises(KafkaException):
        sender.commit_transaction(30)
    assert committed(cluster, 0) == []
    other = producer(cluster, "other")
    other.begin_transaction()
    write(other, ["seen"])
    assert finish(other, commit=True)
    until(lambda: committed(cluster, 0) == ["seen"], "nothing stands in the way of later ones")


def test_offsets_move_with_the_transaction(new_cluster: NewCluster) -> None:
    """On three nodes the offsets' coordinator and the transaction's are asked by whoever leads, and one of
    them dies in between."""
    cluster = nodes(new_cluster, 3)
    sender = producer(cluster)
    reader = Consumer(
        {"bootstrap.servers": servers(cluster), "group.id": "movers", "isolation.level": "read_committed"}
    )
    place = [TopicPartition(TOPIC, 0)]

    def moved() -> int:
        (found,) = reader.committed(place, PATIENCE_SECONDS)
        return int(found.offset)

    for turn, commit in enumerate((True, False, True)):
        sender.begin_transaction()
        write(sender, [f"{turn}"])
        at = [TopicPartition(TOPIC, 0, turn + 1)]
        sender.send_offsets_to_transaction(at, reader.consumer_group_metadata(), PATIENCE_SECONDS)
        if turn == 2:
            cluster.nodes[coordinator(cluster)].kill()
        ended = finish(sender, commit=commit)
        assert ended == commit or turn == 2
        if ended:
            expected = turn + 1
        until(lambda: moved() == expected, f"offset {expected} is committed", timeout_seconds=60)  # noqa: B023
    reader.close()
