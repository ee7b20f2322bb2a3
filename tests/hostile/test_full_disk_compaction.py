"""A disk that is full when compaction wants to write its copy: nothing is lost, the copy's beginning goes and
leaves its space to producers, and with space the log is compacted after all."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.hostile.test_full_disk import small_disk
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, settings, until
from tests.support.clients.raw_connection import serves_others

__all__ = ["small_disk"]

pytestmark = barnabas_only

KEYS: Final = 600
VALUE_BYTES: Final = 2000
TURNS: Final = 2
LEFT_BYTES: Final = 150_000
"""What the ballast leaves: enough for small things, too little for the copy of a segment."""


def test_the_copy_does_not_fit(small_disk: Path, tmp_path: Path) -> None:
    often = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "100"}
    broker = BarnabasProcess(small_disk / "data", {"offsets.topic.num.partitions": "1", **often})
    broker.log_file = tmp_path / "broker.log"
    with broker:
        address = broker.bootstrap_servers
        create_topic(address, "state", 1, internal_segment_bytes="500000", segment_index_bytes="4096")
        create_topic(address, "other", 1, segment_index_bytes="4096")
        expected = write_turns(address)
        ballast = small_disk / "ballast"
        fill_up(ballast, small_disk)
        compact(address, "state")
        until(lambda: "state-0" in complaints(broker), "the cleaner says that it cannot")
        for _ in range(3):
            assert read(address) == expected
            serves_others(address)
        put(address, "other", [(b"key", b"value")])
        until(lambda: not list(small_disk.glob("data/state-0/*.cleaned")), "the copy's beginning goes")

        ballast.unlink()
        put(address, "state", [(b"key0", b"after")])
        expected[b"key0"] = b"after"
        assert broker.stop() == 0
        broker.start_anywhere()  # else the log would be tried again after ten minutes
        address = broker.bootstrap_servers
        until(lambda: compacted_records(address) < TURNS * KEYS, "with space it is compacted")
        assert read(address) == expected
        assert broker.stop() == 0
    assert "Traceback" not in broker.log_file.read_text()


def write_turns(address: str) -> dict[bytes, bytes]:
    for turn in range(TURNS):
        table = {b"key%d" % key: b"%d-%d:" % (turn, key) + bytes(VALUE_BYTES) for key in range(KEYS)}
        put(address, "state", list(table.items()))
    return table


def put(address: str, topic: str, pairs: list[tuple[bytes, bytes]]) -> None:
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer(settings(address, batch_size=50_000))
    for key, value in pairs:
        producer.produce(topic, value, key, partition=0, on_delivery=delivered)
    assert producer.flush(120) == 0
    assert errors == []


def fill_up(ballast: Path, disk: Path) -> None:
    """Until only a little is left."""
    room = os.statvfs(disk)
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - LEFT_BYTES))


def compact(address: str, topic: str) -> None:
    admin = AdminClient(settings(address))
    wanted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    set_ = AlterConfigOpType.SET
    entries = [ConfigEntry(name, value, incremental_operation=set_) for name, value in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(90)


def complaints(broker: BarnabasProcess) -> str:
    lines = broker.log_file.read_text().splitlines()
    return "\n".join(line for line in lines if " WARN " in line or " ERROR " in line)


def records(address: str) -> list[tuple[bytes, bytes]]:
    reader = Consumer(settings(address, group_id="nobody", enable_partition_eof=True))
    reader.assign([TopicPartition("state", 0, 0)])
    found: list[tuple[bytes, bytes]] = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for message in reader.consume(1000, 0.2):
            error, key, value = message.error(), message.key(), message.value()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                reader.close()
                return found
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            found.append((key, value))
    raise AssertionError("the topic could not be read to its end")


def read(address: str) -> dict[bytes, bytes]:
    return dict(records(address))


def compacted_records(address: str) -> int:
    return len(records(address))
