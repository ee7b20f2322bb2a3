"""What each isolation level shows of a topic, by way of a genuine client (librdkafka)."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.clients.librdkafka import settings

PATIENCE_SECONDS: Final = 90


def committed(address: str, topic: str, partitions: int = 1) -> list[list[str]]:
    """The values of each partition that are committed, as far as nothing before them is undecided."""
    return _shown(address, topic, partitions, "read_committed")


def uncommitted(address: str, topic: str, partitions: int = 1) -> list[list[str]]:
    """The values of each partition, whatever became of their transactions."""
    return _shown(address, topic, partitions, "read_uncommitted")


def is_decided(address: str, topic: str, partition: int = 0) -> bool:
    """Whether no transaction is open in the partition: the last stable offset is its end."""
    stable, end = (_end(address, topic, partition, level) for level in ("read_committed", "read_uncommitted"))
    return stable == end


def _end(address: str, topic: str, partition: int, isolation: str) -> int:
    reader = Consumer(settings(address, group_id="only-asks", isolation_level=isolation))
    _, end = reader.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_SECONDS)
    reader.close()
    return int(end)


def _shown(address: str, topic: str, partitions: int, isolation: str) -> list[list[str]]:
    named: dict[str, Any] = {
        "group_id": "only-assigned",
        "isolation_level": isolation,
        "fetch_wait_max_ms": 10,
    }
    reader = Consumer(settings(address, enable_partition_eof=True, enable_auto_commit=False, **named))
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[list[str]] = [[] for _ in range(partitions)]
    unread = set(range(partitions))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while unread:
        if time.monotonic() > deadline:
            pytest.fail(f"{topic}: the ends of {unread} were not reached in {PATIENCE_SECONDS} s")
        message: Any = reader.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.partition()].append(message.value().decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(message.partition())
    reader.close()
    return found
