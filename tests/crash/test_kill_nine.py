"""kill -9 in the middle of a load, again and again: what was acknowledged is there, once, in order.

The page cache survives the death of a process, so nothing that the broker has acknowledged may be missing,
even without any flush. Two kinds of producer run through each crash: a genuine idempotent one (librdkafka),
which goes on by itself when the broker is back and must neither lose nor repeat anything, and a second one
with acks=all whose acknowledged records are compared with the log.

Each crash has its own seed, which decides when it comes and how large the records are. Thirty in all; the
number of records in flight at each crash is printed and must be above zero, or the crash proved nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.numbered_load import PATIENCE_SECONDS, Load, number_of

PARTITIONS: Final = 3
CRASHES_PER_LIFE: Final = 6
LIVES: Final = 5


class Reader:
    """Reads on from where it was, with a genuine consumer, up to the end of each partition."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.read: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._offsets = [0] * PARTITIONS
        self._config = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "crash-test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }

    def to_the_end(self) -> None:
        consumer = Consumer(self._config)
        consumer.assign([TopicPartition(self.topic, index, at) for index, at in enumerate(self._offsets)])
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{self.topic} could not be read to its end"
            for message in consumer.consume(5_000, timeout=0.2):
                self._take(message, ended)
        consumer.close()

    def _take(self, message: Message, ended: set[int]) -> None:
        partition, offset, value, error = (
            message.partition(),
            message.offset(),
            message.value(),
            message.error(),
        )
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(int(partition or 0))
            return
        assert partition is not None
        assert isinstance(value, bytes)
        assert offset == self._offsets[partition], "offsets have no holes"
        self._offsets[partition] = offset + 1
        self.read[partition].append(number_of(value))


@pytest.fixture
def broker(tmp_path: Path, life: int) -> Iterator[BarnabasProcess]:
    """Small segments, so that crashes meet rolls; in every other life recovery points are written often."""
    often = {"log.flush.offset.checkpoint.interval.ms": "500"} if life % 2 else {}
    process = BarnabasProcess(tmp_path / "data", {"log.segment.bytes": str(1 << 20)} | often)
    with process.start():
        yield process


def make_topics(broker: BarnabasProcess, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    new = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in names]
    for future in admin.create_topics(new).values():
        future.result(90)


@pytest.mark.parametrize("life", range(LIVES))
def test_nothing_acknowledged_is_lost(broker: BarnabasProcess, life: int) -> None:
    make_topics(broker, "idempotent", "plain")
    loads = [
        Load(broker.bootstrap_servers, "idempotent", idempotent=True),
        Load(broker.bootstrap_servers, "plain", idempotent=False),
    ]
    readers = [Reader(broker.bootstrap_servers, load.topic) for load in loads]
    for crash in range(CRASHES_PER_LIFE):
        seed = life * CRASHES_PER_LIFE + crash
        random_source = random.Random(seed)
        for load in loads:
            load.size_bytes = random_source.choice((10, 100, 1_000, 4_000))
            load.go_on()
        time.sleep(random_source.uniform(0.05, 0.4))
        in_flight = _await_writes_in_flight(loads)
        broker.kill()
        print(f"seed {seed}: killed with {in_flight} records in flight")
        broker.start()
        for load, reader in zip(loads, readers, strict=True):
            load.pause()
            reader.to_the_end()
            check(load, reader, seed)
    for load in loads:
        load.close()
    assert not loads[0].errors, "an idempotent producer goes on as if nothing had happened"


def _await_writes_in_flight(loads: list[Load]) -> int:
    """The records in flight right now, which must be some; the kill follows at once."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (in_flight := sum(load.in_flight for load in loads)):
        assert time.monotonic() < deadline, "no write was ever in flight"
    return in_flight


def check(load: Load, reader: Reader, seed: int) -> None:
    for partition in range(PARTITIONS):
        read, acknowledged = reader.read[partition], load.acknowledged[partition]
        where = f"{load.topic}-{partition} after the crash of seed {seed}"
        missing = set(acknowledged).difference(read)
        assert not missing, f"{where}: {len(missing)} acknowledged records are lost, the first {min(missing)}"
        assert read == sorted(read), f"{where}: out of order"
        assert len(read) == len(set(read)), f"{where}: something is there twice"
        if load.idempotent:
            assert read == list(range(load.sent[partition])), f"{where}: the producer's records, each once"
