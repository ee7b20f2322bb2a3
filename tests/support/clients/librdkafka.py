"""Little ways to use confluent-kafka in tests: fill a topic, take so many messages, wait for a state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

COORDINATOR_COMES: Final = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def settings(address: str, **named: Any) -> dict[str, Any]:
    """librdkafka's names, with their dots written as underscores."""
    return {"bootstrap.servers": address} | {key.replace("_", "."): value for key, value in named.items()}


def create_topic(address: str, name: str, partitions: int = 1, **config: str) -> str:
    """A new topic, and the broker knows it: the controller's answer alone does not say that."""
    admin = AdminClient(settings(address))
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(90)
    until(lambda: name in admin.list_topics(timeout=90).topics, f"the broker learns of {name}")
    return name


def fill(
    address: str, topic: str, values: Iterable[Any], *, partition: int | None = None, **named: Any
) -> None:
    """Each value acknowledged, in order. Without a partition the values are their own keys."""
    producer = Producer(settings(address, enable_idempotence=True, **named))
    refused: list[Any] = []

    def told(error: Any, _: Message) -> None:
        if error is not None:
            refused.append(error)

    for value in values:
        place: dict[str, Any] = {"key": str(value)} if partition is None else {"partition": partition}
        producer.produce(topic, str(value), on_delivery=told, **place)
    assert producer.flush(60) == 0
    assert refused == []


def commit(address: str, group: str, *offsets: TopicPartition) -> list[TopicPartition]:
    """Offsets of a group without members, and what was said to them."""
    reader = Consumer(settings(address, group_id=group))
    told = commit_by(reader, *offsets)
    reader.close()
    return told


def commit_by(reader: Consumer, *offsets: TopicPartition) -> list[TopicPartition]:
    """A coordinator that is being made, or comes back, says so at first, and librdkafka leaves it at that."""
    told: list[TopicPartition] = []

    def committed() -> bool:
        try:
            told[:] = reader.commit(offsets=list(offsets), asynchronous=False) or []
        except KafkaException as refusal:
            if refusal.args[0].code() not in COORDINATOR_COMES:
                raise
            return False
        return True

    until(committed, "the offsets are committed")
    return told


def take(consumer: Consumer, count: int, *, timeout_seconds: float = 120) -> list[Message]:
    """The next so many messages; fewer come only with an error, which fails the test."""
    found: list[Message] = []
    deadline = time.monotonic() + timeout_seconds
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    if len(found) < count:
        pytest.fail(f"{len(found)} of {count} messages came in {timeout_seconds} s")
    return found


def texts(messages: Iterable[Message]) -> list[str]:
    return [(message.value() or b"").decode() for message in messages]


def until(condition: Callable[[], object], what: str, *, timeout_seconds: float = 120) -> None:
    """Asks again until something is the case."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not in {timeout_seconds} s")
        time.sleep(0.02)
