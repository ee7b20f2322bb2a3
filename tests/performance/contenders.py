"""The two brokers that are compared, each with what is measured of it.

Apache Kafka runs with the heap and the flags of its own start script (1 GB, G1), named in
the table's head. Both keep their data on the same disk; topics live for one measurement.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from tests.performance.processor_time import Spent, spent
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka

KAFKA_FLAGS: Final = (
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
LOGS_NOTHING: Final = 0
"""The client library would tell of each connection that ends with its broker."""
KAFKA_HEAP: Final = "1g"
TOPIC_CONFIG: Final = {"file.delete.delay.ms": "0", "segment.bytes": str(256 << 20)}


class Topic(NamedTuple):
    """A topic that was made for one measurement."""

    name: str
    id_hex: str
    partitions: int

    @property
    def each_partition(self) -> list[tuple[str, str, int]]:
        return [(self.name, self.id_hex, index) for index in range(self.partitions)]


class Contender:
    """One broker under measurement."""

    is_broker = True

    def __init__(self, name: str, process: BarnabasProcess | GenuineKafka) -> None:
        self.name = name
        began = time.perf_counter()
        self.process = process.start()
        self.ready_seconds = time.perf_counter() - began
        self._admin = AdminClient({"bootstrap.servers": process.bootstrap_servers, "log_level": LOGS_NOTHING})
        self._made = 0

    @property
    def port(self) -> int:
        return int(self.process.bootstrap_servers.rpartition(":")[2])

    def spent(self) -> Spent:
        return spent(self.process.pid)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def make_topic(self, partitions: int, config: dict[str, str] | None = None) -> Topic:
        self._made += 1
        name = f"bench-{self._made}"
        new = NewTopic(
            name, num_partitions=partitions, replication_factor=1, config=TOPIC_CONFIG | (config or {})
        )
        self._admin.create_topics([new])[name].result(30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                found = self._admin.describe_topics(TopicCollection([name]))[name].result(10)
                latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
                wanted = {TopicPartition(name, index): latest for index in range(partitions)}
                for offset in self._admin.list_offsets(wanted).values():
                    offset.result(10)
            except KafkaException:
                time.sleep(0.1)  # created, but not yet led
                continue
            return Topic(name, _uuid_hex(found.topic_id), partitions)
        raise RuntimeError(f"{self.name} did not make the topic {name}")

    def count_records(self, topic: Topic) -> int:
        """By the end offsets of its partitions, none of which has lost any."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(topic.name, index): latest for index in range(topic.partitions)}
        return sum(each.result(30).offset for each in self._admin.list_offsets(wanted).values())

    def delete_topic(self, topic: Topic) -> None:
        self._admin.delete_topics([topic.name])[topic.name].result(30)

    def stop(self) -> None:
        self.process.stop()


def _uuid_hex(topic_id: object) -> str:
    from protocol.values import uuid_from_text

    return uuid_from_text(str(topic_id)).hex()


class OtherCheckout(BarnabasProcess):
    """A broker of another working tree."""

    def __init__(self, data: Path, root: Path) -> None:
        super().__init__(data)
        self._working_directory = root


def start_barnabas(folder: Path, **overrides: str) -> Contender:
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return Contender("Barnabas", BarnabasProcess(folder / f"barnabas-{len(given)}", given))


def start_kafka(folder: Path) -> Contender:
    kafka = GenuineKafka(folder / "kafka", heap=KAFKA_HEAP)
    kafka.flags = KAFKA_FLAGS
    return Contender("Apache Kafka", kafka)
