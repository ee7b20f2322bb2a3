"""Topics that grow, are cut and are made in a hurry, by the admin clients of librdkafka and kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions as PythonNewPartitions
from kafka.structs import TopicPartition as PythonTopicPartition

from tests.conftest import AnyBroker
from tests.support.clients.topics import PATIENCE_SECONDS, Topics

Fresh = Callable[[], str]


@pytest.fixture(scope="module")
def topics(broker: AnyBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def python_admin(broker: AnyBroker) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield admin
    admin.close()


def refusal(future: Any) -> tuple[int, str]:
    """(code, text) of what a future of librdkafka was refused with."""
    with pytest.raises(KafkaException) as refused:
        future.result(PATIENCE_SECONDS)
    error = refused.value.args[0]
    return error.code(), error.str()


def read(broker: AnyBroker, topic: str, start: int, count: int, *, reset: str = "earliest") -> list[int]:
    """The offsets of the next so many records of partition 0, for a consumer that begins at `start`."""
    options: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic}
    consumer = Consumer({**options, "auto.offset.reset": reset, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, start)])
    offsets: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while len(offsets) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error():
                raise KafkaException(message.error())
            if message is not None:
                offsets.append(int(message.offset() or 0))
    finally:
        consumer.close()
    return offsets


def grow(topics: Topics, topic: str, count: int, assigned: list[list[int]] | None = None) -> Any:
    wanted = NewPartitions(topic, count, **({} if assigned is None else {"replica_assignment": assigned}))
    return topics.admin.create_partitions([wanted])[topic]


def test_a_topic_grows_under_its_clients(topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh())
    topics.fill(topic, 5, 1)
    grow(topics, topic, 3).result(PATIENCE_SECONDS)
    topics.await_partitions(topic, 3)
    for partition in (1, 2):
        topics.produce(topic, [f"{partition}-0"], partition=partition)
    assert sorted(record.text for record in topics.consume(topic, 3)) == [
        "0-0", "0-1", "0-2", "0-3", "0-4", "1-0", "2-0",
    ]  # fmt: skip


def test_growing_that_is_none(topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), 2)
    assert refusal(grow(topics, topic, 2)) == (
        KafkaError.INVALID_PARTITIONS,
        "Topic already has 2 partition(s).",
    )
    assert refusal(grow(topics, topic, 1)) == (
        KafkaError.INVALID_PARTITIONS,
        f"The topic {topic} currently has 2 partition(s); 1 would not be an increase.",
    )
    assert refusal(grow(topics, topic, 3, [[7]])) == (
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    )
    assert topics.partition_count(topic) == 2


def test_cut_records_are_gone_for_every_reader(broker: AnyBroker, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), 2)
    topics.fill(topic, 10, 2)
    at = [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, -1)]
    cut = topics.admin.delete_records(at)
    assert [cut[place].result(PATIENCE_SECONDS).low_watermark for place in at] == [4, 10]
    assert read(broker, topic, 0, 6) == list(range(4, 10))
    with pytest.raises(KafkaException) as refused:
        read(broker, topic, 2, 6, reset="error")
    assert refused.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET, "the offset is out of range"
    topics.produce(topic, ["next"], partition=1)
    assert topics.end_offsets(topic, 2) == {0: 10, 1: 11}


def test_a_reader_below_the_cut_goes_on_at_the_beginning(
    broker: AnyBroker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.fill(topic, 10, 1)
    place = TopicPartition(topic, 0, 7)
    topics.admin.delete_records([place])[place].result(PATIENCE_SECONDS)
    assert read(broker, topic, 1, 3) == [7, 8, 9]


def test_cuts_that_are_refused(topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh())
    compacted = topics.create(fresh(), config={"cleanup.policy": "compact"})
    topics.fill(topic, 3, 1)
    beyond, policy = TopicPartition(topic, 0, 4), TopicPartition(compacted, 0, 0)
    cut = topics.admin.delete_records([beyond, policy])
    assert refusal(cut[beyond])[0] == KafkaError.OFFSET_OUT_OF_RANGE
    assert refusal(cut[policy])[0] == KafkaError.POLICY_VIOLATION
    assert len(topics.consume(topic)) == 3


def test_kafka_python_grows_and_cuts(
    broker: AnyBroker, python_admin: Any, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.fill(topic, 10, 1)
    python_admin.create_partitions({topic: PythonNewPartitions(2)})
    topics.await_partitions(topic, 2)
    cut = python_admin.delete_records({PythonTopicPartition(topic, 0): 6})
    assert cut[PythonTopicPartition(topic, 0)]["low_watermark"] == 6
    assert read(broker, topic, 0, 4) == [6, 7, 8, 9]


def test_one_name_in_many_hands(broker: AnyBroker, topics: Topics, fresh: Fresh) -> None:
    """Created and deleted by several clients at once: each attempt has one winner."""
    topic = fresh()

    def hand(_: int) -> list[str]:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        outcomes = []
        for _ in range(8):
            for verb, future in (
                ("made", admin.create_topics([NewTopic(topic, 2, 1)])),
                ("gone", admin.delete_topics([topic])),
            ):
                try:
                    future[topic].result(PATIENCE_SECONDS)
                    outcomes.append(verb)
                except KafkaException as refused:
                    outcomes.append(refused.args[0].name())
        return outcomes

    with ThreadPoolExecutor(4) as pool:
        outcomes = [each for hands in pool.map(hand, range(4)) for each in hands]
    expected = {"made", "gone", "TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PART"}
    assert set(outcomes) <= expected, set(outcomes) - expected
    made, gone = outcomes.count("made"), outcomes.count("gone")
    assert made - gone in (0, 1)
    if made > gone:
        topics.delete(topic)
    topics.await_partitions(topic, 0)
    topics.create(topic, 3)
    topics.fill(topic, 4, 3)
    assert topics.end_offsets(topic, 3) == {0: 4, 1: 4, 2: 4}
