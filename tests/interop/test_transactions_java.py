"""Transactions of Apache Kafka's own Java client, whose requests are of the newest version (KIP-890)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import BatchBuilder
from tests.conftest import AnyBroker
from tests.support.brokers.transactional import transactional_broker
from tests.support.clients.isolation import is_decided
from tests.support.clients.java_transactions import JavaClients
from tests.support.clients.librdkafka import create_topic, fill, until
from tests.support.clients.topics import Topics
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]
Create = Callable[..., str]
PATIENCE_MS = 45_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with transactional_broker(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def java(broker: AnyBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    with JavaClients(broker.bootstrap_servers, tmp_path_factory.mktemp("java")) as clients:
        yield clients


@pytest.fixture
def create(broker: AnyBroker, fresh: Fresh) -> Create:
    """Makes a topic with a name of its own."""
    return lambda partitions=1: create_topic(broker.bootstrap_servers, fresh(), partitions)


def await_decided(broker: AnyBroker, topic: str, partitions: int = 1) -> None:
    def decided() -> bool:
        return all(is_decided(broker.bootstrap_servers, topic, each) for each in range(partitions))

    until(decided, f"no transaction is open in {topic}")


def begin(java: JavaClients, producer: str, topic: str, *values: str, partition: int = 0) -> None:
    java("begin", producer)
    java("send", producer, topic, partition, *values)


def begun(java: JavaClients, producer: str, transactional_id: str, topic: str, *values: str) -> None:
    """A producer is made and has written to the topic."""
    java("producer", producer, f"transactional.id={transactional_id}")
    begin(java, producer, topic, *values)


def test_committed_and_aborted_transactions_over_several_partitions(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh
) -> None:
    topic, name = create(3), fresh()
    java("producer", "p", f"transactional.id={name}")
    every: list[list[str]] = [[], [], []]
    good: list[list[str]] = [[], [], []]
    for number in range(12):
        commits = number % 3 != 1
        java("begin", "p")
        for partition in sorted({number % 3, (number // 3) % 3}):
            values = [f"{number}-{each}" for each in range(4)]
            java("send", "p", topic, partition, *values)
            every[partition] += values
            good[partition] += values if commits else []
        java("commit" if commits else "abort", "p")
    await_decided(broker, topic, 3)
    assert java.read(topic, 3, "read_committed") == good
    assert java.read(topic, 3, "read_uncommitted") == every
    until(lambda: java("describe", name)[0] == "CompleteCommit", "the coordinator knows of the last marker")
    assert java("describe", name)[2] == "12", "each end raises the epoch"


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_an_open_transaction_holds_back_what_others_commit_after_it(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh, ending: str
) -> None:
    topic = create()
    fill(broker.bootstrap_servers, topic, ["before"], partition=0)
    begun(java, "first", fresh(), topic, "open")
    begun(java, "second", fresh(), topic, "later")
    java("commit", "second")
    java("producer", "idempotent")
    java("send", "idempotent", topic, 0, "plain")
    assert java.read(topic, 1, "read_committed") == [["before"]]
    assert java.read(topic, 1, "read_uncommitted") == [["before", "open", "later", "plain"]]
    java(ending, "first")
    await_decided(broker, topic)
    kept = ["open"] if ending == "commit" else []
    assert java.read(topic, 1, "read_committed") == [["before", *kept, "later", "plain"]]


def subscribe(java: JavaClients, member: str, topic: str, group: str, protocol: str) -> None:
    java(
        "subscribe",
        member,
        topic,
        f"group.id={group}",
        f"group.protocol={protocol}",
        "auto.offset.reset=earliest",
        "enable.auto.commit=false",
        "isolation.level=read_committed",
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_consumed_is_produced_exactly_once(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh, protocol: str
) -> None:
    source, sink, group = create(), create(), fresh()
    fill(broker.bootstrap_servers, source, range(40), partition=0)
    subscribe(java, "c", source, group, protocol)
    java("producer", "p", f"transactional.id={fresh()}")
    left, done = java("take", "c", 40), 0
    for turn in range(6):
        begin(java, "p", sink, *left[:10])
        java("send offsets", "p", "c", source, 0, done + 10)
        if turn % 3 == 1:
            java("abort", "p")
        else:
            java("commit", "p")
            left, done = left[10:], done + 10
        assert java("committed", "c", source, 0, PATIENCE_MS) == [str(done)]
    await_decided(broker, sink)
    assert java.read(sink, 1, "read_committed") == [[str(number) for number in range(40)]]
    assert len(java.read(sink, 1, "read_uncommitted")[0]) == 60


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_pending_until_the_transaction_ends(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh, protocol: str
) -> None:
    source, group = create(), fresh()
    fill(broker.bootstrap_servers, source, range(10), partition=0)
    subscribe(java, "c", source, group, protocol)
    java("take", "c", 10)
    java("producer", "p", f"transactional.id={fresh()}")
    java("begin", "p")
    java("send offsets", "p", "c", source, 0, 4)
    assert java("offset", group, source, 0) == ["none"]
    assert java.refusal("committed", "c", source, 0, 300) == "TimeoutException"
    java("commit", "p")
    assert java("committed", "c", source, 0, PATIENCE_MS) == ["4"]
    java("begin", "p")
    java("send offsets", "p", "c", source, 0, 8)
    assert java("offset", group, source, 0) == ["4"]
    java("abort", "p")
    assert java("committed", "c", source, 0, PATIENCE_MS) == ["4"]
    java("leave", "c")
    java("begin", "p")
    assert java.refusal("send offsets", "p", "c", source, 0, 9) == "CommitFailedException"
    java("abort", "p")


FENCED = {
    "send": "InvalidProducerEpochException",
    "send elsewhere": "InvalidProducerEpochException",
    "commit": "ProducerFencedException",
    "abort": "ProducerFencedException",
    "send offsets": "ProducerFencedException",
}


@pytest.mark.parametrize("api", FENCED)
def test_the_second_of_two_producers_fences_the_first(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh, api: str
) -> None:
    topic, name = create(2), fresh()
    begun(java, "zombie", name, topic, "of the first")
    java("producer", "owner", f"transactional.id={name}")
    await_decided(broker, topic)
    java("subscribe", "c", topic, f"group.id={fresh()}")
    rest: dict[str, tuple[object, ...]] = {
        "send": ("send", "zombie", topic, 0, "from the dead"),
        "send elsewhere": ("send", "zombie", topic, 1, "from the dead"),
        "send offsets": ("send offsets", "zombie", "c", topic, 0, 1),
    }
    assert java.refusal(*rest.get(api, (api, "zombie"))) == FENCED[api]
    assert java.refusal("abort", "zombie") == "ProducerFencedException"
    assert java.refusal("begin", "zombie") == "ProducerFencedException"
    begin(java, "owner", topic, "of the second")
    java("commit", "owner")
    await_decided(broker, topic, 2)
    assert java.read(topic, 2, "read_committed") == [["of the second"], []]
    assert java.read(topic, 2, "read_uncommitted") == [["of the first", "of the second"], []]


def test_the_coordinator_aborts_what_takes_longer_than_its_time(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh
) -> None:
    topic, name = create(), fresh()
    java("producer", "slow", f"transactional.id={name}", "transaction.timeout.ms=3000")
    begin(java, "slow", topic, "too late")
    assert java("describe", name)[3] == "3000"
    until(lambda: java("describe", name)[0] == "CompleteAbort", "the coordinator aborts")
    assert java("describe", name)[2] == "1", "and raises the epoch"
    assert java.refusal("commit", "slow") == "InvalidTxnStateException"
    begun(java, "again", name, topic, "in time")
    java("commit", "again")
    await_decided(broker, topic)
    assert java.read(topic, 1, "read_committed") == [["in time"]]
    assert java.read(topic, 1, "read_uncommitted") == [["too late", "in time"]]


def test_a_topic_is_deleted_while_a_transaction_writes_to_it(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh
) -> None:
    kept, gone = create(), create()
    begun(java, "p", fresh(), kept, "one")
    java("send", "p", gone, 0, "lost")
    Topics(broker.bootstrap_servers).delete(gone)
    java("commit", "p")
    begin(java, "p", kept, "two")
    java("commit", "p")
    await_decided(broker, kept)
    assert java.read(kept, 1, "read_committed") == [["one", "two"]]


def test_a_producer_goes_on_with_a_new_epoch_when_a_record_was_given_up(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh
) -> None:
    topic, name = create(), fresh()
    timeouts = ("delivery.timeout.ms=3000", "request.timeout.ms=2500")
    java("producer", "p", f"transactional.id={name}", *timeouts)
    begin(java, "p", topic, "first")
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        assert java.refusal("send", "p", topic, 0, "given up") == "TimeoutException"
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert java.refusal("commit", "p") == "KafkaException"
    java("abort", "p")
    begin(java, "p", topic, "second")
    java("commit", "p")
    await_decided(broker, topic)
    assert java.read(topic, 1, "read_committed") == [["second"]]
    assert java("describe", name)[2] == "2"


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_the_broker_ends_between_produce_and_commit(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh, ending: str
) -> None:
    topic, groups = create(2), (fresh(), fresh())
    for producer, group, value in zip(("committing", "aborting"), groups, ("kept", "dropped"), strict=True):
        begun(java, producer, fresh(), topic, value)
        subscribe(java, producer, topic, group, "classic")
        java("send offsets", producer, producer, topic, 0, 1)
    getattr(broker, ending)()
    broker.start()
    assert java("offset", groups[0], topic, 0) == ["none"]
    java("send", "committing", topic, 1, "kept too")
    java("commit", "committing")
    java("abort", "aborting")
    for producer, offset in ("committing", "1"), ("aborting", "none"):
        assert java("committed", producer, topic, 0, PATIENCE_MS) == [offset]
    await_decided(broker, topic, 2)
    assert java.read(topic, 2, "read_committed") == [["kept"], ["kept too"]]
    assert java.read(topic, 2, "read_uncommitted") == [["kept", "dropped"], ["kept too"]]


def test_the_version_of_transactions_changes_while_they_are_open(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh
) -> None:
    """A producer goes on as the cluster was when it connected, and only the newest raise their epochs."""
    topic, names = create(), [fresh() for _ in range(3)]
    try:
        for level, name in zip((0, 1, 2), names, strict=True):
            java("level", level)
            begun(java, f"of level {level}", name, topic, f"of {level}")
        for level in range(3):
            java("commit", f"of level {level}")
        await_decided(broker, topic)
        assert [java("describe", name)[2] for name in names] == ["0", "0", "1"]
        java("level", 1)
        for level in range(3):
            begin(java, f"of level {level}", topic, f"of {level} at last")
            java("commit", f"of level {level}")
        await_decided(broker, topic)
    finally:
        java("level", 2)
    values = [f"of {level}{when}" for when in ("", " at last") for level in range(3)]
    assert java.read(topic, 1, "read_committed") == [values]
    for name in names:
        begun(java, "heir", name, topic, name)
        java("commit", "heir")
    await_decided(broker, topic)
    assert java.read(topic, 1, "read_committed") == [[*values, *names]]


def test_the_admin_lists_and_describes_transactions(java: JavaClients, create: Create, fresh: Fresh) -> None:
    topic, name, other = create(2), fresh(), fresh()
    begun(java, "p", name, topic, "one")
    java("send", "p", topic, 1, "two")
    begun(java, "q", other, topic, "three")
    java("commit", "q")
    state, producer_id, epoch, timeout_ms, partitions = java("describe", name)
    assert (state, epoch, timeout_ms) == ("Ongoing", "0", "60000")
    assert partitions == f"{topic}-0,{topic}-1"
    assert java("producers", topic, 1) == [f"{producer_id} 0 -1 0"]
    assert java.refusal("describe", fresh()) == "TransactionalIdNotFoundException"
    both = {f"{name} Ongoing", f"{other} CompleteCommit"}
    until(lambda: both <= set(java("list")), "one is open, one is complete")
    assert java("list", "state=Ongoing", f"pattern={name}|{other}") == [f"{name} Ongoing"]
    assert java("list", f"producer={producer_id}") == [f"{name} Ongoing"]
    assert java("list", "longer=600000", f"pattern={name}") == []
    assert java("list", "longer=0", f"pattern={name}") == [f"{name} Ongoing"]
    assert java.refusal("list", "pattern=(") == "InvalidRegularExpression"
    java("abort", "p")


def test_the_admin_fences_a_producer(
    broker: AnyBroker, java: JavaClients, create: Create, fresh: Fresh
) -> None:
    topic, name = create(), fresh()
    begun(java, "p", name, topic, "fenced")
    java("fence", name)
    await_decided(broker, topic)
    assert java("describe", name)[0] == "Empty"
    assert java.refusal("commit", "p") == "ProducerFencedException"
    assert java.read(topic, 1, "read_committed") == [[]]


@contextmanager
def without_verification(java: JavaClients) -> Iterator[None]:
    """Partitions believe a producer of the old kind that its transaction is known to the coordinator."""
    java("configure", "transaction.partition.verification.enable", "false")
    try:
        yield
    finally:
        java("configure", "transaction.partition.verification.enable")


def leave_hanging(broker: AnyBroker, topic: str, producer_id: int) -> int:
    """A record of a transaction that no coordinator knows. The answer's error code."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=3, base_sequence=0, transactional=True)
    builder.append(None, b"hanging", 0)
    data = ProduceRequest.PartitionProduceData(0, builder.build())
    request = ProduceRequest(
        "nobody", -1, 5000, [ProduceRequest.TopicProduceData(topic, partition_data=[data])]
    )
    with WireClient(broker.bootstrap_servers) as client:
        answer = client.ask_for(ProduceResponse, request, 11)
    return answer.responses[0].partition_responses[0].error_code


def test_the_admin_aborts_a_hanging_transaction(broker: AnyBroker, java: JavaClients, create: Create) -> None:
    topic = create()

    def hangs() -> bool:
        return leave_hanging(broker, topic, 987_654) == 0

    assert not hangs(), "the partition asks the coordinator first"
    with without_verification(java):
        until(hangs, "the partition believes the producer")
    fill(broker.bootstrap_servers, topic, ["behind it"], partition=0)
    assert java.read(topic, 1, "read_committed") == [[]]
    assert java("producers", topic, 0) == ["987654 3 -1 0"]
    java("abort hanging", topic, 0, 987_654, 3, 0)
    assert java.read(topic, 1, "read_committed") == [["behind it"]]
    assert java("producers", topic, 0) == []


def test_the_console_consumer_shows_what_is_committed(
    java: JavaClients, create: Create, fresh: Fresh, tool: Tool
) -> None:
    topic = create()
    begun(java, "p", fresh(), topic, "one", "two")
    java("commit", "p")
    begin(java, "p", topic, "never")
    java("abort", "p")
    begin(java, "p", topic, "three")
    java("commit", "p")

    def shown(isolation: str, count: int) -> list[str]:
        words = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "90000")
        return tool("kafka-console-consumer", "--topic", topic, "--isolation-level", isolation, *words).lines

    assert shown("read_committed", 3) == ["one", "two", "three"]
    assert shown("read_uncommitted", 4) == ["one", "two", "never", "three"]
