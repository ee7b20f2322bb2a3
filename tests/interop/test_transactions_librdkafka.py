"""Transactions of confluent-kafka (librdkafka), whose requests are of the first version of transactions."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tests.conftest import AnyBroker
from tests.support.brokers.transactional import transactional_broker
from tests.support.clients.isolation import committed, is_decided, uncommitted
from tests.support.clients.librdkafka import create_topic, fill, settings, take, texts, until
from tests.support.clients.topics import Topics

Fresh = Callable[[], str]
PATIENCE_SECONDS = 90


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with transactional_broker(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


def ready(broker: AnyBroker, transactional_id: str, **named: Any) -> Producer:
    """A producer whose id is its own, and fences who had it before. It is silent about its troubles."""
    logger = logging.getLogger("librdkafka.transactions")
    logger.setLevel(logging.CRITICAL)
    chosen = settings(broker.bootstrap_servers, transactional_id=transactional_id, linger_ms=0, **named)
    producer = Producer(chosen | {"logger": logger, "error_cb": lambda _: None})
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    """Values, and they are in the log."""
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(PATIENCE_SECONDS) == 0


def begin(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    producer.begin_transaction()
    write(producer, topic, *values, partition=partition)


def refusal(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        call()
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def test_committed_and_aborted_transactions_over_several_partitions(broker: AnyBroker, fresh: Fresh) -> None:
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh(), 3)
    producer = ready(broker, fresh())
    every: list[list[str]] = [[], [], []]
    good: list[list[str]] = [[], [], []]
    for number in range(12):
        commits, touched = number % 3 != 1, {number % 3, (number // 3) % 3}
        producer.begin_transaction()
        for partition in sorted(touched):
            values = [f"{number}-{each}" for each in range(4)]
            for value in values:
                producer.produce(topic, value, partition=partition)
            every[partition] += values
            good[partition] += values if commits else []
        producer.flush(PATIENCE_SECONDS)
        (producer.commit_transaction if commits else producer.abort_transaction)(PATIENCE_SECONDS)
    until(lambda: all(is_decided(address, topic, each) for each in range(3)), "the markers are written")
    assert committed(address, topic, 3) == good
    assert uncommitted(address, topic, 3) == every


@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_holds_back_what_others_commit_after_it(
    broker: AnyBroker, fresh: Fresh, commits: bool
) -> None:
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh())
    fill(address, topic, ["before"], partition=0)
    first, second = ready(broker, fresh()), ready(broker, fresh())
    begin(first, topic, "open")
    begin(second, topic, "later")
    second.commit_transaction(PATIENCE_SECONDS)
    fill(address, topic, ["plain"], partition=0)
    assert committed(address, topic) == [["before"]]
    assert uncommitted(address, topic) == [["before", "open", "later", "plain"]]
    assert not is_decided(address, topic)
    (first.commit_transaction if commits else first.abort_transaction)(PATIENCE_SECONDS)
    until(lambda: is_decided(address, topic), "the marker is written")
    assert committed(address, topic) == [["before", *(["open"] if commits else []), "later", "plain"]]


def test_transactions_beside_an_idempotent_producer_in_one_partition(broker: AnyBroker, fresh: Fresh) -> None:
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh())
    transactional = ready(broker, fresh())
    idempotent = Producer(settings(address, enable_idempotence=True, linger_ms=0))
    for number in range(6):
        begin(transactional, topic, f"t{number}")
        write(idempotent, topic, f"i{number}")
        write(transactional, topic, f"u{number}")
        ends = transactional.commit_transaction if number % 2 else transactional.abort_transaction
        ends(PATIENCE_SECONDS)
    until(lambda: is_decided(address, topic), "the markers are written")
    every = [f"{kind}{number}" for number in range(6) for kind in "tiu"]
    assert uncommitted(address, topic) == [every]
    assert committed(address, topic) == [[each for each in every if each[0] == "i" or int(each[1]) % 2]]


def group_member(broker: AnyBroker, group: str, protocol: str, topic: str) -> Consumer:
    member = Consumer(
        settings(
            broker.bootstrap_servers,
            group_id=group,
            group_protocol=protocol,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
    )
    member.subscribe([topic])
    return member


def offset_of(broker: AnyBroker, group: str, topic: str, *, stable: bool) -> int | str:
    """What the group has committed for the topic's partition 0, or the name of the refusal."""
    asked = ConsumerGroupTopicPartitions(group, [At(topic, 0)])
    admin = AdminClient(settings(broker.bootstrap_servers))
    (answer,) = admin.list_consumer_group_offsets(
        [asked], require_stable=stable, request_timeout=PATIENCE_SECONDS
    ).values()
    (found,) = answer.result().topic_partitions
    return found.error.name() if found.error else int(found.offset)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_consumed_is_produced_exactly_once(broker: AnyBroker, fresh: Fresh, protocol: str) -> None:
    address, group = broker.bootstrap_servers, fresh()
    source, sink = create_topic(address, fresh()), create_topic(address, fresh())
    fill(address, source, range(40), partition=0)
    member, producer = group_member(broker, group, protocol, source), ready(broker, fresh())
    for turn in range(6):
        messages = take(member, 10)
        begin(producer, sink, *texts(messages))
        next_offset = (messages[-1].offset() or 0) + 1
        member_of = member.consumer_group_metadata()
        producer.send_offsets_to_transaction([At(source, 0, next_offset)], member_of, PATIENCE_SECONDS)
        if turn % 3 == 1:
            producer.abort_transaction(PATIENCE_SECONDS)
            (there,) = member.committed([At(source, 0)], PATIENCE_SECONDS)
            assert there.offset == next_offset - 10
            member.seek(there)
        else:
            producer.commit_transaction(PATIENCE_SECONDS)
    until(lambda: offset_of(broker, group, source, stable=True) == 40, "all is committed")
    until(lambda: is_decided(address, sink), "the markers are written")
    member.close()
    assert committed(address, sink) == [[str(number) for number in range(40)]]
    assert len(uncommitted(address, sink)[0]) == 60


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_pending_until_the_transaction_ends(
    broker: AnyBroker, fresh: Fresh, protocol: str
) -> None:
    address, group = broker.bootstrap_servers, fresh()
    source, sink = create_topic(address, fresh()), create_topic(address, fresh())
    fill(address, source, range(10), partition=0)
    member, producer = group_member(broker, group, protocol, source), ready(broker, fresh())
    take(member, 10)

    def send(offset: int) -> None:
        begin(producer, sink, str(offset))
        member_of = member.consumer_group_metadata()
        producer.send_offsets_to_transaction([At(source, 0, offset)], member_of, PATIENCE_SECONDS)

    def seen(*, stable: bool) -> int | str:
        return offset_of(broker, group, source, stable=stable)

    send(4)
    assert (seen(stable=False), seen(stable=True)) == (-1001, "UNSTABLE_OFFSET_COMMIT")
    producer.commit_transaction(PATIENCE_SECONDS)
    assert member.committed([At(source, 0)], PATIENCE_SECONDS)[0].offset == 4
    send(8)
    assert (seen(stable=False), seen(stable=True)) == (4, "UNSTABLE_OFFSET_COMMIT")
    producer.abort_transaction(PATIENCE_SECONDS)
    until(lambda: seen(stable=True) == 4, "the offset of the aborted transaction is gone")
    member_of = member.consumer_group_metadata()
    member.close()
    begin(producer, sink, "left")
    told = refusal(lambda: producer.send_offsets_to_transaction([At(source, 0, 9)], member_of, 45))
    assert (told.name(), told.txn_requires_abort()) == ("UNKNOWN_MEMBER_ID", True)
    producer.abort_transaction(PATIENCE_SECONDS)
    assert committed(address, sink) == [["4"]]


def zombies_call(api: str, broker: AnyBroker, zombie: Producer, topic: str) -> None:
    """What a producer does that was fenced in its transaction, in which it wrote to partition 0."""
    if api == "commit":
        zombie.commit_transaction(PATIENCE_SECONDS)
    elif api == "abort":
        zombie.abort_transaction(PATIENCE_SECONDS)
    elif api == "offsets":
        reader = Consumer(settings(broker.bootstrap_servers, group_id=topic))
        member_of = reader.consumer_group_metadata()
        zombie.send_offsets_to_transaction([At(topic, 0, 1)], member_of, PATIENCE_SECONDS)
    else:
        write(zombie, topic, "from the dead", partition=0 if api == "produce" else 1)


@pytest.mark.parametrize("api", ["produce", "produce elsewhere", "commit", "abort", "offsets"])
def test_the_second_of_two_producers_fences_the_first(broker: AnyBroker, fresh: Fresh, api: str) -> None:
    address, topic, name = broker.bootstrap_servers, fresh(), fresh()
    create_topic(address, topic, 2)
    zombie = ready(broker, name)
    begin(zombie, topic, "of the first")
    owner = ready(broker, name)
    assert is_decided(address, topic), "the second is ready when the first one's transaction is aborted"
    told = refusal(lambda: zombies_call(api, broker, zombie, topic))
    assert (told.name(), told.fatal()) == ("_FENCED", True)
    assert refusal(zombie.begin_transaction).fatal()
    begin(owner, topic, "of the second")
    owner.commit_transaction(PATIENCE_SECONDS)
    until(lambda: is_decided(address, topic), "the marker is written")
    assert committed(address, topic, 2) == [["of the second"], []]
    assert uncommitted(address, topic, 2) == [["of the first", "of the second"], []]


def test_the_coordinator_aborts_what_takes_longer_than_its_time(broker: AnyBroker, fresh: Fresh) -> None:
    address, topic, name = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh()), fresh()
    slow = ready(broker, name, transaction_timeout_ms=3000)
    begin(slow, topic, "too late")
    until(lambda: is_decided(address, topic), "the coordinator aborts")
    told = refusal(lambda: slow.commit_transaction(PATIENCE_SECONDS))
    assert (told.name(), told.fatal()) == ("_FENCED", True), "the coordinator has raised the epoch"
    again = ready(broker, name)
    begin(again, topic, "in time")
    again.commit_transaction(PATIENCE_SECONDS)
    until(lambda: is_decided(address, topic), "the marker is written")
    assert committed(address, topic) == [["in time"]]
    assert uncommitted(address, topic) == [["too late", "in time"]]


def test_a_timeout_longer_than_the_broker_allows(broker: AnyBroker, fresh: Fresh) -> None:
    told = refusal(lambda: ready(broker, fresh(), transaction_timeout_ms=900_001))
    assert told.name() == "INVALID_TRANSACTION_TIMEOUT"


def test_a_topic_is_deleted_while_a_transaction_writes_to_it(broker: AnyBroker, fresh: Fresh) -> None:
    address, kept, gone = broker.bootstrap_servers, fresh(), fresh()
    create_topic(address, kept)
    create_topic(address, gone)
    producer = ready(broker, fresh())
    begin(producer, kept, "one")
    write(producer, gone, "lost")
    Topics(address).delete(gone)
    producer.commit_transaction(PATIENCE_SECONDS)
    begin(producer, kept, "two")
    producer.commit_transaction(PATIENCE_SECONDS)
    until(lambda: is_decided(address, kept), "the markers are written")
    assert committed(address, kept) == [["one", "two"]]


def test_a_producer_goes_on_with_a_new_epoch_when_a_message_was_given_up(
    broker: AnyBroker, fresh: Fresh
) -> None:
    """KIP-360: nobody knows whether the message came, so that its sequence number can't be used again."""
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh())
    producer = ready(broker, fresh(), message_timeout_ms=3000)
    begin(producer, topic, "first")
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        producer.produce(topic, "given up", partition=0)
        producer.flush(PATIENCE_SECONDS)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    told = refusal(lambda: producer.commit_transaction(PATIENCE_SECONDS))
    assert (told.fatal(), told.txn_requires_abort()) == (False, True)
    producer.abort_transaction(PATIENCE_SECONDS)
    begin(producer, topic, "second")
    producer.commit_transaction(PATIENCE_SECONDS)
    until(lambda: is_decided(address, topic), "the marker is written")
    assert committed(address, topic) == [["second"]]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_the_broker_ends_between_produce_and_commit(broker: AnyBroker, fresh: Fresh, ending: str) -> None:
    address, topic = broker.bootstrap_servers, create_topic(broker.bootstrap_servers, fresh(), 2)
    committing, aborting = ready(broker, fresh()), ready(broker, fresh())
    begin(committing, topic, "kept")
    begin(aborting, topic, "dropped")
    getattr(broker, ending)()
    broker.start()
    write(committing, topic, "kept too", partition=1)
    committing.commit_transaction(PATIENCE_SECONDS)
    aborting.abort_transaction(PATIENCE_SECONDS)
    until(lambda: all(is_decided(address, topic, each) for each in range(2)), "the markers are written")
    assert committed(address, topic, 2) == [["kept"], ["kept too"]]
    assert uncommitted(address, topic, 2) == [["kept", "dropped"], ["kept too"]]
