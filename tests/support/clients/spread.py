"""Records on partitions of given brokers: a topic of chosen places, written and read back by librdkafka."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

__all__ = ["create_placed", "numbered_values", "read_all", "write_to_all"]


def create_placed(servers: str, topic: str, replicas: Sequence[Sequence[int]]) -> None:
    """A topic of a new name whose partition i lies on the brokers replicas[i], the preferred leader first.

    A broker asks the next controller when one falls silent, which may have made the topic before.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    placed = [list(brokers) for brokers in replicas]
    wanted = NewTopic(topic, num_partitions=len(placed), replica_assignment=placed)
    for outcome in admin.create_topics([wanted]).values():
        try:
            outcome.result(60)
        except KafkaException as refusal:
            if refusal.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def write_to_all(servers: str, topic: str, partitions: int, count: int, *, first: int = 0) -> None:
    """The values `partition:number` for count numbers from first on, acknowledged by all of the ISR.

    In this order also where the first batch is refused by a broker that does not lead yet: one request at a
    time is on its way. The producer is not idempotent, since some tests have nobody who would give it an id.
    """
    one_by_one = {"max.in.flight.requests.per.connection": 1}
    producer = Producer({"bootstrap.servers": servers, "acks": "all", **one_by_one})
    for number in range(first, first + count):
        for partition in range(partitions):
            producer.produce(topic, f"{partition}:{number}".encode(), partition=partition)
    assert producer.flush(60) == 0


def numbered_values(partitions: int, count: int) -> dict[int, list[bytes]]:
    """What `write_to_all` has written, by partition."""
    return {
        partition: [f"{partition}:{number}".encode() for number in range(count)]
        for partition in range(partitions)
    }


def read_all(servers: str, topic: str, partitions: int, count: int) -> dict[int, list[bytes]]:
    """The first count values of each partition, in their order."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "by-hand", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    while any(len(each) < count for each in values.values()):
        message = consumer.poll(60)
        assert message is not None, f"so far {values}"
        assert message.error() is None, message.error()
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        values[partition].append(value)
    consumer.close()
    return {partition: each[:count] for partition, each in values.items()}
