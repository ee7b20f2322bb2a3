"""Groups with members change their broker: one is killed, the other one opens its directory, and whoever was
a member goes on with heartbeats where it was, in the epoch and with the partitions that it had.

The directory goes from Apache Kafka to us and back, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from msgspec.structs import replace

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill, until
from tests.support.clients.members import ClassicMember, NewerMember, ask, commit_error, described
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC: Final = "t"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": "240000",
    "group.consumer.session.timeout.ms": "240000",
}
Running = BarnabasProcess | GenuineKafka


class Groups(NamedTuple):
    """Members of all kinds, each group in a state of its own."""

    settled: list[NewerMember]
    """Two dynamic ones and a static one, two partitions each."""
    giving: NewerMember
    """It has all partitions and was told to give up half of them."""
    waiting: NewerMember
    """It is to have them."""
    away: NewerMember
    """Static, has left for a while, with all partitions."""
    classic: list[ClassicMember]
    """The leader, and a static one."""
    mixed_newer: NewerMember
    mixed_classic: ClassicMember

    def shown(self, address: str) -> dict[str, Any]:
        """All groups as administrators see them."""
        found: dict[str, Any] = {}
        for name in ("settled", "moving", "away", "mixed"):
            group = described(address, name)
            found[name] = replace(group, members=sorted(group.members, key=lambda each: each.member_id))
        until(lambda: classic_group(address).error_code == ErrorCode.NONE, "the classic group is loaded")
        classic = classic_group(address)
        found["classic"] = replace(classic, members=sorted(classic.members, key=lambda each: each.member_id))
        return found


def classic_group(address: str) -> DescribeGroupsResponse.DescribedGroup:
    request = DescribeGroupsRequest(groups=["classic"])
    (found,) = ask(address, DescribeGroupsResponse, request, 6).groups
    return found


def share(address: str, members: Sequence[NewerMember], each_has: int) -> None:
    """Heartbeats of all until each has its share, and has said so."""

    def is_shared() -> bool:
        for member in members:
            assert member.beat(address).error_code == ErrorCode.NONE
        return all(len(member.partitions) == each_has and member.owned == member.given for member in members)

    until(is_shared, f"each member has {each_has} partitions")
    assert len({number for member in members for number in member.partitions}) == each_has * len(members)


def form(address: str) -> Groups:
    create_topic(address, TOPIC, 6)
    settled = [NewerMember("settled", name, TOPIC) for name in ("a", "b")]
    settled.append(NewerMember("settled", "s", TOPIC, "seat"))
    for member in settled:
        assert member.join(address).error_code == ErrorCode.NONE
    share(address, settled, 2)
    giving, waiting = NewerMember("moving", "g", TOPIC), NewerMember("moving", "w", TOPIC)
    giving.join(address)
    share(address, [giving], 6)
    waiting.join(address)
    giving.beat(address, holds_on=True)
    assert len(giving.partitions) == 3
    away = NewerMember("away", "gone", TOPIC, "place")
    away.join(address)
    share(address, [away], 6)
    away.leave(address, for_a_while=True)
    mixed_newer, mixed_classic = NewerMember("mixed", "m", TOPIC), ClassicMember("mixed", TOPIC)
    mixed_newer.join(address)
    share(address, [mixed_newer], 6)
    mixed_classic.join(address)
    until(lambda: rejoins(address, mixed_newer, mixed_classic), "the classic member has its share")
    groups = Groups(
        settled, giving, waiting, away, classic_members(address, static="chair"), mixed_newer, mixed_classic
    )
    for member in groups.settled:
        assert commit(address, member) is ErrorCode.NONE
    return groups


def classic_members(address: str, static: str) -> list[ClassicMember]:
    """A leader and a static follower, three partitions each."""
    leader, follower = ClassicMember("classic", TOPIC), ClassicMember("classic", TOPIC, static)
    leader.join(address)
    leader.sync(address, {leader.member_id: [0, 1, 2, 3, 4, 5]})
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(follower.join, address)
        until(lambda: leader.beat(address) is ErrorCode.REBALANCE_IN_PROGRESS, "the follower joins")
        leader.join(address)
        waits.result(60)
    leader.sync(address, {leader.member_id: [0, 1, 2], follower.member_id: [3, 4, 5]})
    follower.sync(address)
    assert (leader.partitions, follower.partitions) == ([0, 1, 2], [3, 4, 5])
    return [leader, follower]


def rejoins(address: str, newer: NewerMember, classic: ClassicMember) -> bool:
    """One round of a mixed group. True when both have their shares and nothing is left to do."""
    newer.beat(address)
    if classic.sync(address).error_code or classic.beat(address) is ErrorCode.REBALANCE_IN_PROGRESS:
        classic.join(address)
        classic.sync(address)
    return sorted([*newer.partitions, *classic.partitions]) == [0, 1, 2, 3, 4, 5] and bool(classic.partitions)


def commit(address: str, member: NewerMember) -> ErrorCode:
    group, partition = member.group, member.partitions[0]
    return commit_error(address, group, member.member_id, member.epoch, TOPIC, partition, 0)


def go_on(address: str, groups: Groups) -> None:
    """Everybody is where he was; then what had begun goes on to its end."""
    for member in [*groups.settled, groups.mixed_newer]:
        epoch, partitions = member.epoch, member.partitions
        answer = member.beat(address)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, epoch), answer
        assert member.partitions == partitions
        assert commit(address, member) is ErrorCode.NONE
    for classic in [*groups.classic, groups.mixed_classic]:
        assert classic.beat(address) is ErrorCode.NONE
    leader = groups.classic[0]
    error = commit_error(address, "classic", leader.member_id, leader.generation, TOPIC, 0, 0)
    assert error is ErrorCode.NONE
    before = described(address, "away").group_epoch
    successor = NewerMember("away", f"{groups.away.member_id}-again", TOPIC, "place")
    assert successor.join(address).error_code == ErrorCode.NONE
    assert successor.partitions == [0, 1, 2, 3, 4, 5]
    assert described(address, "away").group_epoch == before, "the group has not noticed"
    assert groups.waiting.beat(address).error_code == ErrorCode.NONE
    assert groups.waiting.partitions == [], "nobody has given up anything yet"
    share(address, [groups.giving, groups.waiting], 3)


def change(address: str, groups: Groups) -> None:
    """Members come and go with the coordinator that has taken over."""
    static = groups.settled.pop()
    static.leave(address)
    share(address, groups.settled, 3)
    groups.mixed_newer.leave(address)
    until(
        lambda: groups.mixed_classic.beat(address) is ErrorCode.REBALANCE_IN_PROGRESS,
        "the mixed group is classic again",
    )
    leader, follower = groups.classic
    follower.generation -= 1
    assert follower.beat(address) is ErrorCode.ILLEGAL_GENERATION
    follower.generation += 1
    again = ClassicMember("classic", TOPIC, "chair")
    again.join(address)
    assert again.generation == follower.generation, "a static member is replaced without a rebalance"
    assert follower.beat(address) is ErrorCode.FENCED_INSTANCE_ID
    assert leader.beat(address) is ErrorCode.NONE


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, Running]]:
    """Two on one directory; never both at a time."""
    kafka = GenuineKafka(tmp_path / "data", SETTINGS)
    kafka.features = NO_FEATURES
    kafka.log_file = tmp_path / "kafka.log"
    ours = BarnabasProcess(tmp_path / "data", kafka.properties)
    ours.log_file = tmp_path / "ours.log"
    yield {"kafka": kafka, "barnabas": ours}
    kafka.kill()
    if ours.ready_line:
        ours.kill()


@pytest.mark.parametrize("order", [("kafka", "barnabas"), ("barnabas", "kafka")], ids="-to-".join)
def test_members_go_on_with_another_broker(brokers: dict[str, Running], order: tuple[str, str]) -> None:
    first, second = (brokers[name] for name in order)
    groups = form(first.start().bootstrap_servers)
    shown: Callable[[Running], dict[str, Any]] = lambda broker: groups.shown(broker.bootstrap_servers)  # noqa: E731
    before = shown(first)
    first.kill()
    second.start()
    assert shown(second) == before
    go_on(second.bootstrap_servers, groups)
    before = shown(second)
    second.kill()
    first.start()
    assert shown(first) == before
    change(first.bootstrap_servers, groups)


class GenuineMember:
    """A consumer of librdkafka, with what it was told and what it has read."""

    def __init__(self, address: str, group: str, **options: str) -> None:
        self.told: list[str] = []
        self.seen: list[str] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                "reconnect.backoff.max.ms": "500",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        self.consumer.subscribe(
            [TOPIC], on_assign=self._tell("has"), on_revoke=self._tell("gives"), on_lost=self._tell("lost")
        )

    def _tell(self, verb: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, places: self.told.append(f"{verb} {sorted(each.partition for each in places)}")

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.seen.append((message.value() or b"").decode())


@pytest.mark.parametrize("order", [("kafka", "barnabas"), ("barnabas", "kafka")], ids="-to-".join)
def test_genuine_consumers_notice_nothing(brokers: dict[str, Running], order: tuple[str, str]) -> None:
    """They keep their partitions and read on, by no other callback than that of their first assignment."""
    first, second = (brokers[name] for name in order)
    address = first.start().bootstrap_servers
    create_topic(address, TOPIC, 2)
    members = [
        GenuineMember(address, "newer", group_protocol="consumer"),
        GenuineMember(address, "static", group_protocol="consumer", group_instance_id="seat"),
        GenuineMember(address, "classic", session_timeout_ms="240000", group_instance_id="chair"),
    ]

    def all_read(text: str) -> None:
        def have_read() -> bool:
            for member in members:
                member.poll()
            return all(member.seen.count(text) == 2 for member in members)

        for partition in range(2):
            fill(address, TOPIC, [text], partition=partition)
        until(have_read, f"all read {text}", timeout_seconds=90)

    all_read("before")
    first.kill()
    assert second.start().bootstrap_servers == address
    all_read("meanwhile")
    second.kill()
    first.start()
    all_read("afterwards")
    assert [member.told for member in members] == [["has [0, 1]"]] * 3
    for member in members:
        member.consumer.close()
