"""A broker that stops, and one that is killed: what it acknowledged is there again, and its clients go on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import (
    commit,
    commit_by,
    create_topic,
    fill,
    settings,
    take,
    texts,
    until,
)

END = pytest.mark.parametrize("end", ["stop", "kill"])


def restart(broker: AnyBroker, end: str) -> None:
    if end == "stop":
        broker.stop()
    else:
        broker.kill()
    broker.start()


@pytest.fixture
def broker(new_broker: Callable[..., AnyBroker]) -> AnyBroker:
    return new_broker()


def read_all(address: str, topic: str, count: int) -> list[Message]:
    reader = Consumer(settings(address, group_id="nobody"))
    reader.assign([TopicPartition(topic, 0, 0)])
    found = take(reader, count)
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), 30) == (0, count)
    reader.close()
    return found


@END
def test_messages_offsets_and_configs_are_there_again(broker: AnyBroker, end: str) -> None:
    address = broker.bootstrap_servers
    create_topic(address, "kept", 1, retention_ms="987654321", segment_bytes="1048576")
    fill(address, "kept", ["x" * 1000 + str(n) for n in range(3000)], partition=0, compression_type="lz4")
    commit(address, "readers", TopicPartition("kept", 0, 1234, metadata="hier"))
    admin = AdminClient(settings(address))
    before = describe(admin, "kept")

    restart(broker, end)
    assert texts(read_all(address, "kept", 3000)) == ["x" * 1000 + str(n) for n in range(3000)]
    assert describe(AdminClient(settings(address)), "kept") == before
    reader = Consumer(settings(address, group_id="readers"))
    (committed,) = reader.committed([TopicPartition("kept", 0)], 30)
    assert committed.offset == 1234
    reader.close()
    fill(address, "kept", ["after"], partition=0)
    assert texts(read_all(address, "kept", 3001)[-1:]) == ["after"]


def describe(admin: AdminClient, topic: str) -> tuple[str, dict[str, str]]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(30)
    cluster = admin.list_topics(timeout=30).cluster_id
    assert cluster is not None
    return cluster, {name: entry.value for name, entry in configs.items() if not entry.is_default}


@END
def test_what_was_deleted_stays_away(broker: AnyBroker, end: str) -> None:
    address = broker.bootstrap_servers
    for name in ("goes", "stays"):
        create_topic(address, name)
        fill(address, name, ["x"], partition=0)
    admin = AdminClient(settings(address))
    admin.delete_topics(["goes"])["goes"].result(30)
    restart(broker, end)
    admin = AdminClient(settings(address))
    assert {name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")} == {"stays"}
    create_topic(address, "goes")
    fill(address, "goes", ["again"], partition=0)
    assert texts(read_all(address, "goes", 1)) == ["again"]


class Stream:
    """An idempotent producer that sends numbers until it is told to end."""

    def __init__(self, address: str, topic: str) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self.refused: list[KafkaError] = []
        self.sent = 0
        self._topic = topic
        self._ending = threading.Event()
        self._producer = Producer(
            settings(
                address,
                enable_idempotence=True,
                linger_ms=2,
                reconnect_backoff_max_ms=200,
                retry_backoff_ms=50,
            )
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append((int(message.value() or b""), message.offset() or 0))
        else:
            self.refused.append(error)

    def _run(self) -> None:
        while not self._ending.is_set():
            if self.sent - len(self.acknowledged) - len(self.refused) < 500:
                self._producer.produce(self._topic, str(self.sent), partition=0, on_delivery=self._told)
                self.sent += 1
            self._producer.poll(0.0005)

    def end(self) -> None:
        self._ending.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0


@END
def test_a_producer_and_a_consumer_work_on_through_it(broker: AnyBroker, end: str) -> None:
    """Each number arrives once and in order, whatever was in flight when the broker went."""
    address = broker.bootstrap_servers
    create_topic(address, "stream")
    reader = Consumer(
        settings(
            address, group_id="followers", auto_offset_reset="earliest", reconnect_backoff_max_ms=200,
            auto_commit_interval_ms=100, session_timeout_ms=45_000,
        )
    )  # fmt: skip
    reader.subscribe(["stream"])
    stream = Stream(address, "stream")
    seen = texts(take(reader, 200))
    for _ in range(2):
        restart(broker, end)
        known = len(stream.acknowledged)
        until(lambda known=known: len(stream.acknowledged) > known + 200, "the producer goes on")  # type: ignore[misc]
    stream.end()
    assert stream.refused == []
    assert [number for number, _ in stream.acknowledged] == list(range(stream.sent))
    assert [offset for _, offset in stream.acknowledged] == list(range(stream.sent)), "nothing twice"
    seen += texts(take_through(reader, stream.sent - len(seen)))
    reader.close()
    assert seen == [str(number) for number in range(stream.sent)]
    stored = texts(read_all(address, "stream", stream.sent))
    assert stored == [str(number) for number in range(stream.sent)]


def take_through(reader: Consumer, count: int) -> list[Message]:
    """`take`, for a consumer that is told of the broker's absence, which is no error to give up at."""
    found: list[Message] = []

    def more() -> bool:
        for message in reader.consume(count - len(found), 0.2):
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.retriable() or error.code() in {
                    KafkaError._TRANSPORT,
                    KafkaError._ALL_BROKERS_DOWN,
                }, error
        return len(found) >= count

    until(more, f"{count} messages")
    return found


class Follower:
    """A member that commits each message it has read."""

    def __init__(self, address: str, name: str) -> None:
        self.seen: list[str] = []
        self.rebalances = 0
        self.consumer = Consumer(
            settings(
                address, group_id="team", client_id=name, auto_offset_reset="earliest",
                enable_auto_commit=False, heartbeat_interval_ms=300, session_timeout_ms=120_000,
                reconnect_backoff_max_ms=200,
            )
        )  # fmt: skip
        self.consumer.subscribe(["shared"], on_assign=self._on_assign)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.seen.append((message.value() or b"").decode())
            offset = message.offset()
            assert offset is not None
            commit_by(self.consumer, TopicPartition("shared", message.partition() or 0, offset + 1))


@END
def test_a_group_keeps_its_members(broker: AnyBroker, end: str) -> None:
    """Two members in the middle of their work see no rebalance, for the group is where it was."""
    address = broker.bootstrap_servers
    create_topic(address, "shared", 2)
    for partition in (0, 1):
        fill(address, "shared", range(10), partition=partition)
    members = [Follower(address, name) for name in ("a", "b")]

    def polled(count: int) -> bool:
        for member in members:
            member.poll()
        return sum(len(member.seen) for member in members) >= count

    until(
        lambda: polled(0) and all(len(member.consumer.assignment()) == 1 for member in members),
        "each has one",
    )
    until(lambda: polled(20), "twenty messages")
    before = [member.rebalances for member in members]
    restart(broker, end)
    for partition in (0, 1):
        fill(address, "shared", range(10, 20), partition=partition)
    until(lambda: polled(40), "twenty more")
    assert [member.rebalances for member in members] == before
    everything = [value for member in members for value in member.seen]
    assert sorted(map(int, everything)) == sorted([*range(20), *range(20)])
    for member in members:
        member.consumer.close()
    reader = Consumer(settings(address, group_id="team"))
    offsets = reader.committed([TopicPartition("shared", partition) for partition in (0, 1)], 30)
    assert [each.offset for each in offsets] == [20, 20]
    reader.close()
