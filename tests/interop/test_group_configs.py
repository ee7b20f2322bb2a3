"""Configs that a group sets for itself, by kafka-configs, and what its members feel of them; both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from protocol.errors import ErrorCode
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic
from tests.support.clients.librdkafka import until as come_about
from tests.support.clients.members import NewerMember, described
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.tool_server import ToolServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

BOUNDS: Final = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.consumer.max.assignment.interval.ms": "60000",
}
OTHER_BOUNDS: Final = {
    "group.consumer.min.heartbeat.interval.ms": "2000",
    "group.consumer.max.heartbeat.interval.ms": "7000",
}
LONGER_THAN_SESSION_SECONDS: Final = 3.5
Running = BarnabasProcess | GenuineKafka
Configs = Callable[..., str]


@pytest.fixture(params=["barnabas", "kafka"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    genuine = GenuineKafka(tmp_path / "data", BOUNDS)
    ours = BarnabasProcess(tmp_path / "data", genuine.properties)
    with ours if request.param == "barnabas" else genuine as broker:
        create_topic(broker.bootstrap_servers, "t", 4)
        yield broker


@pytest.fixture
def configs(running: Running, tool_server: ToolServer) -> Configs:
    def call(group: str, *words: str) -> str:
        tool = tool_server.tool_at(lambda: running.bootstrap_servers)
        done = tool("kafka-configs", "--entity-type", "groups", "--entity-name", group, *words)
        assert done.code == 0, done.err
        return done.out

    return call


def told_interval_ms(running: Running, member: NewerMember) -> int:
    answer = member.beat(running.bootstrap_servers)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.heartbeat_interval_ms


def test_members_feel_what_their_group_sets(running: Running, configs: Configs) -> None:
    address = running.bootstrap_servers
    member, other = NewerMember("own", "own-1", "t"), NewerMember("plain", "plain-1", "t")
    assert [each.join(address).heartbeat_interval_ms for each in (member, other)] == [5_000, 5_000]
    assert len(described(address, "own").members) == 1
    values = "consumer.heartbeat.interval.ms=300,consumer.session.timeout.ms=1500"
    configs("own", "--alter", "--add-config", values)
    come_about(lambda: told_interval_ms(running, member) == 300, "the interval is told")
    assert told_interval_ms(running, other) == 5_000, "it is the other group's"
    come_about(
        lambda: described(address, "own").members == [],
        "its own time is over, not the broker's of 45 s",
        timeout_seconds=30,
    )
    assert member.beat(address).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert other.beat(address).error_code == ErrorCode.NONE
    member.join(address)
    configs("own", "--alter", "--delete-config", "consumer.heartbeat.interval.ms,consumer.session.timeout.ms")

    def is_as_before() -> bool:
        answer = member.beat(address)
        if answer.error_code:
            answer = member.join(address)
        return answer.heartbeat_interval_ms == 5_000

    come_about(is_as_before, "the interval of the broker is told again")
    time.sleep(LONGER_THAN_SESSION_SECONDS)
    assert told_interval_ms(running, member) == 5_000


def test_a_group_is_shared_anew_as_often_as_it_wants(running: Running, configs: Configs) -> None:
    address = running.bootstrap_servers
    configs("slow", "--alter", "--add-config", "consumer.assignment.interval.ms=60000")
    first, second = NewerMember("slow", "slow-1", "t"), NewerMember("slow", "slow-2", "t")
    come_about(lambda: "=60000" in configs("slow", "--describe"), "the config is known")
    first.join(address)
    assert first.partitions == [0, 1, 2, 3]
    second.join(address)
    time.sleep(2)
    second.beat(address)
    group = described(address, "slow")
    assert (group.group_state, group.group_epoch - group.assignment_epoch) == ("Assigning", 1)
    configs("slow", "--alter", "--add-config", "consumer.assignment.interval.ms=0")

    def share() -> bool:
        for member in (first, second, first):
            assert member.beat(address).error_code == ErrorCode.NONE
        return (len(first.partitions), len(second.partitions)) == (2, 2)

    come_about(share, "the group is shared anew", timeout_seconds=40)


def test_what_lies_beyond_the_brokers_bounds_is_brought_within(running: Running, configs: Configs) -> None:
    values = {"low": 300, "high": 12_000, "between": 4_000}
    for group, value in values.items():
        configs(group, "--alter", "--add-config", f"consumer.heartbeat.interval.ms={value}")
    running.stop()
    if isinstance(running, GenuineKafka):
        running.properties.update(OTHER_BOUNDS)
        running.start()
    else:
        running.start(**{name.replace(".", "_"): value for name, value in OTHER_BOUNDS.items()})
    told = {
        group: NewerMember(group, f"{group}-1", "t").join(running.bootstrap_servers).heartbeat_interval_ms
        for group in values
    }
    assert told == {"low": 2_000, "high": 7_000, "between": 4_000}
