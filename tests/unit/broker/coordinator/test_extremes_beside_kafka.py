"""Time-outs, retentions and names at their bounds, and how the offsets topic comes to be: both brokers alike.

Answers are compared whole, as in `test_groups_beside_kafka`. How long Kafka takes for a time-out of 0 is the
affair of its threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.group_keys import OFFSET, read_key
from broker.coordinator.offsets.offset_records import read_offset
from protocol.codec.message import Message
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.reader import batch_records
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.questions.group_stage import Connection, Stage

pytestmark = [pytest.mark.java, pytest.mark.slow]

CONFIG = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "600",
    "group.min.session.timeout.ms": "0",
}
PROTOCOLS = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\0\0\0\0")]
TIME_OUTS_MS = (0, -1, -(2**31))
RETENTIONS_MS = (0, 1, -2, 2**62, 2**63 - 2, 2**63 - 1, -(2**63))


def join(group: str, member_id: str = "", *, rebalance_ms: int = 5_000, **options: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "session_timeout_ms": 300_000,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    return JoinGroupRequest(
        group_id=group, member_id=member_id, rebalance_timeout_ms=rebalance_ms, **(fields | options)
    )


def sync(group: str, joined: Any, shares: dict[str, bytes]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(*share) for share in shares.items()],
    )


def leave(group: str, instance: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity("", instance)])


def describe(group: str) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[group])


def await_state(connection: Connection, group: str, state: str) -> None:
    """How often one has to ask is the clock's affair, and no part of the story."""
    deadline = time.monotonic() + 90
    while connection.ask(describe(group), 6).groups[0].group_state != state:
        connection._story.pop()
        assert time.monotonic() < deadline, f"{group} does not become {state}"
        Stage.wait(0.05)


def working(stage: Stage, group: str, *instances: str) -> list[Connection]:
    """Static members in a stable group, a connection each."""
    connections = [stage.connect() for _ in instances]
    for connection, name in zip(connections, instances, strict=True):
        connection.send(join(group, group_instance_id=name), 9)
        stage.wait(0.1)
    # The leader's answer names the others, in an order of its own: it comes last.
    answers = [connection.receive() for connection in (*connections[1:], connections[0])]
    joined = [answers[-1], *answers[:-1]]
    for place, connection in enumerate(connections):
        shares = {each.member_id: b"x" for each in joined} if place == 0 else {}
        connection.ask(sync(group, joined[place], shares), 4)
    return connections


def phases_without_time(stage: Stage) -> None:
    """Static members come back with no time for a rebalance, and one of them leaves."""
    for number, rebalance_ms in enumerate(TIME_OUTS_MS):
        for instances in (("one", "two"), ("one", "two", "three")):
            group = f"phase-{number}-{len(instances)}"
            connections = working(stage, group, *instances)
            ids = [
                connection.ask(join(group, group_instance_id=name, rebalance_ms=rebalance_ms), 9)
                for connection, name in zip(connections, instances, strict=True)
            ]
            connections[0].ask(leave(group, "one"), 5)
            stage.wait(0.3)
            stage.a.ask(describe(group), 6)
            beat = HeartbeatRequest(group, 1, ids[1].member_id, "two")
            connections[1].ask(beat, 4)
            back = join(group, ids[1].member_id, group_instance_id="two", rebalance_ms=rebalance_ms)
            connections[1].ask(back, 9)
            await_state(stage.a, group, "Empty")  # there was no time to sync either
            connections[1].ask(beat, 4)


def dynamic_members_without_time(stage: Stage) -> None:
    """They are told their generation, and are out before they can ask for their share."""
    for number, rebalance_ms in enumerate(TIME_OUTS_MS):
        group = f"dynamic-{number}"
        member = stage.a.ask(join(group, rebalance_ms=rebalance_ms), 9).member_id
        joined = stage.a.ask(join(group, member, rebalance_ms=rebalance_ms), 9)
        await_state(stage.b, group, "Empty")
        stage.a.ask(sync(group, joined, {member: b"x"}), 4)
        again = stage.a.ask(join(group, rebalance_ms=rebalance_ms), 3)
        assert again.generation_id == 3
        await_state(stage.b, group, "Empty")


def sessions_without_length(stage: Stage) -> None:
    a = stage.a
    for session_ms in (-1, -(2**31), 2**31 - 1):
        a.ask(join("session", session_timeout_ms=session_ms), 9)
    for session_ms in (0, 1):
        group = f"session-{session_ms}"
        member = a.ask(join(group, session_timeout_ms=session_ms), 9).member_id
        stage.wait(0.2)
        a.ask(join(group, member, session_timeout_ms=session_ms), 9)
        joined = a.ask(join(group, session_timeout_ms=session_ms, group_instance_id="i"), 9)
        await_state(stage.b, group, "Empty")
        a.ask(sync(group, joined, {joined.member_id: b"x"}), 4)


def retentions(stage: Stage) -> None:
    for retention_ms in RETENTIONS_MS:
        for version in (2, 3, 4):
            stage.a.ask(commit(f"keep{retention_ms}v{version}", retention_ms), version)


def commit(group: str, retention_ms: int = -1) -> OffsetCommitRequest:
    entry = OffsetCommitRequest.OffsetCommitRequestPartition(0, 5, -1, "x")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[entry])
    return OffsetCommitRequest(group_id=group, retention_time_ms=retention_ms, topics=[topic])


def long_names(stage: Stage) -> None:
    """A member id that is too long for a string is refused. Kafka has such a static member in its group all
    the same, so nobody looks at those groups afterwards."""
    for size in (32_767 - 37, 32_767 - 36, 32_767):
        group = f"instance-{size}"
        joined = stage.a.ask(join(group, group_instance_id="i" * size), 9)
        assert joined.error_code == (0 if size == 32_767 - 37 else -1)
    for size in (249, 32_767):
        group = "g" * size
        stage.a.ask(join(group), 9)
        stage.a.ask(HeartbeatRequest(group, 1, "x"), 4)
        stage.a.ask(commit(group), 9)
        stage.a.ask(describe(group), 6)


def largest_assignments(stage: Stage) -> None:
    """The last byte that the group's record takes, and one more."""
    sizes = [1_048_340 + more for more in (-1, 0, 1)]
    for number, size in enumerate(sizes):
        group = f"big-{number}"
        member = stage.a.ask(join(group), 9).member_id
        joined = stage.a.ask(join(group, member), 9)
        answer = stage.a.ask(sync(group, joined, {member: b"x" * size}), 4)
        assert answer.error_code == (-1 if number == 2 else 0)


SCENES: tuple[Callable[[Stage], None], ...] = (
    phases_without_time,
    dynamic_members_without_time,
    sessions_without_length,
    retentions,
    long_names,
    largest_assignments,
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Stage]]:
    """Kafka's and ours, without groups and without an offsets topic."""
    kafka_jars()
    directory: Path = tmp_path_factory.mktemp("extremes")
    with ExitStack() as stack:
        genuine = GenuineKafka(directory / "kafka", CONFIG)
        genuine.features = NO_FEATURES
        kafka = stack.enter_context(genuine.start())
        ours = stack.enter_context(BarnabasProcess(directory / "ours", CONFIG).start())
        yield Stage(kafka.bootstrap_servers, kafka.data), Stage(ours.bootstrap_servers, ours.data)


def test_the_offsets_topic_comes_with_the_first_look_for_a_coordinator(stages: tuple[Stage, Stage]) -> None:
    """Comes first: nobody has asked for a group yet."""
    seen = []
    for stage in stages:
        topic = CreateTopicsRequest.CreatableTopic("t", 1, 1)
        while (
            stage.a.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 7
        ):
            stage.wait(0.1)
        stage.story.clear()
        for request, version in _of_groups():
            stage.a.ask(request, version)
        stage.wait(0.5)
        assert not _has_offsets_topic(stage), "none of these requests makes it"
        stage.a.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        deadline = time.monotonic() + 90
        while not _has_offsets_topic(stage):
            assert time.monotonic() < deadline, "the look for a coordinator makes it"
            stage.wait(0.05)
        seen.append([each for each in stage.story if each[0] != "MetadataRequest"])
    assert seen[1] == seen[0]


def _of_groups() -> Iterator[tuple[Message, int]]:
    yield join("g"), 9
    yield SyncGroupRequest(group_id="g", member_id="x"), 4
    yield HeartbeatRequest(group_id="g", member_id="x"), 4
    yield leave("g", "i"), 5
    yield describe("g"), 6
    yield ListGroupsRequest(), 5
    yield DeleteGroupsRequest(["g"]), 2
    yield commit("g"), 9
    yield OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None)]), 8
    for version in (0, 1):
        yield (
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="AAAAAAAAAAAAAAAAAAAAAA" if version else "",
                rebalance_timeout_ms=5_000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            ),
            version,
        )
    yield FindCoordinatorRequest(key_type=0, coordinator_keys=[]), 6
    yield FindCoordinatorRequest(key_type=3, coordinator_keys=["g"]), 6


def _has_offsets_topic(stage: Stage) -> bool:
    metadata = stage.a.ask(MetadataRequest(topics=None), 12)
    stage.story.pop()
    return any(each.name == "__consumer_offsets" for each in metadata.topics)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_scene_beside_kafka(stages: tuple[Stage, Stage], scene: Callable[[Stage], None]) -> None:
    for stage in stages:
        stage.prepare()
        scene(stage)
    kafka, ours = stages[0].story, stages[1].story
    differences = [
        f"{number} {theirs[0]} v{theirs[1]}\n  Kafka {theirs[2]}\n  ours  {mine[2]}"[:2_000]
        for number, (theirs, mine) in enumerate(zip(kafka, ours, strict=True))
        if theirs != mine
    ]
    assert not differences, "\n".join(differences)


def test_afterwards_the_same_expiries_are_stored(stages: tuple[Stage, Stage]) -> None:
    kafka, ours = (_expiries(stage.data) for stage in stages)
    assert len(ours) == 3 * len(RETENTIONS_MS)
    assert ours == kafka


def _expiries(data: Path) -> dict[str, int]:
    """By group how long after its commit an offset expires, in 64 bits."""
    found: dict[str, int] = {}
    for segment in data.glob("__consumer_offsets-*/*.log"):
        for record in batch_records(segment.read_bytes()):
            key = read_key(record.key or b"")
            if key is None or key.kind != OFFSET or not key.group.startswith("keep") or record.value is None:
                continue
            offset = read_offset(key.kind, record.value)
            found[key.group] = (offset.expire_timestamp_ms - offset.commit_timestamp_ms) % 2**64
    return found
