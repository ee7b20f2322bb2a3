"""Consumer groups of confluent-kafka: members come, go and crash; eager, cooperative and static."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic, fill, settings, until

Fresh = Callable[[], str]
SESSION_MS: Final = 120_000
"""No member is taken for dead because the machine is busy: those who go say so, or poll no more."""


class Member:
    """A consumer that polls in a thread of its own until it leaves; others only look at its fields."""

    def __init__(self, address: str, group: str, topic: str, **named: Any) -> None:
        self.values: list[str] = []
        self.errors: list[KafkaError] = []
        self.partitions: frozenset[int] = frozenset()
        self.assigned = 0
        self.revoked = 0
        self.lost = 0
        chosen: dict[str, Any] = {"auto_offset_reset": "earliest", "session_timeout_ms": SESSION_MS} | named
        self.consumer = Consumer(settings(address, group_id=group, heartbeat_interval_ms=200, **chosen))
        self.consumer.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += 1
        self.partitions |= {each.partition for each in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += 1
        self.partitions -= {each.partition for each in partitions}

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += 1
        self.partitions -= {each.partition for each in partitions}

    def _run(self) -> None:
        while not self._leaving.is_set():
            message = self.consumer.poll(0.05)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.values.append((message.value() or b"").decode())
            else:
                self.errors.append(error)

    def stop_polling(self) -> None:
        self._leaving.set()
        self._thread.join(30)

    def leave(self) -> None:
        if not self._leaving.is_set():
            self.stop_polling()
            self.consumer.close()


@contextmanager
def members() -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def join(*arguments: Any, **named: Any) -> Member:
        made.append(Member(*arguments, **named))
        return made[-1]

    yield join
    for each in made:
        each.leave()


def shared_among(count: int, *group: Member) -> Callable[[], bool]:
    """Whether these members hold all partitions, and each of them once."""

    def settled() -> bool:
        held = [each.partitions for each in group]
        return all(held) and sum(map(len, held)) == count == len(frozenset[int]().union(*held))

    return settled


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go(broker: AnyBroker, fresh: Fresh, strategy: str) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 6)
    with members() as join:
        arguments = (address, group, topic)
        one = join(*arguments, partition_assignment_strategy=strategy)
        until(shared_among(6, one), "one member has all")
        two = join(*arguments, partition_assignment_strategy=strategy)
        three = join(*arguments, partition_assignment_strategy=strategy)
        share = shared_among(6, one, two, three)

        def is_even() -> bool:
            """A cooperative member holds what it must give up a moment longer than others wait for theirs."""
            return share() and {len(each.partitions) for each in (one, two, three)} == {2}

        until(is_even, "three members share evenly")
        fill(address, topic, range(300))
        until(lambda: sum(len(each.values) for each in (one, two, three)) == 300, "each message comes once")
        two.leave()
        until(shared_among(6, one, three), "two members share")
        fill(address, topic, range(300, 600))
        until(lambda: len(one.values) + len(two.values) + len(three.values) >= 600, "the rest comes")
        everything = one.values + two.values + three.values
        assert sorted(map(int, everything)) == list(range(600)), "what left members had read was committed"
        assert [*one.errors, *two.errors, *three.errors] == []
        assert one.lost == three.lost == 0


def test_an_incremental_rebalance_takes_only_what_moves(broker: AnyBroker, fresh: Fresh) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 4)
    with members() as join:
        one = join(address, group, topic, partition_assignment_strategy="cooperative-sticky")
        until(shared_among(4, one), "one member has all")
        before = one.partitions
        two = join(address, group, topic, partition_assignment_strategy="cooperative-sticky")
        until(shared_among(4, one, two), "two members share")
        assert one.partitions < before
        assert one.revoked == 1


def test_a_member_that_falls_silent_is_replaced(broker: AnyBroker, fresh: Fresh) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 2)
    with members() as join:
        silent = join(address, group, topic, max_poll_interval_ms=6000, session_timeout_ms=6000)
        until(shared_among(2, silent), "the first has all")
        other = join(address, group, topic)
        until(shared_among(2, silent, other), "both share")
        silent.stop_polling()  # its heartbeats end when librdkafka has missed its polls for long enough
        until(shared_among(2, other), "the other has all")
        silent.consumer.close()


def test_a_static_member_comes_back_without_a_rebalance(broker: AnyBroker, fresh: Fresh) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 2)
    with members() as join:
        stays = join(address, group, topic, group_instance_id="stays")
        goes = join(address, group, topic, group_instance_id="goes")
        until(shared_among(2, stays, goes), "both share")
        held, rebalances = goes.partitions, stays.assigned
        goes.leave()  # a static member does not say goodbye
        back = join(address, group, topic, group_instance_id="goes")
        until(shared_among(2, stays, back), "it has its partitions again")
        assert (back.partitions, stays.assigned) == (held, rebalances)


def test_an_instance_id_is_for_one(broker: AnyBroker, fresh: Fresh) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 1)
    with members() as join:
        first = join(address, group, topic, group_instance_id="me")
        until(shared_among(1, first), "the first has all")
        second = join(address, group, topic, group_instance_id="me")
        until(shared_among(1, second), "the second takes its place")
        until(lambda: first.errors, "the first is told")
        assert {error.code() for error in first.errors} == {KafkaError._FATAL}
        assert "fenced" in first.errors[0].str()


def test_protocols_must_have_something_in_common(broker: AnyBroker, fresh: Fresh) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 1)
    with members() as join:
        eager = join(address, group, topic, partition_assignment_strategy="range")
        until(shared_among(1, eager), "the first has all")
        other = join(address, group, topic, partition_assignment_strategy="cooperative-sticky")
        until(lambda: other.errors, "the second is refused")
        assert other.errors[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
        assert eager.partitions == {0}


def test_the_group_as_the_admin_sees_it(broker: AnyBroker, fresh: Fresh) -> None:
    address, group = broker.bootstrap_servers, fresh()
    topic = create_topic(address, fresh(), 3)
    fill(address, topic, range(30))
    admin = AdminClient(settings(address))

    def described() -> Any:
        return admin.describe_consumer_groups([group])[group].result(30)

    with members() as join:
        one = join(address, group, topic, client_id="erster")
        two = join(address, group, topic, client_id="zweiter")
        until(shared_among(3, one, two), "both share")
        until(lambda: len(one.values) + len(two.values) == 30, "all is read")
        until(lambda: described().state == ConsumerGroupState.STABLE, "the group is stable")
        found = described()
        assert (found.group_id, found.is_simple_consumer_group, found.partition_assignor) == (
            group,
            False,
            "range",
        )
        assert found.coordinator.id == 1
        seen = {
            each.client_id: {part.partition for part in each.assignment.topic_partitions}
            for each in found.members
        }
        assert seen == {"erster": one.partitions, "zweiter": two.partitions}
        assert {each.host for each in found.members} == {"/127.0.0.1"}
    until(lambda: described().state == ConsumerGroupState.EMPTY, "the group is empty")
    (listed,) = (each for each in admin.list_consumer_groups().result(30).valid if each.group_id == group)
    assert listed.state == ConsumerGroupState.EMPTY
    reader = Consumer(settings(address, group_id=group))
    offsets = reader.committed([TopicPartition(topic, partition) for partition in range(3)], 30)
    reader.close()
    assert sum(each.offset for each in offsets) == 30
