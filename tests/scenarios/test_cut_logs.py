"""Deleted records stay deleted: in the files, over a stop, and whole segments leave the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.conftest import AnyBroker
from tests.support.clients.topics import PATIENCE_SECONDS, Topics

SEGMENT_BYTES = 1_048_576


def cut(topics: Topics, topic: str, offset: int) -> None:
    place = TopicPartition(topic, 0, offset)
    assert topics.admin.delete_records([place])[place].result(PATIENCE_SECONDS).low_watermark == offset


def earliest(broker: AnyBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "log_level": 0})
    found = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_SECONDS)
    consumer.close()
    return int(found[0])


def base_offsets(folder: Path) -> list[int]:
    """The first offsets of the segments, as the files say."""
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def await_base_offset(folder: Path, offset: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while base_offsets(folder)[0] < offset:
        assert time.monotonic() < deadline, base_offsets(folder)
        time.sleep(0.05)


def test_a_cut_log_over_a_stop(new_broker: Callable[..., AnyBroker]) -> None:
    quick = {"log_retention_check_interval_ms": "200", "log_segment_delete_delay_ms": "0"}
    broker = new_broker(log_initial_task_delay_ms="100", **quick)
    topics = Topics(broker.bootstrap_servers)
    topics.create("cut", config={"segment.bytes": str(SEGMENT_BYTES)})
    topics.produce("cut", [b"x" * 100_000] * 40)
    folder = broker.data / "cut-0"
    before = base_offsets(folder)
    assert len(before) >= 4
    middle = before[2] + 1
    cut(topics, "cut", middle)
    await_base_offset(folder, before[2])
    assert base_offsets(folder) == before[2:], "the segment with the log start stays"
    assert earliest(broker, "cut") == middle
    broker.stop()
    assert f"cut 0 {middle}" in (broker.data / "log-start-offset-checkpoint").read_text().splitlines()
    broker.start()
    topics = Topics(broker.bootstrap_servers)
    topics.await_partitions("cut", 1)
    assert earliest(broker, "cut") == middle
    assert topics.end_offsets("cut", 1) == {0: 40}
    cut(topics, "cut", 40)
    await_base_offset(folder, before[-1])
    topics.produce("cut", ["after"])
    assert earliest(broker, "cut") == 40
    assert topics.end_offsets("cut", 1) == {0: 41}
