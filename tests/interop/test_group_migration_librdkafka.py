"""Consumers of librdkafka of both protocols are in one group, which changes its protocol while it runs.

Nobody stops: each consumer says itself what it has, by the callbacks of its rebalances, and no partition
is ever had by two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill
from tests.support.clients.wire_client import WireClient

WAIT_SECONDS = 90
PARTITIONS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    overrides = {
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "6000",
        # The first two join in one generation: an assignment of a later one carries user data of librdkafka's
        # assignor, and a group with such cannot become one of the newer protocol, as with Kafka's broker.
        "group.initial.rebalance.delay.ms": "3000",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
    }
    with BarnabasProcess(tmp_path / "data", overrides) as process:
        yield process


class Owners:
    """Who has which partition, by the owners' own words."""

    def __init__(self) -> None:
        self.by_partition: dict[int, str] = {}
        self.changes = 0

    def takes(self, name: str, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            holder = self.by_partition.setdefault(each.partition, name)
            assert holder == name, f"partition {each.partition} is {holder}'s, and {name} takes it"
            self.changes += 1

    def gives(self, name: str, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            assert self.by_partition.pop(each.partition) == name


class Reader:
    """A consumer that tells what it has, and has read."""

    def __init__(self, address: str, name: str, owners: Owners, protocol: str) -> None:
        options = {
            "bootstrap.servers": address,
            "group.id": "g",
            "client.id": name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        if protocol == "classic":
            options |= {
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": "200",
                "session.timeout.ms": "30000",
            }
        self.name, self.owners = name, owners
        self.seen: set[bytes | None] = set()
        self.consumer = Consumer(options)
        self.consumer.subscribe(["t"], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked)

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owners.takes(self.name, partitions)
        consumer.incremental_assign(partitions)

    def revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        self.owners.gives(self.name, partitions)

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        error = None if message is None else message.error()
        if message is not None and error is None:
            self.seen.add(message.value())
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error

    def count(self) -> int:
        return list(self.owners.by_partition.values()).count(self.name)


def poll_until(readers: list[Reader], holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, (what, readers[0].owners.by_partition)
        for reader in readers:
            reader.poll()


def shared(readers: list[Reader]) -> Callable[[], bool]:
    """Whether the readers share all partitions evenly."""
    fair = [PARTITIONS // len(readers), -(-PARTITIONS // len(readers))]

    def holds() -> bool:
        counts = [reader.count() for reader in readers]
        return sum(counts) == PARTITIONS and min(counts) >= fair[0] and max(counts) <= fair[1]

    return holds


def type_of_group(address: str) -> str:
    with closing(WireClient(address)) as client:
        (group,) = client.ask_for(ListGroupsResponse, ListGroupsRequest(), 5).groups
        return group.group_type


def test_a_group_goes_to_the_newer_protocol_and_back_while_its_members_read(broker: BarnabasProcess) -> None:
    address = broker.bootstrap_servers
    create_topic(address, "t", PARTITIONS)
    written = set()
    for partition in range(PARTITIONS):
        values = [f"{partition}-{number}" for number in range(5)]
        fill(address, "t", values, partition=partition)
        written |= {value.encode() for value in values}
    owners = Owners()
    old = [Reader(address, f"old{number}", owners, "classic") for number in range(2)]
    poll_until(old, shared(old), "two classic members")
    assert type_of_group(address) == "classic"
    new = [Reader(address, "new0", owners, "consumer")]
    poll_until([*old, *new], shared([*old, *new]), "one of the newer protocol has joined")
    assert type_of_group(address) == "consumer"
    new.append(Reader(address, "new1", owners, "consumer"))
    late = Reader(address, "old2", owners, "classic")
    poll_until([*old, late, *new], shared([*old, late, *new]), "five members share four partitions")
    mine = next(reader for reader in [*old, late] if reader.count())
    (partition,) = [number for number, name in owners.by_partition.items() if name == mine.name]
    mine.consumer.commit(offsets=[TopicPartition("t", partition, 3)], asynchronous=False)
    broker.kill()
    broker.start()
    for reader in new:
        reader.consumer.close()
    left = [*old, late]
    poll_until(left, shared(left), "only classic members are left")
    assert type_of_group(address) == "classic"
    assert mine.consumer.committed([TopicPartition("t", partition)], timeout=30)[0].offset == 3
    poll_until(left, lambda: written <= set().union(*(each.seen for each in [*left, *new])), "all is read")
    assert owners.changes > PARTITIONS
    for reader in left:
        reader.consumer.close()
    assert owners.by_partition == {}
