"""Transactions of the clients written in Python, kafka-python and aiokafka, whose requests are old ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioAt
from kafka import KafkaConsumer, TopicPartition

from tests.conftest import AnyBroker
from tests.support.brokers.transactional import transactional_broker
from tests.support.clients.isolation import committed, is_decided, uncommitted
from tests.support.clients.java_transactions import JavaClients
from tests.support.clients.librdkafka import create_topic, fill, until
from tests.support.clients.python_transactions import Aiokafka, KafkaPython, Transactional
from tests.support.clients.topics import Topics

Fresh = Callable[[], str]
Client = Callable[..., Transactional]
END = "end"

both = pytest.mark.parametrize("client", [KafkaPython, Aiokafka])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with transactional_broker(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def java(broker: AnyBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    with JavaClients(broker.bootstrap_servers, tmp_path_factory.mktemp("java")) as clients:
        yield clients


def read_with_kafka_python(address: str, topic: str, partitions: int, isolation: str) -> list[list[str]]:
    """The values of each partition up to its `END`."""
    reader: Any = KafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation, auto_offset_reset="earliest"
    )
    reader.assign([TopicPartition(topic, each) for each in range(partitions)])
    found: list[list[str]] = [[] for _ in range(partitions)]

    def ended() -> bool:
        for messages in reader.poll(200).values():
            for message in messages:
                found[message.partition].append(message.value.decode())
        return all(values[-1:] == [END] for values in found)

    until(ended, f"{topic} is read")
    reader.close()
    return [values[:-1] for values in found]


def read_with_aiokafka(address: str, topic: str, partitions: int, isolation: str) -> list[list[str]]:
    """The values of each partition up to its `END`."""

    async def story() -> list[list[str]]:
        found: list[list[str]] = [[] for _ in range(partitions)]
        reader = AIOKafkaConsumer(
            bootstrap_servers=address, isolation_level=isolation, auto_offset_reset="earliest"
        )
        reader.assign([AioAt(topic, each) for each in range(partitions)])
        async with reader:
            while any(values[-1:] != [END] for values in found):
                message = await reader.getone()
                found[message.partition].append(message.value.decode())
        return [values[:-1] for values in found]

    return asyncio.run(asyncio.wait_for(story(), 90))


@pytest.mark.parametrize(
    ("client", "read"), [(KafkaPython, read_with_kafka_python), (Aiokafka, read_with_aiokafka)]
)
def test_committed_and_aborted_transactions_over_several_partitions(
    broker: AnyBroker, fresh: Fresh, client: Client, read: Callable[..., list[list[str]]]
) -> None:
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh(), 3)
    every: list[list[str]] = [[], [], []]
    good: list[list[str]] = [[], [], []]
    with closing(client(address, fresh())) as producer:
        for number in range(12):
            commits = number % 3 != 1
            producer.begin()
            for partition in sorted({number % 3, (number // 3) % 3}):
                values = [f"{number}-{each}" for each in range(4)]
                producer.send(topic, *values, partition=partition)
                every[partition] += values
                good[partition] += values if commits else []
            (producer.commit if commits else producer.abort)()
    for partition in range(3):
        fill(address, topic, [END], partition=partition)
    assert read(address, topic, 3, "read_committed") == good
    assert read(address, topic, 3, "read_uncommitted") == every


def stable_offset(broker: AnyBroker, group: str, topic: str) -> int | None:
    """The offset that a reader of what is committed would go on from, when no transaction changes it."""
    reader: Any = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=group, isolation_level="read_committed"
    )
    offset = reader.committed(TopicPartition(topic, 0))
    reader.close()
    return None if offset is None else int(offset)


@both
def test_offsets_go_with_their_transaction(broker: AnyBroker, fresh: Fresh, client: Client) -> None:
    address, group = broker.bootstrap_servers, fresh()
    source, sink = create_topic(address, fresh()), create_topic(address, fresh())
    fill(address, source, range(10), partition=0)
    with closing(client(address, fresh())) as producer:
        for offset, ends in ((4, producer.commit), (8, producer.abort), (6, producer.commit)):
            producer.begin()
            producer.send(sink, str(offset))
            producer.send_offset(group, source, offset)
            ends()
            assert stable_offset(broker, group, source) == (4 if offset == 8 else offset)
    until(lambda: is_decided(address, sink), "the markers are written")
    assert committed(address, sink) == [["4", "6"]]


def zombies_call(api: str, zombie: Transactional, group: str, topic: str) -> None:
    if api == "commit":
        zombie.commit()
    elif api == "abort":
        zombie.abort()
    elif api == "offsets":
        zombie.send_offset(group, topic, 1)
    else:
        zombie.send(topic, "from the dead", partition=0 if api == "produce" else 1)


@pytest.mark.parametrize("api", ["produce", "produce elsewhere", "commit", "abort", "offsets"])
@both
def test_the_second_of_two_producers_fences_the_first(
    broker: AnyBroker, fresh: Fresh, client: Client, api: str
) -> None:
    address, topic, name = broker.bootstrap_servers, fresh(), fresh()
    create_topic(address, topic, 2)
    with closing(client(address, name)) as zombie:
        zombie.begin()
        zombie.send(topic, "of the first")
        with closing(client(address, name)) as owner:
            assert is_decided(address, topic), "the first one's transaction is aborted"
            with pytest.raises(Exception) as told:
                zombies_call(api, zombie, fresh(), topic)
            is_of_partition = client is KafkaPython and api == "produce"
            wanted = "InvalidProducerEpoch" if is_of_partition else "ProducerFenced"
            assert type(told.value).__name__.removesuffix("Error") == wanted
            owner.begin()
            owner.send(topic, "of the second")
            owner.commit()
    until(lambda: is_decided(address, topic), "the marker is written")
    assert committed(address, topic, 2) == [["of the second"], []]
    assert uncommitted(address, topic, 2) == [["of the first", "of the second"], []]


@both
def test_the_coordinator_aborts_what_takes_longer_than_its_time(
    broker: AnyBroker, fresh: Fresh, client: Client
) -> None:
    address, topic, name = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh()), fresh()
    with closing(client(address, name, 3000)) as slow:
        slow.begin()
        slow.send(topic, "too late")
        until(lambda: is_decided(address, topic), "the coordinator aborts")
        with pytest.raises(Exception) as told:
            slow.commit()
        assert type(told.value).__name__.removesuffix("Error") == "ProducerFenced"
    with closing(client(address, name)) as again:
        again.begin()
        again.send(topic, "in time")
        again.commit()
    until(lambda: is_decided(address, topic), "the marker is written")
    assert committed(address, topic) == [["in time"]]
    assert uncommitted(address, topic) == [["too late", "in time"]]


@both
def test_a_topic_is_deleted_while_a_transaction_writes_to_it(
    broker: AnyBroker, fresh: Fresh, client: Client
) -> None:
    address, kept, gone = broker.bootstrap_servers, fresh(), fresh()
    create_topic(address, kept)
    create_topic(address, gone)
    with closing(client(address, fresh())) as producer:
        producer.begin()
        producer.send(kept, "one")
        producer.send(gone, "lost")
        Topics(address).delete(gone)
        producer.commit()
        producer.begin()
        producer.send(kept, "two")
        producer.commit()
    until(lambda: is_decided(address, kept), "the markers are written")
    assert committed(address, kept) == [["one", "two"]]


def test_the_broker_is_killed_between_produce_and_commit(broker: AnyBroker, fresh: Fresh) -> None:
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh(), 2)
    with closing(KafkaPython(address, fresh())) as plain, closing(Aiokafka(address, fresh())) as aio:
        producers: list[Transactional] = [plain, aio]
        for partition, producer in enumerate(producers):
            producer.begin()
            producer.send(topic, "kept", partition=partition)
        broker.kill()
        broker.start()
        plain.commit()
        aio.commit()
    until(lambda: all(is_decided(address, topic, each) for each in range(2)), "the markers are written")
    assert committed(address, topic, 2) == [["kept"], ["kept"]]


@pytest.mark.java
@both
def test_old_and_new_transactions_in_one_partition(
    broker: AnyBroker, fresh: Fresh, client: Client, java: JavaClients
) -> None:
    """Java's transactions are of the newest version: its partitions enter by being written to."""
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh())
    every, good = list[str](), list[str]()
    with closing(client(address, fresh())) as old:
        java("producer", "new", f"transactional.id={fresh()}")
        for number in range(8):
            mine, theirs = f"old{number}", f"new{number}"
            old.begin()
            java("begin", "new")
            old.send(topic, mine)
            java("send", "new", topic, 0, theirs, theirs)
            old.send(topic, mine)
            (old.commit if number & 1 else old.abort)()
            java("commit" if number & 2 else "abort", "new")
            every += [mine, theirs, theirs, mine]
            kept = ([mine] if number & 1 else []) + ([theirs] if number & 2 else [])
            good += [each for each in (mine, theirs, theirs, mine) if each in kept]
    until(lambda: is_decided(address, topic), "the markers are written")
    assert java.read(topic, 1, "read_committed") == [good]
    assert committed(address, topic) == [good]
    assert uncommitted(address, topic) == [every]
