"""confluent-kafka's consumer by itself: assign and seek, watermarks, offsets by time, commits, resets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import commit, create_topic, fill, settings, take, texts, until

Fresh = Callable[[], str]


@contextmanager
def consumer(broker: AnyBroker, group: str = "nobody", **named: Any) -> Iterator[Consumer]:
    reader = Consumer(settings(broker.bootstrap_servers, group_id=group, **named))
    try:
        yield reader
    finally:
        reader.close()


def test_assign_seek_and_pause(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), 2)
    fill(broker.bootstrap_servers, topic, range(100), partition=0)
    fill(broker.bootstrap_servers, topic, range(100, 200), partition=1)
    with consumer(broker) as reader:
        reader.assign([TopicPartition(topic, 0, 90), TopicPartition(topic, 1, 98)])
        assert sorted(texts(take(reader, 12))) == sorted(map(str, [*range(90, 100), 198, 199]))
        reader.pause([TopicPartition(topic, 1)])
        reader.seek(TopicPartition(topic, 0, 10))
        assert texts(take(reader, 3)) == ["10", "11", "12"]


def test_watermarks(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    with consumer(broker) as reader:
        there = TopicPartition(topic, 0)
        assert reader.get_watermark_offsets(there, 30) == (0, 0)
        fill(broker.bootstrap_servers, topic, range(17), partition=0)
        assert reader.get_watermark_offsets(there, 30) == (0, 17)


def test_offsets_for_times(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), 2)
    fill(broker.bootstrap_servers, topic, range(3), partition=0)
    with consumer(broker) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        last = take(reader, 3)[-1].timestamp()[1]
        while int(time.time() * 1000) <= last:
            time.sleep(0.001)
        fill(broker.bootstrap_servers, topic, range(3, 6), partition=0)
        new = take(reader, 3)[0].timestamp()[1]

        def at(moment: int) -> list[int]:
            asked = [TopicPartition(topic, partition, moment) for partition in (0, 1)]
            return [found.offset for found in reader.offsets_for_times(asked, 30)]

        assert at(0) == [0, -1]
        assert at(last + 1) == at(new) == [3, -1]
        assert at(int(time.time() * 1000) + 60_000) == [-1, -1]


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_where_an_unknown_offset_leads(broker: AnyBroker, fresh: Fresh, reset: str) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    fill(broker.bootstrap_servers, topic, range(5), partition=0)
    with consumer(broker, auto_offset_reset=reset, enable_partition_eof=True) as reader:
        reader.assign([TopicPartition(topic, 0, 1000)])
        message = reader.poll(30)
        assert message is not None
        if reset == "earliest":
            assert message.value() == b"0"
        else:
            error = message.error()
            assert error is not None
            expected = KafkaError._PARTITION_EOF if reset == "latest" else KafkaError._AUTO_OFFSET_RESET
            assert error.code() == expected


def test_commit_by_hand_and_go_on(broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    fill(broker.bootstrap_servers, topic, range(10), partition=0)
    by_hand = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with consumer(broker, group, **by_hand) as reader:
        assert reader.committed([TopicPartition(topic, 0)], 30)[0].offset == OFFSET_INVALID
        reader.subscribe([topic])
        messages = take(reader, 10)
        reader.commit(message=messages[3], asynchronous=False)
        with_metadata = TopicPartition(topic, 0, 5, metadata="bis hier: fünf")
        (committed,) = reader.commit(offsets=[with_metadata], asynchronous=False)
        assert (committed.offset, committed.error) == (5, None)
    with consumer(broker, group, **by_hand) as reader:
        (found,) = reader.committed([TopicPartition(topic, 0)], 30)
        assert (found.offset, found.metadata) == (5, "bis hier: fünf")
        reader.subscribe([topic])
        assert texts(take(reader, 5)) == ["5", "6", "7", "8", "9"]
    with consumer(broker, group, **by_hand) as reader:
        reader.subscribe([topic])
        assert texts(take(reader, 5)) == ["5", "6", "7", "8", "9"], "nothing was committed the second time"


def test_commit_by_itself(broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    fill(broker.bootstrap_servers, topic, range(10), partition=0)
    with consumer(broker, group, auto_offset_reset="earliest", auto_commit_interval_ms=100) as reader:
        reader.subscribe([topic])
        take(reader, 10)
        until(
            lambda: (
                reader.poll(0.05) is None and reader.committed([TopicPartition(topic, 0)], 30)[0].offset == 10
            ),
            "the timer commits",
        )
    fill(broker.bootstrap_servers, topic, range(10, 12), partition=0)
    with consumer(broker, group, auto_offset_reset="earliest") as reader:
        reader.subscribe([topic])
        assert texts(take(reader, 2)) == ["10", "11"]


def test_commits_that_are_refused(broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    commit(broker.bootstrap_servers, group, TopicPartition(topic, 0, 0))  # waits until there is a coordinator
    with consumer(broker, group) as reader:
        with pytest.raises(KafkaException) as refusal:
            reader.commit(offsets=[TopicPartition(topic, 9, 1)], asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        long = TopicPartition(topic, 0, 1, metadata="x" * 5000)
        with pytest.raises(KafkaException) as refusal:
            reader.commit(offsets=[long], asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_a_subscription_by_pattern_sees_new_topics(broker: AnyBroker, fresh: Fresh) -> None:
    stem = fresh()
    create_topic(broker.bootstrap_servers, f"{stem}-a")
    fill(broker.bootstrap_servers, f"{stem}-a", ["a"], partition=0)
    with consumer(
        broker, fresh(), auto_offset_reset="earliest", topic_metadata_refresh_interval_ms=200
    ) as reader:
        reader.subscribe([f"^{stem}-.*"])
        assert texts(take(reader, 1)) == ["a"]
        create_topic(broker.bootstrap_servers, f"{stem}-b")
        fill(broker.bootstrap_servers, f"{stem}-b", ["b"], partition=0)
        assert texts(take(reader, 1)) == ["b"]


def test_a_topic_is_made_by_the_first_who_asks(broker: AnyBroker, fresh: Fresh) -> None:
    topic = fresh()
    fill(broker.bootstrap_servers, topic, ["erste"])
    with consumer(broker) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert texts(take(reader, 1)) == ["erste"]


def test_small_and_large_fetches(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    fill(broker.bootstrap_servers, topic, ["x" * 5000 + str(n) for n in range(300)], partition=0)
    expected = ["x" * 5000 + str(n) for n in range(300)]
    with consumer(broker, fetch_message_max_bytes=1000, fetch_max_bytes=2_000_000) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert texts(take(reader, 300)) == expected, "one batch a fetch, for each is larger than the bound"
    with consumer(broker, fetch_min_bytes=900_000, fetch_wait_max_ms=300) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert texts(take(reader, 300)) == expected
