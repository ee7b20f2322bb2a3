"""kafka-python 3: produce, consume, groups and admin of a client that is Python to the socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic, fill, until

Fresh = Callable[[], str]


@pytest.fixture
def admin(broker: AnyBroker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def producer(broker: AnyBroker, **settings: Any) -> Any:
    return KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)


def consumer(broker: AnyBroker, *topics: str, **settings: Any) -> Any:
    chosen = {
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 90_000,
        "enable_auto_commit": False,
    } | settings
    return KafkaConsumer(*topics, bootstrap_servers=broker.bootstrap_servers, **chosen)


def take(reader: Any, count: int) -> list[Any]:
    found = [message for _, message in zip(range(count), reader, strict=False)]
    assert len(found) == count
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [1, "all"])
def test_codecs_and_acknowledgements(broker: AnyBroker, fresh: Fresh, codec: str | None, acks: Any) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    sender = producer(
        broker, acks=acks, compression_type=codec, enable_idempotence=acks == "all", linger_ms=5
    )
    answers = [sender.send(topic, b"value %d" % n, key=b"k", headers=[("n", b"%d" % n)]) for n in range(300)]
    assert [answer.get(30).offset for answer in answers] == list(range(300))
    sender.close()
    reader = consumer(broker)
    reader.assign([TopicPartition(topic, 0)])
    found = take(reader, 300)
    reader.close()
    assert [message.value for message in found] == [b"value %d" % n for n in range(300)]
    assert [message.headers for message in found[:2]] == [[("n", b"0")], [("n", b"1")]]


def test_offsets_times_and_seek(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    moment = int(time.time() * 1000) - 10_000
    sender = producer(broker)
    for number in range(10):
        sender.send(topic, b"%d" % number, timestamp_ms=moment + number)
    sender.close()
    reader, there = consumer(broker), TopicPartition(topic, 0)
    reader.assign([there])
    assert (reader.beginning_offsets([there]), reader.end_offsets([there])) == ({there: 0}, {there: 10})
    found = reader.offsets_for_times({there: moment + 4})[there]
    assert (found.offset, found.timestamp) == (4, moment + 4)
    assert reader.offsets_for_times({there: moment + 99}) == {there: None}
    reader.seek(there, 8)
    assert [message.value for message in take(reader, 2)] == [b"8", b"9"]
    reader.close()


def test_a_group_commits_and_goes_on(broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    fill(broker.bootstrap_servers, topic, range(10), partition=0)
    there = TopicPartition(topic, 0)
    reader = consumer(broker, topic, group_id=group)
    assert [message.value for message in take(reader, 4)] == [b"0", b"1", b"2", b"3"]
    reader.commit({there: OffsetAndMetadata(4, "vier", -1)})
    assert reader.committed(there, metadata=True).metadata == "vier"
    reader.close()
    reader = consumer(broker, topic, group_id=group)
    assert [message.value for message in take(reader, 6)] == [b"%d" % n for n in range(4, 10)]
    reader.close()


def test_two_members_share(broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh(), 4), fresh()
    settings = {"group_id": group, "heartbeat_interval_ms": 300, "session_timeout_ms": 6000}
    one, two = (consumer(broker, topic, **settings) for _ in range(2))

    def shared() -> bool:
        for member in (one, two):
            member.poll(50)
        held = one.assignment(), two.assignment()
        return len(held[0]) == len(held[1]) == 2 and held[0].isdisjoint(held[1])

    until(shared, "each has two partitions of its own")
    two.close()

    def alone() -> bool:
        one.poll(50)
        return len(one.assignment()) == 4

    until(alone, "the one that stays has all")
    one.close()


def test_the_admin(broker: AnyBroker, admin: Any, fresh: Fresh) -> None:
    topic = fresh()
    admin.create_topics([NewTopic(topic, 3, 1)])
    until(lambda: topic in admin.list_topics(), "the topic is there")
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 3, 1)])
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    cluster = admin.describe_cluster()
    assert [each["port"] for each in cluster["brokers"]] == [int(broker.bootstrap_servers.split(":")[1])]
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics(), "the topic is gone")


def test_a_transaction_counts_when_it_is_committed(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    sender = producer(broker, transactional_id=topic)
    sender.init_transactions()
    for number in range(4):
        sender.begin_transaction()
        sender.send(topic, b"%d" % number).get(30)
        if number % 2:
            sender.commit_transaction()
        else:
            sender.abort_transaction()
    sender.close()
    reader = consumer(broker, isolation_level="read_committed")
    reader.assign([TopicPartition(topic, 0)])
    assert [message.value for message in take(reader, 2)] == [b"1", b"3"]
    reader.close()
