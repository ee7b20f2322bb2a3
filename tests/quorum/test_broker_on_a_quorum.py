"""A broker whose node is one of three controllers: it works whoever leads, and while a leader dies."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.quorum.conftest import NewQuorum
from tests.support.brokers.ports import free_ports
from tests.support.brokers.quorum import OURS, Quorum
from tests.support.clients.librdkafka import until


def create(admin: AdminClient, name: str) -> None:
    for outcome in admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)]).values():
        outcome.result(60)


def pass_through(servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None, f"{len(values)} of {count} records came"
        values.append(message.value())
    consumer.close()
    assert values == [str(number).encode() for number in range(count)]


@pytest.fixture
def with_broker(new_quorum: NewQuorum) -> tuple[Quorum, str]:
    """Node 1 is a broker too."""
    quorum = new_quorum(OURS, OURS, OURS)
    node, port = quorum.members[1], free_ports(1)[0]
    node.stop()
    servers = f"127.0.0.1:{port}"
    node.properties |= {
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{servers},CONTROLLER://{node.address}",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    node.start()
    quorum.await_caught_up(1, 2, 3)
    admin = AdminClient({"bootstrap.servers": servers})
    until(lambda: 1 in admin.list_topics(timeout=60).brokers, "the broker is unfenced", timeout_seconds=120)
    return quorum, servers


def test_topics_are_made_and_used_whoever_leads_and_while_a_leader_dies(
    with_broker: tuple[Quorum, str],
) -> None:
    quorum, servers = with_broker
    admin = AdminClient({"bootstrap.servers": servers})
    first = quorum.await_leader()
    create(admin, "before")
    pass_through(servers, "before", 100)
    lost = first.node_id if first.node_id != 1 else 2
    quorum.members[lost].kill()
    create(admin, "while-one-dies")
    pass_through(servers, "while-one-dies", 100)
    quorum.members[lost].start()
    led = quorum.await_caught_up(1, 2, 3)
    quorum.commit(1_000_001)
    assert led.epoch > first.epoch or first.node_id == 1
