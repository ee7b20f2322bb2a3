"""Consumers of librdkafka with `group.protocol=consumer` share a topic, lose members and take over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill

WAIT_SECONDS = 90


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    overrides = {
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.assignment.interval.ms": "100",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
    }
    with BarnabasProcess(tmp_path / "data", overrides) as process:
        yield process


def consumer(address: str, **options: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )


class Reader:
    """A consumer with what it has read."""

    def __init__(self, address: str, topics: list[str], **options: str) -> None:
        self.consumer = consumer(address, **options)
        self.consumer.subscribe(topics)
        self.seen: list[bytes | None] = []

    def poll(self) -> None:
        message = self.consumer.poll(0.1)
        if message is None:
            return
        error = message.error()
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error
        if error is None:
            self.seen.append(message.value())

    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}


def wait_for(readers: list[Reader], sizes: list[int]) -> None:
    """Poll until the readers share the partitions so."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        for reader in readers:
            reader.poll()
        owned = [reader.partitions() for reader in readers]
        if sorted(map(len, owned)) == sorted(sizes):
            assert sum(map(len, owned)) == len(set().union(*owned)), owned
            return
    pytest.fail(f"after {WAIT_SECONDS} s the readers have {[r.partitions() for r in readers]}")


def test_members_share_take_over_and_commit(broker: BarnabasProcess) -> None:
    address = broker.bootstrap_servers
    create_topic(address, "t", 4)
    for partition in range(4):
        fill(address, "t", [f"{partition}-{number}" for number in range(5)], partition=partition)
    a = Reader(address, ["t"])
    wait_for([a], [4])
    b = Reader(address, ["t"])
    wait_for([a, b], [2, 2])
    c = Reader(address, ["^t.*"])
    wait_for([a, b, c], [2, 1, 1])
    deadline = time.monotonic() + WAIT_SECONDS
    while len({*a.seen, *b.seen, *c.seen}) < 20 and time.monotonic() < deadline:
        for reader in (a, b, c):
            reader.poll()
    assert len({*a.seen, *b.seen, *c.seen}) == 20
    own = sorted(c.partitions())
    c.consumer.commit(offsets=[TopicPartition("t", own[0], 5)], asynchronous=False)
    assert c.consumer.committed([TopicPartition("t", own[0])], timeout=30)[0].offset == 5
    c.consumer.close()
    wait_for([a, b], [2, 2])
    b.consumer.close()
    wait_for([a], [4])
    broker.kill()
    broker.start()
    wait_for([a], [4])
    a.consumer.close()
