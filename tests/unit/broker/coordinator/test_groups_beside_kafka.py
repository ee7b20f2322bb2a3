"""The same requests to Apache Kafka and to us: every field of every answer is the same.

Only what each broker makes up by itself is made alike first: the uuids in member ids, topic ids, hosts and
ports, throttle times, and the order of groups and of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_keys import GROUP, read_key
from protocol.codec.compiler import decode
from protocol.errors import ErrorCode
from protocol.group_log.classic_groups import GroupMetadataValue
from protocol.group_log.offsets import OffsetCommitValue
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.reader import batch_records
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.questions.group_stage import Connection, Stage

pytestmark = [pytest.mark.java, pytest.mark.slow]

CONFIG: Mapping[str, str] = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "600",
    "group.max.size": "3",
    "group.min.session.timeout.ms": "500",
    "offset.metadata.max.bytes": "10",
}
PROTOCOLS = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\0\0\0\0")]
RANGE = "range"

BETWEEN_JOINS_SECONDS = 0.2
"""The order in which members come is part of the story, so a busy machine gets time to keep it."""


def join(member_id: str = "", **options: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 300_000,  # nobody falls silent unless the scene says so, however slow it goes
        "rebalance_timeout_ms": 5_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    return JoinGroupRequest(**(fields | options))


def commit(*partitions: tuple[int, int, str | None], topic: str = "t", **options: Any) -> OffsetCommitRequest:
    entries = [
        OffsetCommitRequest.OffsetCommitRequestPartition(index, at, 3, text) for index, at, text in partitions
    ]
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=entries)
    return OffsetCommitRequest(group_id=options.pop("group_id", "g"), topics=[named], **options)


def fetch(*groups: str, stable: bool = False) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(name, topics=None) for name in groups],
        require_stable=stable,
    )


def strangers(stage: Stage) -> None:
    """Requests about groups that do not exist, and requests that make no sense."""
    a = stage.a
    for version in range(7):
        a.ask(DescribeGroupsRequest(groups=["nobody", ""]), version)
    for version in range(6):
        a.ask(ListGroupsRequest(), version)
    for version in range(10):
        a.ask(join("stranger"), version)
        a.ask(join(group_id=""), version)
        a.ask(join(session_timeout_ms=10), version)
        a.ask(join(protocols=[], group_id="other"), version)
    for version in range(6):
        names: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": RANGE} if version >= 5 else {}
        a.ask(SyncGroupRequest(group_id="nobody", member_id="x", generation_id=1, **names), version)
        a.ask(SyncGroupRequest(group_id="", member_id="x", **names), version)
        members = [LeaveGroupRequest.MemberIdentity("x"), LeaveGroupRequest.MemberIdentity("", "i")]
        a.ask(
            LeaveGroupRequest(group_id="nobody", member_id="x")
            if version < 3
            else LeaveGroupRequest(group_id="nobody", members=members),
            version,
        )
        a.ask(LeaveGroupRequest(group_id=""), version)
    a.ask(SyncGroupRequest(group_id="nobody", member_id="x"), 5)
    for version in range(5):
        a.ask(HeartbeatRequest(group_id="nobody", member_id="x"), version)
        a.ask(HeartbeatRequest(group_id=""), version)
    for version in range(2, 10):
        a.ask(commit((0, 1, ""), group_id="nobody", member_id="x", generation_id_or_member_epoch=4), version)


def offsets(stage: Stage) -> None:
    """Simple commits and fetches in all versions."""
    a = stage.a
    for version in range(2, 10):
        a.ask(commit((0, version, "x"), (1, 7, None), (2, 1, ""), (-1, 1, ""), group_id="simple"), version)
    a.ask(commit((0, 1, "ten chars!"), (1, 1, "eleven char"), group_id="simple"), 9)
    a.ask(commit((0, 1, ""), group_id="simple", topic="missing"), 9)
    a.ask(commit((0, 1, ""), group_id=""), 9)
    by_id = commit((0, 77, "id"), group_id="simple")
    by_id.topics[0].topic_id = stage.topic_id
    unknown = commit((0, 1, ""), group_id="simple").topics[0]
    unknown.topic_id = b"unknown topic id"
    by_id.topics.append(unknown)
    a.ask(by_id, 10)
    for version in range(1, 8):
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic("t", [0, 1, 5]),
            OffsetFetchRequest.OffsetFetchRequestTopic("missing", [0]),
        ]
        for group in ("simple", "nobody", ""):
            a.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
            if version >= 2:
                a.ask(OffsetFetchRequest(group_id=group, topics=None), version)
    for version in (8, 9, 10):
        a.ask(fetch("simple", "nobody", "", stable=True), version)
    ids = [
        OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0, 1])
        for each in (stage.topic_id, b"unknown topic id")
    ]
    a.ask(OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup("simple", topics=ids)]), 10)
    a.ask(DescribeGroupsRequest(groups=["simple", ""], include_authorized_operations=True), 6)
    a.ask(ListGroupsRequest(states_filter=["empty"], types_filter=["CLASSIC"]), 5)
    a.ask(ListGroupsRequest(types_filter=["consumer"]), 5)
    a.ask(ListGroupsRequest(states_filter=["nonsense"]), 5)


def life(stage: Stage) -> None:
    """Two members come, work, and go."""
    a, b = stage.a, stage.b
    ids = [a.ask(join(reason="new"), 9).member_id, a.ask(join(), 9).member_id]
    a.ask(DescribeGroupsRequest(groups=["g"]), 6)
    a.send(join(ids[0]), 9)
    stage.wait(0.1)
    b.send(join(ids[1]), 5)
    first, second = a.receive(), b.receive()
    generation: dict[str, Any] = {"group_id": "g", "generation_id": first.generation_id}
    assert first.leader == second.leader == ids[0]
    stage.connect().ask(DescribeGroupsRequest(groups=["g"]), 6)
    a.ask(join(ids[0]), 9)
    b.ask(join(ids[1]), 4)
    beat = HeartbeatRequest(member_id=ids[1], **generation)
    a.ask(beat, 4)
    member: dict[str, Any] = {"member_id": ids[1], "generation_id_or_member_epoch": first.generation_id}
    a.ask(commit((0, 5, "x"), **member), 9)
    names: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": RANGE}
    b.ask(SyncGroupRequest(member_id=ids[1], group_id="g", generation_id=99, **names), 5)
    b.ask(SyncGroupRequest(member_id=ids[1], **generation, protocol_type="connect", protocol_name=RANGE), 5)
    b.ask(SyncGroupRequest(member_id=ids[1], **generation, protocol_type="consumer", protocol_name="no"), 5)
    b.send(SyncGroupRequest(member_id=ids[1], **generation, **names), 5)
    stage.wait(0.1)
    assignments = [SyncGroupRequest.SyncGroupRequestAssignment(each, each.encode()[:3]) for each in ids]
    a.send(SyncGroupRequest(member_id=ids[0], **generation, assignments=assignments), 3)
    a.receive()
    b.receive()
    a.ask(beat, 3)
    for version in range(7):
        a.ask(DescribeGroupsRequest(groups=["g"], include_authorized_operations=version >= 3), version)
    a.ask(ListGroupsRequest(states_filter=["Stable"]), 4)
    a.ask(join(ids[1]), 9)
    a.ask(join(protocol_type="connect"), 9)
    a.ask(join(protocols=[JoinGroupRequest.JoinGroupRequestProtocol("no", b"")]), 9)
    a.ask(commit((0, 5, "x"), **member), 9)
    a.ask(commit((0, 6, "x")), 9)
    a.ask(commit((0, 6, "x"), member_id=ids[1]), 9)
    a.ask(commit((0, 6, "x"), member_id=ids[1], generation_id_or_member_epoch=98), 9)
    a.ask(commit((0, 6, "x"), group_instance_id="who", **member), 9)
    a.ask(fetch("g"), 9)
    a.ask(HeartbeatRequest(group_id="g", member_id=ids[1], generation_id=0), 4)
    a.ask(HeartbeatRequest(group_id="g", member_id=ids[1], generation_id=1, group_instance_id="who"), 4)
    a.send(join(ids[0]), 9)
    stage.wait(0.1)
    b.ask(beat, 4)
    b.ask(SyncGroupRequest(member_id=ids[1], **generation, **names), 5)
    b.ask(DescribeGroupsRequest(groups=["g"]), 6)
    b.send(join(ids[1]), 9)
    a.receive()
    b.receive()
    leaving = [LeaveGroupRequest.MemberIdentity(each, None, "done") for each in (ids[0], "stranger", ids[1])]
    a.ask(LeaveGroupRequest(group_id="g", members=leaving), 5)
    a.ask(beat, 4)
    a.ask(DescribeGroupsRequest(groups=["g"]), 6)
    a.ask(commit((0, 9, "x")), 9)
    a.ask(fetch("g"), 8)


def static_members(stage: Stage) -> None:
    """Static members join, return, are fenced and removed."""
    a, b = stage.a, stage.b
    mine: dict[str, Any] = {"group_id": "s", "session_timeout_ms": 30_000}
    a.send(join(group_instance_id="one", **mine), 9)
    stage.wait(0.1)
    b.send(join(group_instance_id="two", **mine), 9)
    one, two = a.receive(), b.receive()
    generation: dict[str, Any] = {"group_id": "s", "generation_id": one.generation_id}
    assignments = [
        SyncGroupRequest.SyncGroupRequestAssignment(each.member_id, bytes([number]))
        for number, each in enumerate((one, two))
    ]
    a.ask(
        SyncGroupRequest(
            member_id=one.member_id, group_instance_id="one", assignments=assignments, **generation
        ),
        4,
    )
    b.ask(SyncGroupRequest(member_id=two.member_id, group_instance_id="two", **generation), 4)
    for version in (9, 8, 5):
        for name in ("two", "one"):
            new = a.ask(join(group_instance_id=name, **mine), version)
            old = two if name == "two" else one
            a.ask(HeartbeatRequest(member_id=old.member_id, group_instance_id=name, **generation), 4)
            a.ask(HeartbeatRequest(member_id=old.member_id, **generation), 4)
            a.ask(HeartbeatRequest(member_id=new.member_id, group_instance_id=name, **generation), 4)
            a.ask(SyncGroupRequest(member_id=new.member_id, group_instance_id=name, **generation), 3)
            a.ask(join(old.member_id, group_instance_id=name, **mine), 9)
    a.ask(join("stranger", group_instance_id="three", **mine), 9)
    a.ask(DescribeGroupsRequest(groups=["s"]), 6)
    leaving = [
        LeaveGroupRequest.MemberIdentity("", "one"),
        LeaveGroupRequest.MemberIdentity("", "three"),
        LeaveGroupRequest.MemberIdentity(two.member_id, "two"),
        LeaveGroupRequest.MemberIdentity("", None),
        LeaveGroupRequest.MemberIdentity("", "two"),
    ]
    a.ask(LeaveGroupRequest(group_id="s", members=leaving), 5)
    a.ask(DescribeGroupsRequest(groups=["s"]), 6)


def crowd(stage: Stage) -> None:
    """More clients than the group takes."""
    connections = [stage.connect() for _ in range(3)]
    for connection in connections:
        connection.send(join(group_id="full", rebalance_timeout_ms=300_000), 3)  # nobody will sync
        stage.wait(BETWEEN_JOINS_SECONDS)
    for connection in (*connections[1:], connections[0]):  # the leader's answer names the others
        connection.receive()
    stage.a.ask(join(group_id="full"), 9)
    stage.a.ask(join(group_id="full"), 2)
    stage.a.ask(join("stranger", group_id="full"), 9)


def together(group: str, *members: tuple[Connection, JoinGroupRequest]) -> list[Any]:
    """Joins of one group by connections of their own; the answers in the order of the members."""
    for connection, request in members:
        request.group_id = group
        connection.send(request, 9)
        Stage.wait(BETWEEN_JOINS_SECONDS)
    return [connection.receive() for connection, _ in members]


def synced(connection: Connection, group: str, joined: Any, shares: Mapping[str, bytes]) -> None:
    connection.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(*share) for share in shares.items()],
        ),
        4,
    )


def offered(
    *names: str, metadata: bytes = b"\0\0\0\0\0\1\0\1t\0\0\0\0"
) -> list[JoinGroupRequest.JoinGroupRequestProtocol]:
    return [JoinGroupRequest.JoinGroupRequestProtocol(name, metadata) for name in names]


def likes(what: str) -> bytes:
    """A subscription of topic t with something to tell the assignor. Kafka 4.3 never answers a member whose
    metadata is no subscription."""
    return b"\0\0\0\0\0\1\0\1t" + len(what).to_bytes(4, "big") + what.encode()


def delete_offsets(group: str, *topics: str) -> OffsetDeleteRequest:
    indexes = [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in (0, 1, 9)]
    return OffsetDeleteRequest(
        group, [OffsetDeleteRequest.OffsetDeleteRequestTopic(name, indexes) for name in topics]
    )


def deletions(stage: Stage) -> None:
    """Offsets and groups are deleted, at rest and at work."""
    a = stage.a
    for name in ("t", "u"):
        a.ask(commit((0, 1, ""), (1, 2, ""), group_id="d", topic=name), 9)
    a.ask(delete_offsets("d", "u", "missing"), 0)
    a.ask(delete_offsets("d", "u"), 0)
    a.ask(fetch("d"), 8)
    one = a.ask(join(group_id="d"), 9).member_id
    a.ask(DeleteGroupsRequest(["d"]), 2)  # with nobody in it but an id that was given out
    a.ask(fetch("d"), 8)
    a.ask(join(one, group_id="d"), 9)
    for name in ("t", "u"):
        a.ask(commit((0, 1, ""), (1, 2, ""), group_id="d", topic=name), 9)
    two = a.ask(join(group_id="d"), 9).member_id
    (joined,) = together("d", (a, join(two)))
    a.ask(delete_offsets("d", "t"), 0)
    synced(a, "d", joined, {two: b"all"})
    a.ask(delete_offsets("d", "t", "u"), 0)
    a.ask(DeleteGroupsRequest(["d", "simple", "nobody"]), 1)
    a.ask(fetch("d"), 8)
    a.ask(LeaveGroupRequest(group_id="d", members=[LeaveGroupRequest.MemberIdentity(two)]), 5)
    a.ask(delete_offsets("d", "t"), 0)
    a.ask(DeleteGroupsRequest(["d"]), 0)
    a.ask(DeleteGroupsRequest(["d"]), 2)
    a.ask(DescribeGroupsRequest(groups=["d"]), 6)
    a.ask(HeartbeatRequest(group_id="d", member_id=two, generation_id=1), 4)


def kinds(stage: Stage) -> None:
    """Groups that are no consumers': workers of Connect; and an application of Streams, which is one."""
    a, b = stage.a, stage.b
    workers: dict[str, Any] = {"protocol_type": "connect", "protocols": offered("sessioned", "compatible")}
    first = a.ask(join(group_id="workers", **workers), 9).member_id
    (joined,) = together("workers", (a, join(first, **workers)))
    synced(a, "workers", joined, {first: b"tasks"})
    a.ask(DescribeGroupsRequest(groups=["workers"]), 6)
    b.ask(join(group_id="workers"), 9)
    b.ask(join(group_id="workers", protocol_type="connect", protocols=offered("eager")), 9)
    b.ask(join(group_id="workers", protocol_type="", protocols=offered("eager")), 9)
    a.ask(delete_offsets("workers", "t"), 0)
    a.ask(DeleteGroupsRequest(["workers"]), 2)
    mine = {"member_id": first, "generation_id_or_member_epoch": joined.generation_id}
    a.ask(commit((0, 5, ""), group_id="workers", **mine), 9)
    a.ask(LeaveGroupRequest(group_id="workers", members=[LeaveGroupRequest.MemberIdentity(first)]), 5)
    a.ask(delete_offsets("workers", "t"), 0)
    a.ask(ListGroupsRequest(), 5)
    a.ask(join(group_id="workers"), 9)  # an empty group may become one of another kind
    streams: dict[str, Any] = {"protocols": offered("stream", metadata=b"\0\0\0\0\0\1\0\1t\0\0\0\5topol")}
    (app,) = together("app", (a, join(group_instance_id="i-1", **streams)))
    synced(a, "app", app, {app.member_id: b"task"})
    a.ask(delete_offsets("app", "t"), 0)
    a.ask(DescribeGroupsRequest(groups=["app"]), 6)


def votes(stage: Stage) -> None:
    """Members prefer different protocols, and move from an eager to a cooperative one."""
    connections = [stage.connect() for _ in range(3)]
    liked: Any = (("range", "robin"), ("robin", "sticky", "range"), ("robin", "range"))
    ids = [stage.a.ask(join(group_id="v", protocols=offered(*names)), 9).member_id for names in liked]
    first = together("v", *_joins(connections, ids, liked))
    synced(connections[0], "v", first[0], dict.fromkeys(ids, b"1"))
    for connection, joined in zip(connections[1:], first[1:], strict=True):
        synced(connection, "v", joined, {})
    stage.a.ask(DescribeGroupsRequest(groups=["v"]), 6)
    liked = (("sticky", "range"),) * 3
    second = together("v", *_joins(connections, ids, liked))
    synced(connections[0], "v", second[0], dict.fromkeys(ids[:2], b"2"))
    for connection, joined in zip(connections[1:], second[1:], strict=True):
        synced(connection, "v", joined, {})
    third = together("v", *_joins(connections, ids, (("sticky",),) * 3))
    stage.a.ask(join(ids[0], group_id="v", protocols=offered("range")), 9)
    synced(connections[0], "v", third[0], dict.fromkeys(ids, b"3"))
    synced(connections[2], "v", third[2], dict.fromkeys(ids, b"not the leader"))


def _joins(
    connections: list[Connection], ids: list[str], liked: Any
) -> list[tuple[Connection, JoinGroupRequest]]:
    return [
        (connection, join(member, protocols=offered(*names, metadata=likes(names[0]))))
        for connection, member, names in zip(connections, ids, liked, strict=True)
    ]


def silence(stage: Stage) -> None:
    """Members that fall silent: in a session, in a join phase, before their first join."""
    a, b, c = stage.a, stage.b, stage.connect()
    short: dict[str, Any] = {"session_timeout_ms": 1200, "rebalance_timeout_ms": 1200}
    ids = [a.ask(join(group_id="q", **short), 9).member_id for _ in range(2)]
    stay, goes = together("q", (a, join(ids[0], **short)), (b, join(ids[1], **short)))
    synced(a, "q", stay, dict.fromkeys(ids, b"s"))
    synced(b, "q", goes, {})
    beat = HeartbeatRequest(group_id="q", member_id=ids[0], generation_id=stay.generation_id)
    while a.ask(beat, 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
        stage.story.pop()  # how many beats it takes is the clock's affair
        stage.wait(0.2)
    b.ask(HeartbeatRequest(group_id="q", member_id=ids[1], generation_id=stay.generation_id), 4)
    (alone,) = together("q", (a, join(ids[0], **short)))
    synced(a, "q", alone, {ids[0]: b"all"})
    never = b.ask(join(group_id="q3", **short), 9).member_id
    c.send(join(group_id="q2", group_instance_id="i", **short), 9)
    fixed = c.receive()
    synced(c, "q2", fixed, {fixed.member_id: b"all"})
    stage.wait(2)
    for group in ("q", "q2", "q3"):
        b.ask(DescribeGroupsRequest(groups=[group]), 6)
    b.ask(join(never, group_id="q3", **short), 9)
    c.ask(join(fixed.member_id, group_id="q2", group_instance_id="i", **short), 9)


def burden(stage: Stage) -> None:
    """Metadata and an assignment that no record can hold."""
    a = stage.a
    one = a.ask(join(group_id="big"), 9).member_id
    (joined,) = together("big", (a, join(one)))
    synced(a, "big", joined, {one: b"x" * 1_200_000})
    stage.wait(0.1)
    a.ask(HeartbeatRequest(group_id="big", member_id=one, generation_id=joined.generation_id), 4)
    a.ask(fetch("big"), 8)
    (again,) = together("big", (a, join(one)))
    synced(a, "big", again, {one: b"y" * 1000})
    a.ask(commit(*((0, index, "ten chars!") for index in range(5)), group_id="big"), 9)


SCENES: tuple[Callable[[Stage], None], ...] = (
    strangers,
    offsets,
    life,
    static_members,
    crowd,
    deletions,
    kinds,
    votes,
    silence,
    burden,
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Stage]]:
    """Kafka's and ours, fresh and ready."""
    kafka_jars()
    directory: Path = tmp_path_factory.mktemp("beside")
    with ExitStack() as stack:
        kafka = stack.enter_context(GenuineKafka(directory / "kafka", CONFIG).start())
        ours = stack.enter_context(BarnabasProcess(directory / "ours", CONFIG).start())
        both = Stage(kafka.bootstrap_servers, kafka.data), Stage(ours.bootstrap_servers, ours.data)
        for stage in both:
            stage.prepare()
        yield both


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_scene_beside_kafka(stages: tuple[Stage, Stage], scene: Callable[[Stage], None]) -> None:
    for stage in stages:
        stage.begin()
        scene(stage)
    kafka, ours = stages[0].story, stages[1].story
    assert len(kafka) == len(ours)
    differences = [
        f"{number} {theirs[0]} v{theirs[1]}\n  Kafka {theirs[2]}\n  ours  {mine[2]}"
        for number, (theirs, mine) in enumerate(zip(kafka, ours, strict=True))
        if theirs != mine
    ]
    assert not differences, "\n".join(differences)


def test_afterwards_both_logs_say_the_same(stages: tuple[Stage, Stage]) -> None:
    kafka, ours = (_written(stage) for stage in stages)
    assert len(ours) > 60
    assert ours == kafka


def _written(stage: Stage) -> list[Any]:
    """Every record of the groups' topic, group by group, made alike: how the records of different groups
    mingle is the clock's affair."""
    written: list[Any] = []
    for segment in sorted(stage.data.glob(f"{GROUP_TOPIC}-*/*.log")):
        for record in batch_records(segment.read_bytes()):
            key = read_key(record.key or b"")
            assert key is not None
            told: Any = None
            if record.value is not None:
                version = int.from_bytes(record.value[:2], "big")
                value_class = GroupMetadataValue if key.kind == GROUP else OffsetCommitValue
                told = msgspec.to_builtins(decode(value_class, version, record.value[2:]))
                for name in ("commit_timestamp", "expire_timestamp", "current_state_timestamp"):
                    if told.get(name, -1) >= 0:
                        told[name] = "some time"
                told = (version, stage.a.alike(told))
            written.append((key, told))
    return sorted(written, key=lambda entry: str(entry[0].group))
