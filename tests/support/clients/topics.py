"""Topics and records for tests, by way of a genuine client (librdkafka)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError, NewTopic

PATIENCE_SECONDS: Final = 90
Headers = list[tuple[str, bytes | None]]


class ReadRecord(NamedTuple):
    """One record as a consumer got it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    @property
    def text(self) -> str:
        return "" if self.value is None else self.value.decode()


class Topics:
    """Creates, deletes, fills and reads topics of one broker; each call returns when it is done."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "logger": _silent()}
        self.admin = AdminClient(self._client)

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([new])[topic].result(PATIENCE_SECONDS)
        self.await_partitions(topic, partitions)
        return topic

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
        self.await_partitions(topic, 0)

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """A new topic of the same name.

        Deleting goes on after it was answered, so creating may need another try.
        """
        self.delete(topic)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.create(topic, partitions)
                return
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def names(self) -> list[str]:
        return sorted(self.admin.list_topics(timeout=PATIENCE_SECONDS).topics)

    def partition_count(self, topic: str) -> int:
        """Zero where there is no such topic. Lists all topics, as asking for one could create it."""
        found = self.admin.list_topics(timeout=PATIENCE_SECONDS).topics.get(topic)
        return 0 if found is None or found.error else len(found.partitions)

    def await_partitions(self, topic: str, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.partition_count(topic) != count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} has {self.partition_count(topic)} partitions, not {count}")
            time.sleep(0.02)

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        *,
        partition: int = 0,
        key: str | bytes | None = None,
        timestamp_ms: int | None = None,
        step_ms: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Records to one partition, acknowledged; timestamps go up by ``step_ms``.

        Each call has a producer of its own, which knows nothing of a topic's earlier life.
        """
        producer = Producer({**self._client, "linger.ms": 0})
        failures: list[Any] = []

        def delivered(error: Any, _: object) -> None:
            if error is not None:
                failures.append(error)

        for number, value in enumerate(values):
            options: dict[str, Any] = {"headers": headers or [], "on_delivery": delivered}
            if timestamp_ms is not None:
                options["timestamp"] = timestamp_ms + number * step_ms
            producer.produce(topic, value, key, partition, **options)
            producer.poll(0)
        left = producer.flush(PATIENCE_SECONDS)
        if left or failures:
            raise AssertionError(f"{left} records unsent, {len(failures)} refused: {failures[:1]}")

    def fill(self, topic: str, per_partition: int, partitions: int, start: int = 0) -> None:
        """Values ``<partition>-<number>``, so many for each partition."""
        for partition in range(partitions):
            numbers = range(start, start + per_partition)
            self.produce(topic, [f"{partition}-{number}" for number in numbers], partition=partition)

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        consumer = self._consumer()
        try:
            return {partition: _end_offset(consumer, topic, partition) for partition in range(partitions)}
        finally:
            consumer.close()

    def consume(self, topic: str, partitions: int = 1) -> list[ReadRecord]:
        """All records from the start to the end as it is now."""
        consumer = self._consumer()
        records: list[ReadRecord] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            ends = {number: _end_offset(consumer, topic, number) for number in range(partitions)}
            unread = {number for number, end in ends.items() if end}
            consumer.assign([TopicPartition(topic, number, 0) for number in sorted(unread)])
            while unread:
                message: Any = consumer.poll(1.0)
                if message is None or message.error():
                    if time.monotonic() > deadline:
                        raise AssertionError(f"{topic}: {len(records)} records came, {ends} are the ends")
                    continue
                record = ReadRecord(
                    message.topic(), message.partition(), message.offset(),
                    message.key(), message.value(), message.headers(),
                )  # fmt: skip
                records.append(record)
                if record.offset + 1 >= ends[record.partition]:
                    unread.discard(record.partition)
        finally:
            consumer.close()
        return records

    def _consumer(self) -> Consumer:
        options = {"group.id": "only-assigned", "enable.auto.commit": False, "auto.offset.reset": "error"}
        return Consumer({**self._client, **options})


def _end_offset(consumer: Consumer, topic: str, partition: int) -> int:
    found = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_SECONDS)
    return int(found[1])


def _silent() -> logging.Logger:
    """librdkafka complains on standard error of each broker that a test stops."""
    logger = logging.getLogger("librdkafka.tests")
    logger.setLevel(logging.CRITICAL)
    return logger
