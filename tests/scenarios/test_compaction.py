"""A compacted topic under a genuine client: the last value of each key stays, also after a restart, and a
transaction that is open keeps what comes after it from being compacted."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic, settings

KEYS = 50
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "1048576",
    "segment_ms": "1000",
    "min_cleanable_dirty_ratio": "0.01",
    "max_compaction_lag_ms": "1000",
}


@pytest.fixture
def broker(new_broker: Callable[..., AnyBroker]) -> AnyBroker:
    return new_broker(log_cleaner_backoff_ms="200")


def produce(address: str, rounds: range) -> None:
    producer = Producer(settings(address, linger_ms=20))
    for number in rounds:
        for key in range(KEYS):
            producer.produce("state", f"{number}-{'x' * 100}".encode(), f"k{key}".encode(), partition=0)
    assert producer.flush(60) == 0


def read(address: str, isolation: str = "read_uncommitted") -> list[tuple[int, bytes, bytes | None]]:
    """All records from the beginning to the end, which is found by the watermarks."""
    reader = Consumer(settings(address, group_id="nobody", isolation_level=isolation))
    _, end = reader.get_watermark_offsets(TopicPartition("state", 0), 30)
    reader.assign([TopicPartition("state", 0, 0)])
    found = []
    position = 0
    while position < end:
        message = reader.poll(30)
        assert message is not None, f"nothing more comes at {position} of {end}"
        assert message.error() is None
        offset, key = message.offset(), message.key()
        assert offset is not None
        assert key is not None
        found.append((offset, key, message.value()))
        (at,) = reader.position([TopicPartition("state", 0)])
        position = at.offset
    reader.close()
    return found


def until_compacted(address: str, at_most: int) -> list[tuple[int, bytes, bytes | None]]:
    deadline = time.monotonic() + 120
    while True:
        found = read(address)
        if len(found) <= at_most:
            return found
        assert time.monotonic() < deadline, f"{len(found)} records are still there"
        time.sleep(0.3)


def test_the_last_value_of_each_key_stays(broker: AnyBroker) -> None:
    address = broker.bootstrap_servers
    create_topic(address, "state", 1, **COMPACTED)
    produce(address, range(100))
    time.sleep(1.1)  # the next record begins a segment: the ones before may be cleaned
    produce(address, range(100, 101))
    found = until_compacted(address, 3 * KEYS)
    last = {key: value for _, key, value in found}
    assert last == {f"k{key}".encode(): f"100-{'x' * 100}".encode() for key in range(KEYS)}
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(offsets)
    assert offsets[-1] == 101 * KEYS - 1

    broker.kill()
    broker.start()
    producer = Producer(settings(address))
    producer.produce("state", b"after", b"k0", partition=0)
    assert producer.flush(60) == 0
    *before, newest = read(address)
    assert newest == (101 * KEYS, b"k0", b"after")
    # With the new record the segment before it may be cleaned again: k0 may have lost its last value but one.
    assert set(before) <= set(found), "a record keeps its offset"
    assert {key: value for _, key, value in [*before, newest]} == last | {b"k0": b"after"}


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_comes_after_an_open_transaction_stays_until_it_has_ended(
    broker: AnyBroker, is_committed: bool
) -> None:
    address = broker.bootstrap_servers
    create_topic(address, "state", 1, **COMPACTED)
    produce(address, range(20))
    producer = Producer(settings(address, transactional_id="open", transaction_timeout_ms="600000"))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("state", b"of the transaction", b"own", partition=0)
    assert producer.flush(60) == 0
    first_open = 20 * KEYS
    produce(address, range(20, 40))
    time.sleep(1.1)  # the next record begins a segment: the ones before may be cleaned
    produce(address, range(40, 41))
    found = until_compacted(address, KEYS + 1 + 21 * KEYS)
    after = [offset for offset, _, _ in found if offset >= first_open]
    assert after == list(range(first_open, first_open + 1 + 21 * KEYS)), "nothing of it is compacted"

    (producer.commit_transaction if is_committed else producer.abort_transaction)(60)
    time.sleep(1.1)
    produce(address, range(41, 42))
    until_compacted(address, 3 * KEYS)
    last = {key: value for _, key, value in read(address, "read_committed")}
    expected: dict[bytes, bytes] = {f"k{key}".encode(): f"41-{'x' * 100}".encode() for key in range(KEYS)}
    assert last == expected | ({b"own": b"of the transaction"} if is_committed else {})
