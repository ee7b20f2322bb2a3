"""The producer of confluent-kafka (librdkafka): acknowledgements, codecs, headers, sizes, idempotence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from protocol.records.compression import codec_numbered
from protocol.records.header import BatchHeader, read_header
from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import commit, create_topic, settings

Fresh = Callable[[], str]


class Deliveries:
    """What the producer was told of each message."""

    def __init__(self) -> None:
        self.delivered: list[tuple[int | None, int | None]] = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append((message.partition(), message.offset()))
        else:
            self.errors.append(error)


def producer(broker: AnyBroker, **named: Any) -> Producer:
    return Producer(settings(broker.bootstrap_servers, linger_ms=5, **named))


def read(broker: AnyBroker, topic: str, count: int, partition: int = 0) -> list[Message]:
    """The first records of a partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Message] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 0.5)
    consumer.close()
    assert [each.error() for each in found] == [None] * count
    return found


def stored_headers(broker: AnyBroker, topic: str) -> list[BatchHeader]:
    """Of the batches of partition 0 as they lie on the disk."""
    (segment,) = (broker.data / f"{topic}-0").glob("*.log")
    stored, found, position = segment.read_bytes(), list[BatchHeader](), 0
    while position < len(stored):
        found.append(read_header(stored, position))
        position += found[-1].size_bytes
    return found


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements(broker: AnyBroker, fresh: Fresh, acks: str) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh()), Deliveries()
    sender = producer(broker, acks=acks)
    for number in range(1000):
        sender.produce(topic, str(number), on_delivery=told)
    assert sender.flush(30) == 0
    assert told.errors == []
    offsets = [offset for _, offset in told.delivered]
    if acks == "0":
        assert len(offsets) == 1000, "no answer, so no offsets"
    else:
        assert offsets == list(range(1000))
    assert [each.value() for each in read(broker, topic, 1000)] == [str(n).encode() for n in range(1000)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs_with_idempotence(broker: AnyBroker, fresh: Fresh, codec: str) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh()), Deliveries()
    sender = producer(broker, enable_idempotence=True, compression_type=codec)
    values = [f"{number}: ".encode() + b"lorem ipsum " * 20 for number in range(2000)]
    for value in values:
        sender.produce(topic, value, on_delivery=told)
    assert sender.flush(30) == 0
    assert told.errors == []
    assert [offset for _, offset in told.delivered] == list(range(2000))
    assert [each.value() for each in read(broker, topic, 2000)] == values


def test_the_topic_s_own_codec_is_used(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), compression_type="zstd")
    sender = producer(broker, compression_type="gzip")
    values = [b"lorem ipsum " * 20 for _ in range(100)]
    for value in values:
        sender.produce(topic, value)
    assert sender.flush(30) == 0
    assert [each.value() for each in read(broker, topic, 100)] == values
    assert {codec_numbered(header.codec).name for header in stored_headers(broker, topic)} == {"zstd"}


def test_keys_headers_and_timestamps(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    sender = producer(broker)
    headers = [("trace", b"\x00\xff"), ("trace", None), ("größe", "12")]
    moment = int(time.time() * 1000) - 86_400_000
    sender.produce(topic, value=None, key="Grabstein")
    sender.produce(topic, value=b"", key=b"", headers=headers, timestamp=moment)
    assert sender.flush(30) == 0
    tombstone, empty = read(broker, topic, 2)
    assert (tombstone.key(), tombstone.value(), tombstone.headers()) == (b"Grabstein", None, None)
    assert (empty.key(), empty.value()) == (b"", b"")
    assert empty.headers() == [("trace", b"\x00\xff"), ("trace", None), ("größe", b"12")]
    assert empty.timestamp() == (1, moment)


def test_log_append_time(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    sender = producer(broker)
    sender.produce(topic, b"x", timestamp=1)
    assert sender.flush(30) == 0
    (message,) = read(broker, topic, 1)
    kind, moment = message.timestamp()
    assert kind == 2
    assert before <= moment <= int(time.time() * 1000)


@pytest.mark.parametrize("partitioner", ["murmur2_random", "consistent_random"])
def test_partitioners(broker: AnyBroker, fresh: Fresh, partitioner: str) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh(), 6), Deliveries()
    sender = producer(broker, partitioner=partitioner)
    for number in range(600):
        sender.produce(topic, str(number), key=f"k{number % 50}", on_delivery=told)
    assert sender.flush(30) == 0
    assert told.errors == []
    counts = {partition: [p for p, _ in told.delivered].count(partition) for partition in range(6)}
    seen: dict[bytes | None, set[int]] = {}
    for partition, count in counts.items():
        for message in read(broker, topic, count, partition):
            seen.setdefault(message.key(), set()).add(partition)
    assert len(seen) == 50
    assert all(len(partitions) == 1 for partitions in seen.values())


def test_a_message_of_a_megabyte(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh()), Deliveries()
    value = bytes(range(256)) * 4096
    sender = producer(broker, message_max_bytes=2_000_000)
    sender.produce(topic, value[:-200], on_delivery=told)
    assert sender.flush(30) == 0
    assert told.errors == []
    (message,) = read(broker, topic, 1)
    assert message.value() == value[:-200]


def test_a_message_that_is_too_large(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh()), Deliveries()
    sender = producer(broker, message_max_bytes=8_000_000)
    sender.produce(topic, bytes(1_100_000), on_delivery=told)
    sender.flush(30)
    sender.produce(topic, b"small", on_delivery=told)
    assert sender.flush(30) == 0
    assert [error.code() for error in told.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert told.delivered == [(0, 0)], "the refusal left nothing behind, and the connection lives"


def test_a_topic_may_take_larger_ones(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh(), max_message_bytes="3000000"), Deliveries()
    sender = producer(broker, message_max_bytes=8_000_000)
    sender.produce(topic, b"y" * 2_500_000, on_delivery=told)
    assert sender.flush(30) == 0
    assert (told.delivered, told.errors) == ([(0, 0)], [])
    assert [len(each.value() or b"") for each in read(broker, topic, 1)] == [2_500_000]


def test_a_timestamp_out_of_bounds(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = (
        create_topic(broker.bootstrap_servers, fresh(), message_timestamp_before_max_ms="60000"),
        Deliveries(),
    )
    sender = producer(broker)
    sender.produce(topic, b"old", timestamp=1_000_000, on_delivery=told)
    assert sender.flush(30) == 0
    assert [error.code() for error in told.errors] == [KafkaError.INVALID_TIMESTAMP]


def test_a_compacted_topic_wants_keys(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh(), cleanup_policy="compact"), Deliveries()
    sender = producer(broker)
    sender.produce(topic, b"no key", on_delivery=told)
    sender.flush(30)
    sender.produce(topic, b"keyed", key="k", on_delivery=told)
    assert sender.flush(30) == 0
    assert [error.code() for error in told.errors] == [KafkaError.INVALID_RECORD]
    assert told.delivered == [(0, 0)]


def test_a_partition_that_does_not_exist(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh(), 2), Deliveries()
    sender = producer(broker)
    sender.produce(topic, b"x", partition=7, on_delivery=told)
    sender.flush(30)
    assert [error.code() for error in told.errors] == [KafkaError._UNKNOWN_PARTITION]


def test_the_internal_topic_refuses_clients(broker: AnyBroker, fresh: Fresh) -> None:
    topic, told = create_topic(broker.bootstrap_servers, fresh()), Deliveries()
    commit(broker.bootstrap_servers, fresh(), TopicPartition(topic, 0, 0))
    sender = producer(broker)
    sender.produce("__consumer_offsets", b"x", key=b"y", partition=0, on_delivery=told)
    assert sender.flush(30) == 0
    assert [error.code() for error in told.errors] == [KafkaError.TOPIC_EXCEPTION]


def test_a_transaction_counts_when_it_is_committed(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), 2)
    sender = producer(broker, transactional_id=topic)
    sender.init_transactions(60)
    for number in range(4):
        sender.begin_transaction()
        for partition in range(2):
            sender.produce(topic, f"{number}", partition=partition)
        if number % 2:
            sender.commit_transaction(60)
        else:
            assert sender.flush(60) == 0
            sender.abort_transaction(60)
    assert [[message.value() for message in read(broker, topic, 2, index)] for index in range(2)] == [
        [b"1", b"3"],
        [b"1", b"3"],
    ]
