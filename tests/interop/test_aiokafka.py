"""aiokafka 0.14: a client of asyncio, whose older requests nobody else sends any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic

Fresh = Callable[[], str]


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 90))


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_messages_go_through(broker: AnyBroker, fresh: Fresh, codec: str | None) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())

    async def story() -> None:
        at = {"bootstrap_servers": broker.bootstrap_servers}
        async with AIOKafkaProducer(**at, compression_type=codec, enable_idempotence=True) as producer:
            sent = [
                await producer.send(topic, b"value %d" % n, key=b"k", headers=[("n", b"%d" % n)])
                for n in range(200)
            ]
            assert [(await answer).offset for answer in sent] == list(range(200))
        async with AIOKafkaConsumer(topic, **at, auto_offset_reset="earliest") as consumer:
            found = [await consumer.getone() for _ in range(200)]
            assert [message.value for message in found] == [b"value %d" % n for n in range(200)]
            assert found[7].headers == (("n", b"7"),)
            there = TopicPartition(topic, 0)
            assert await consumer.end_offsets([there]) == {there: 200}
            assert (await consumer.offsets_for_times({there: found[0].timestamp}))[there].offset == 0
            consumer.seek(there, 150)
            assert (await consumer.getone()).value == b"value 150"

    run(story())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acknowledgements(broker: AnyBroker, fresh: Fresh, acks: Any) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())

    async def story() -> None:
        at = {"bootstrap_servers": broker.bootstrap_servers}
        async with AIOKafkaProducer(**at, acks=acks) as producer:
            for number in range(20):
                await producer.send_and_wait(topic, b"%d" % number)
        async with AIOKafkaConsumer(topic, **at, auto_offset_reset="earliest") as consumer:
            assert [(await consumer.getone()).value for _ in range(20)] == [b"%d" % n for n in range(20)]

    run(story())


def test_a_message_that_is_too_large(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), max_message_bytes="2000")

    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 3000)
            assert (await producer.send_and_wait(topic, b"x")).offset == 0

    run(story())


def test_a_group_of_two(broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh(), 4), fresh()

    async def story() -> None:
        settings = {
            "bootstrap_servers": broker.bootstrap_servers, "group_id": group, "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 300, "session_timeout_ms": 60_000, "enable_auto_commit": False,
        }  # fmt: skip
        one, two = AIOKafkaConsumer(topic, **settings), AIOKafkaConsumer(topic, **settings)
        await one.start()
        await two.start()
        while not len(one.assignment()) == len(two.assignment()) == 2:
            await asyncio.sleep(0.05)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(100):
                await producer.send(topic, b"%d" % number, key=b"k%d" % number)
        seen: list[bytes] = []
        while len(seen) < 100:
            for member in (one, two):
                for messages in (await member.getmany(timeout_ms=100)).values():
                    seen += [message.value for message in messages]
        assert sorted(map(int, seen)) == list(range(100))
        await one.commit()
        await two.commit()
        await two.stop()
        while len(one.assignment()) < 4:
            await asyncio.sleep(0.05)
        committed = [await one.committed(TopicPartition(topic, partition)) for partition in range(4)]
        assert sum(offset or 0 for offset in committed) == 100
        await one.stop()

    run(story())


def test_the_admin(broker: AnyBroker, fresh: Fresh) -> None:
    topic = fresh()

    async def story() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 2, 1)])
            while topic not in await admin.list_topics():
                await asyncio.sleep(0.05)
            again = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert again.topic_errors[0][1] == TopicAlreadyExistsError.errno
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 2
            assert len((await admin.describe_cluster())["brokers"]) == 1
            await admin.delete_topics([topic])
            while topic in await admin.list_topics():
                await asyncio.sleep(0.05)
        finally:
            await admin.close()

    run(story())


def test_a_transaction_counts_when_it_is_committed(broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())

    async def story() -> None:
        at = {"bootstrap_servers": broker.bootstrap_servers}
        async with AIOKafkaProducer(**at, transactional_id=topic) as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number)
                await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
        reads = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with AIOKafkaConsumer(topic, **at, **reads) as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"3"]

    run(story())
