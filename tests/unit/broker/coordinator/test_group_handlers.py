"""The handlers of the group APIs: rights, versions, and what each form of answer carries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.handlers import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from broker.handlers.table import broker_handlers
from protocol.codec.compiler import decode, encode
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.handler_table import ServedApi
from tests.support.rigs.group_world import GroupWorld, is_parked, now

MODULES = (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)


def ask(world: GroupWorld, module: Any, request: Any, version: int) -> Any:
    """The handler's answer after a trip over the wire, both ways, in this version."""
    request = decode(type(request), version, encode(request, version))
    context = world.context(served(module).api_key, version)
    answer = module.handle(SimpleNamespace(groups=world.groups), context, request)
    if is_parked(answer):
        return answer
    response = now(answer)
    return decode(type(response), version, encode(response, version))


def deny(world: GroupWorld, operation: Operation, resource: ResourceType, name: str = "*") -> None:
    world.authorizer.denied.add((operation, resource, name))


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.cluster.topics.update({"t": 2, "u": 1})
    return world


def served(module: Any) -> ServedApi[Any]:
    """The module's row in the broker's table."""
    return next(row for row in broker_handlers() if row.handler is module.handle)


def versions(module: Any) -> range:
    row = served(module)
    return range(row.min_version, row.max_version + 1)


EVERY_VERSION = [(module, version) for module in MODULES for version in versions(module)]


@pytest.mark.parametrize(("module", "version"), EVERY_VERSION)
def test_every_version_is_answered_by_an_empty_coordinator(
    world: GroupWorld, module: Any, version: int
) -> None:
    requests: dict[Any, Any] = {
        delete_groups: DeleteGroupsRequest(["g"]),
        describe_groups: DescribeGroupsRequest(groups=["g"]),
        find_coordinator: FindCoordinatorRequest(key="g")
        if version < 4
        else FindCoordinatorRequest(coordinator_keys=["g"]),
        heartbeat: HeartbeatRequest(group_id="g", member_id="m"),
        join_group: JoinGroupRequest(group_id="g", member_id="m", session_timeout_ms=10_000),
        leave_group: LeaveGroupRequest(group_id="g", member_id="m")
        if version < 3
        else LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity("m")]),
        list_groups: ListGroupsRequest(),
        offset_commit: OffsetCommitRequest(group_id="g"),
        offset_delete: OffsetDeleteRequest("g"),
        offset_fetch: OffsetFetchRequest(group_id="g")
        if version < 8
        else OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup("g")]),
        sync_group: SyncGroupRequest(
            group_id="g", member_id="m", protocol_type="consumer", protocol_name="range"
        ),
    }
    response = ask(world, module, requests[module], version)
    expected = {heartbeat: 25, join_group: 25, sync_group: 25, leave_group: 25 if version < 3 else 0}
    expected[offset_delete] = 69
    assert getattr(response, "error_code", 0) == expected.get(module, 0)


def test_the_ranges_of_versions_are_those_of_kafka() -> None:
    assert [(int(served(m).api_key), versions(m)[0], versions(m)[-1]) for m in MODULES] == [
        (42, 0, 2),
        (15, 0, 6),
        (10, 0, 6),
        (12, 0, 4),
        (11, 0, 9),
        (13, 0, 5),
        (16, 0, 5),
        (8, 2, 10),
        (47, 0, 0),
        (9, 1, 10),
        (14, 0, 5),
    ]


# FindCoordinator


def test_one_coordinator_is_found_with_a_sentence_as_kafka_says_it(world: GroupWorld) -> None:
    response = ask(world, find_coordinator, FindCoordinatorRequest(key="g"), 2)
    assert (response.node_id, response.host, response.port) == (1, "broker.test", 9092)
    assert (response.error_code, response.error_message) == (0, "NONE")


def test_several_coordinators_are_found_each_for_itself(world: GroupWorld) -> None:
    deny(world, Operation.DESCRIBE, ResourceType.GROUP, "secret")
    request = FindCoordinatorRequest(coordinator_keys=["g", "secret"])
    good, bad = ask(world, find_coordinator, request, 6).coordinators
    assert (good.key, good.node_id, good.error_code, good.error_message) == ("g", 1, 0, "")
    assert (bad.key, bad.node_id, bad.host, bad.port) == ("secret", -1, "", -1)
    assert bad.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_the_topic_is_made_on_first_use(world: GroupWorld) -> None:
    del world.cluster.topics[GROUP_TOPIC]
    asked: list[str] = []

    def ensure(topic: str) -> bool:
        asked.append(topic)
        return topic in world.cluster.topics

    world.cluster.ensure = ensure  # type: ignore[method-assign]
    response = ask(world, find_coordinator, FindCoordinatorRequest(key="g"), 2)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert asked == [GROUP_TOPIC]
    world.cluster.topics[GROUP_TOPIC] = 50
    assert ask(world, find_coordinator, FindCoordinatorRequest(key="g"), 2).error_code == 0


def test_a_partition_without_a_leader_has_no_coordinator_for_now(world: GroupWorld) -> None:
    world.cluster.endpoint = None
    response = ask(world, find_coordinator, FindCoordinatorRequest(key="g"), 2)
    assert (response.error_code, response.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_an_unknown_kind_of_coordinator_is_a_bad_request(world: GroupWorld) -> None:
    for kind in (2, 9):
        response = ask(world, find_coordinator, FindCoordinatorRequest(key="k", key_type=kind), 3)
        assert response.error_code == ErrorCode.INVALID_REQUEST


# Members


def test_who_may_not_read_the_group_gets_nowhere(world: GroupWorld) -> None:
    deny(world, Operation.READ, ResourceType.GROUP)
    requests = (
        (join_group, JoinGroupRequest(group_id="g", session_timeout_ms=10_000), 9),
        (sync_group, SyncGroupRequest(group_id="g", protocol_type="c", protocol_name="r"), 5),
        (heartbeat, HeartbeatRequest(group_id="g"), 4),
        (leave_group, LeaveGroupRequest(group_id="g"), 5),
    )
    for module, request, version in requests:
        assert ask(world, module, request, version).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)]
    )
    response = ask(world, offset_commit, OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_sync_must_name_the_protocol_since_version_5(world: GroupWorld) -> None:
    response = ask(world, sync_group, SyncGroupRequest(group_id="g"), 5)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_one_leaving_member_has_its_error_on_top(world: GroupWorld) -> None:
    (member,) = world.stable_group(1)
    assert ask(world, leave_group, LeaveGroupRequest(group_id="g", member_id="m"), 2).error_code == 25
    assert ask(world, leave_group, LeaveGroupRequest(group_id="g", member_id=member), 2).error_code == 0
    assert world.state() == "Empty"


def test_several_leaving_members_have_an_error_each(world: GroupWorld) -> None:
    (member,) = world.stable_group(1)
    identities = [LeaveGroupRequest.MemberIdentity(name) for name in (member, "nobody")]
    response = ask(world, leave_group, LeaveGroupRequest(group_id="g", members=identities), 5)
    assert response.error_code == 0
    assert [entry.error_code for entry in response.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]


# Offsets


def commit_request(
    *topics: tuple[str, tuple[int, ...]], ids: GroupWorld | None = None
) -> OffsetCommitRequest:
    request = OffsetCommitRequest(group_id="g")
    for name, partitions in topics:
        entries = [OffsetCommitRequest.OffsetCommitRequestPartition(index, 5) for index in partitions]
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=entries)
        if ids is not None:
            topic.topic_id = ids.cluster.topic_id(name) or b"unknown topic id"
        request.topics.append(topic)
    return request


def errors(response: Any) -> dict[tuple[str, int], str]:
    return {
        (topic.name, entry.partition_index): ErrorCode(entry.error_code).name
        for topic in response.topics
        for entry in topic.partitions
    }


def test_what_cannot_be_committed_does_not_stop_what_can(world: GroupWorld) -> None:
    deny(world, Operation.READ, ResourceType.TOPIC, "u")
    request = commit_request(("t", (0, 1, 2, -1)), ("u", (0,)), ("missing", (0,)))
    assert errors(ask(world, offset_commit, request, 9)) == {
        ("t", 0): "NONE",
        ("t", 1): "NONE",
        ("t", 2): "UNKNOWN_TOPIC_OR_PARTITION",
        ("t", -1): "UNKNOWN_TOPIC_OR_PARTITION",
        ("u", 0): "TOPIC_AUTHORIZATION_FAILED",
        ("missing", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert (world.committed(0).offset, world.committed(1).offset, world.committed(2).offset) == (5, 5, -1)


def test_topics_may_be_named_by_id_since_version_10(world: GroupWorld) -> None:
    request = commit_request(("t", (0,)), ("missing", (0,)), ids=world)
    response = ask(world, offset_commit, request, 10)
    by_id = {topic.topic_id: topic.partitions[0].error_code for topic in response.topics}
    assert by_id == {world.cluster.topic_id("t"): 0, b"unknown topic id": ErrorCode.UNKNOWN_TOPIC_ID}
    assert stored_topic_id(world) == world.cluster.topic_id("t")


def test_offsets_are_stored_with_the_topics_id_in_every_version(world: GroupWorld) -> None:
    ask(world, offset_commit, commit_request(("t", (0,))), 2)
    assert stored_topic_id(world) == world.cluster.topic_id("t")


def stored_topic_id(world: GroupWorld) -> bytes:
    stored = world.shard("g").offset_metadata.committed.get("g", "t", 0)
    assert stored is not None
    return stored.topic_id


def fetch_one(world: GroupWorld, version: int, topics: Any) -> Any:
    if version < 8:
        named = topics and [OffsetFetchRequest.OffsetFetchRequestTopic(name, list(i)) for name, i in topics]
        return ask(world, offset_fetch, OffsetFetchRequest(group_id="g", topics=named), version)
    named = topics and [
        OffsetFetchRequest.OffsetFetchRequestTopics(
            name, world.cluster.topic_id(name) or b"unknown topic id", list(i)
        )
        for name, i in topics
    ]
    group = OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=named)
    (answer,) = ask(world, offset_fetch, OffsetFetchRequest(groups=[group]), version).groups
    assert answer.group_id == "g"
    return answer


@pytest.mark.parametrize("version", versions(offset_fetch))
def test_offsets_are_fetched_in_every_version(world: GroupWorld, version: int) -> None:
    world.commit_error(42, metadata="here")
    response = fetch_one(world, version, [("t", (0, 1))])
    first, second = response.topics[0].partitions
    assert (first.partition_index, first.committed_offset, first.metadata, first.error_code) == (
        0,
        42,
        "here",
        0,
    )
    assert first.committed_leader_epoch == (7 if version >= 5 else -1)
    assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", 0)


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_are_fetched_if_no_topic_is_named(world: GroupWorld, version: int) -> None:
    for topic in ("t", "u"):
        world.commit_error(1, topic=topic)
    deny(world, Operation.DESCRIBE, ResourceType.TOPIC, "u")
    (topic,) = fetch_one(world, version, None).topics
    if version >= 10:
        assert topic.topic_id == world.cluster.topic_id("t")
    else:
        assert topic.name == "t"


@pytest.mark.parametrize("version", versions(offset_fetch))
def test_the_error_of_a_group_stands_where_the_version_has_a_place_for_it(
    world: GroupWorld, version: int
) -> None:
    deny(world, Operation.DESCRIBE, ResourceType.GROUP)
    response = fetch_one(world, version, [("t", (0, 1))])
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if version == 1:
        entries = response.topics[0].partitions
        assert [(entry.committed_offset, entry.error_code) for entry in entries] == [(-1, refused)] * 2
    else:
        assert response.error_code == refused
        assert response.topics == []


def test_topics_that_one_may_not_see_and_ids_that_are_unknown_have_their_errors(world: GroupWorld) -> None:
    deny(world, Operation.DESCRIBE, ResourceType.TOPIC, "u")
    asked = [("u", (0,)), ("missing", (0,)), ("t", (0,))]
    by_id = {topic.topic_id: topic.partitions[0].error_code for topic in fetch_one(world, 10, asked).topics}
    assert by_id == {
        world.cluster.topic_id("u"): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        b"unknown topic id": ErrorCode.UNKNOWN_TOPIC_ID,
        world.cluster.topic_id("t"): 0,
    }


def test_several_groups_are_fetched_together_when_the_last_write_is_committed(world: GroupWorld) -> None:
    world.commit_error(1, group_id="a")
    world.log.held = []
    world.commit(2, group_id="b")
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(name, topics=None) for name in ("a", "b", "nobody")]
    answer = ask(world, offset_fetch, OffsetFetchRequest(groups=groups), 8)
    assert is_parked(answer)
    world.log.decide()
    found = [
        (group.group_id, [t.partitions[0].committed_offset for t in group.topics])
        for group in now(answer).groups
    ]
    assert found == [("a", [1]), ("b", [2]), ("nobody", [])]


# Administration


def test_a_stable_group_is_described_with_all_that_its_members_said(world: GroupWorld) -> None:
    members = world.stable_group(2)
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = ask(world, describe_groups, request, 6).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [member.member_id for member in group.members] == members
    first = group.members[0]
    assert (first.client_id, first.client_host) == ("client", "/127.0.0.1")
    assert (first.member_metadata, first.member_assignment) == (b"meta", members[0].encode())
    assert group.authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))


def test_a_rebalancing_group_has_no_protocol_yet(world: GroupWorld) -> None:
    world.stable_group(1)
    world.join("g", version=3)
    (group,) = ask(world, describe_groups, DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in group.members] == [b"", b""]
    assert group.authorized_operations == -(2**31)


def test_unknown_and_forbidden_groups(world: GroupWorld) -> None:
    deny(world, Operation.DESCRIBE, ResourceType.GROUP, "secret")
    request = DescribeGroupsRequest(groups=["nobody", "secret"])
    for version, error, message in ((5, 0, None), (6, 69, "Group nobody not found.")):
        secret, nobody = ask(world, describe_groups, request, version).groups
        assert (secret.group_id, secret.error_code) == ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        assert (nobody.group_state, nobody.error_code, nobody.error_message) == ("Dead", error, message)


def test_groups_are_listed_by_state_and_type(world: GroupWorld) -> None:
    world.stable_group(1)
    world.commit_error(1, group_id="simple")

    def names(version: int = 5, **filters: list[str]) -> dict[str, tuple[str, str, str]]:
        response = ask(world, list_groups, ListGroupsRequest(**filters), version)
        return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in response.groups}

    everything = {"g": ("consumer", "Stable", "classic"), "simple": ("", "Empty", "classic")}
    assert names() == everything
    assert names(3) == {"g": ("consumer", "", ""), "simple": ("", "", "")}
    assert list(names(states_filter=["stable"])) == ["g"]
    assert list(names(states_filter=["EMPTY", "Dead"])) == ["simple"]
    assert list(names(states_filter=["\0 stable\x1b"])) == ["g"]
    assert names(states_filter=["\u00a0stable"]) == {}, "this blank is none to Java"
    assert names(types_filter=["Classic", "share"]) == everything
    assert names(types_filter=["consumer"]) == {}


def test_without_the_cluster_one_sees_the_groups_that_one_may_describe(world: GroupWorld) -> None:
    for name in ("mine", "theirs"):
        world.commit_error(1, group_id=name)
    deny(world, Operation.DESCRIBE, ResourceType.CLUSTER)
    deny(world, Operation.DESCRIBE, ResourceType.GROUP, "theirs")
    assert [group.group_id for group in ask(world, list_groups, ListGroupsRequest(), 5).groups] == ["mine"]


# Deletion


@pytest.mark.parametrize("version", versions(delete_groups))
def test_each_group_has_its_own_answer_and_forbidden_ones_come_last(world: GroupWorld, version: int) -> None:
    world.stable_group(1)
    world.commit_error(1, group_id="simple")
    deny(world, Operation.DELETE, ResourceType.GROUP, "secret")
    request = DeleteGroupsRequest(["secret", "g", "nobody", "simple", "g"])
    response = ask(world, delete_groups, request, version)
    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("simple", 0),
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]


def places(*topics: str) -> list[OffsetDeleteRequest.OffsetDeleteRequestTopic]:
    indexes = [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in (0, 1, -1)]
    return [OffsetDeleteRequest.OffsetDeleteRequestTopic(topic, indexes) for topic in topics]


def test_offsets_are_deleted_where_one_may_and_where_there_is_a_partition(world: GroupWorld) -> None:
    world.commit_error(1)
    deny(world, Operation.READ, ResourceType.TOPIC, "u")
    response = ask(world, offset_delete, OffsetDeleteRequest("g", places("t", "missing", "u")), 0)
    found = {topic.name: [(p.partition_index, p.error_code) for p in topic.partitions]
             for topic in response.topics}  # fmt: skip
    assert found == {
        "t": [(-1, 3), (0, 0), (1, 0)],
        "missing": [(0, 3), (1, 3), (-1, 3)],
        "u": [(0, 29), (1, 29), (-1, 29)],
    }
    assert world.committed().offset == -1


def test_an_error_of_the_group_stands_alone(world: GroupWorld) -> None:
    assert ask(world, offset_delete, OffsetDeleteRequest("nobody", places("missing")), 0).topics == []
    deny(world, Operation.DELETE, ResourceType.GROUP)
    response = ask(world, offset_delete, OffsetDeleteRequest("g", places("t")), 0)
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
