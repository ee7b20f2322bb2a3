"""Consumer groups as the coordinator serves them: records, deadlines, offsets, loading, administration."""

from __future__ import annotations

from typing import Any, Never

import msgspec
import pytest

from broker.coordinator.consumer.consumer_group_records import member_record
from broker.coordinator.consumer.operation import ConsumerGroupSettings, group_times
from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.offsets.fetch import FetchedGroup
from broker.coordinator.runtime.batches import coordinator_batch
from config.dynamic_groups import validate_group_config
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.values import uuid_from_text
from tests.support.rigs.controllers import one_node_config
from tests.support.rigs.group_world import GroupWorld, now

SESSION_MS = 45_000


def world_with(topics: dict[str, int], settings: GroupSettings | None = None) -> GroupWorld:
    world = GroupWorld(settings)
    world.cluster.topics.update(topics)
    return world


def beat(
    world: GroupWorld, member_id: str, epoch: int, *, version: int = 1, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    answer: ConsumerGroupHeartbeatResponse = now(
        world.groups.consumer_heartbeat(request, world.context(68, version))
    )
    return answer


def join(
    world: GroupWorld, member_id: str, topics: tuple[str, ...] = ("t",), **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    return beat(
        world,
        member_id,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
        **fields,
    )


def given(response: ConsumerGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    if response.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in response.assignment.topic_partitions}


def fetched(world: GroupWorld, member: tuple[str | None, int] = (None, -1)) -> FetchedGroup:
    group: FetchedGroup = now(
        world.groups.fetch_offsets("g", [("t", [0])], require_stable=False, member=member)
    )
    return group


def test_a_time_that_is_set_for_a_group_is_trimmed_as_java_trims_it() -> None:
    overrides = {"consumer.session.timeout.ms": "\x0150000\0"}
    validate_group_config(overrides, one_node_config())
    assert group_times(ConsumerGroupSettings(), overrides).session_timeout_ms == 50_000


def test_a_member_joins_and_is_described_listed_and_loaded() -> None:
    world = world_with({"t": 2})
    topic_id = world.cluster.topic_id("t")
    joined = join(world, "a")
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 2, 5_000)
    assert given(joined) == {topic_id: [0, 1]}
    for _ in range(2):
        group = world.groups.describe_consumer_group("g")
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 2, "uniform")
        (member,) = group.members
        assert (member.member_id, member.client_host, member.member_type) == ("a", "/127.0.0.1", 1)
        assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]
        (listed,) = world.groups.list_groups([], ["consumer"]).groups
        assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "consumer", "Stable")
        assert world.groups.list_groups(["empty"], []).groups == []
        (stable,) = world.groups.list_groups(["\0 stable\x1b"], []).groups
        assert stable == listed
        assert world.groups.list_groups(["\u00a0stable"], []).groups == [], "this blank is none to Java"
        world.restart()
    assert beat(world, "a", 2).error_code == 0
    assert world.groups.describe_consumer_group("h").error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("blank", ["", " \t", "\0", "\x1b\x08"])
def test_an_id_of_blanks_is_none(blank: str) -> None:
    world = world_with({"t": 1})
    for name, refused in (
        ("MemberId", join(world, blank)),
        ("InstanceId", join(world, "a", instance_id=blank)),
        ("RackId", join(world, "a", rack_id=blank)),
    ):
        told = (refused.error_code, refused.error_message)
        assert told == (ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


@pytest.mark.parametrize("text", ["\u00a0", "\u2003", "\u3000", "\x85"])
def test_a_blank_that_java_does_not_trim_is_an_id(text: str) -> None:
    world = world_with({"t": 1})
    assert join(world, text, instance_id=text, rack_id=text).error_code == 0


def test_the_first_version_has_the_coordinator_make_the_id() -> None:
    world = world_with({"t": 1})
    joined = beat(
        world, "", 0, version=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert len(uuid_from_text(joined.member_id or "")) == 16
    assert joined.member_epoch == 2


def test_a_silent_member_goes_with_its_session_and_one_that_holds_on_with_its_time() -> None:
    world = world_with({"t": 2})
    join(world, "a")
    world.timers.advance(SESSION_MS - 1)
    assert beat(world, "a", 2).error_code == 0
    world.timers.advance(SESSION_MS)
    assert beat(world, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    epoch = join(world, "b").member_epoch
    world.timers.advance(1_000)
    join(world, "c")
    topic_id = world.cluster.topic_id("t")
    owned = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id or b"", [0, 1])]
    for _ in range(3):
        answer = beat(world, "b", epoch, topic_partitions=owned)
        assert (answer.error_code, answer.member_epoch) == (0, epoch)
        world.timers.advance(25_000)
        beat(world, "c", 0 if answer.error_code else epoch + 1)
    assert beat(world, "b", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_does_not_wait_for_a_clock_that_was_set_back() -> None:
    """The time of the last assignment lies an hour ahead, as after a coordinator whose clock was wrong."""
    world = world_with({"t": 2})
    join(world, "a")
    world.clock.set_back(3_600_000)
    assert join(world, "b").member_epoch == 3
    topic_id = world.cluster.topic_id("t")
    owned = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id or b"", [0, 1])]
    kept = given(beat(world, "a", 2, topic_partitions=owned))
    assert kept is not None
    assert [len(partitions) for partitions in kept.values()] == [1], "b gets the other one"


def test_offsets_go_with_member_epochs() -> None:
    world = world_with({"t": 2})
    epoch = join(world, "a").member_epoch
    assert world.commit_error(5, member_id="a", generation=epoch) is ErrorCode.NONE
    assert world.commit_error(6, member_id="a", generation=epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit_error(6, member_id="a", generation=epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit_error(6, member_id="x", generation=epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit_error(6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit_error(6, member_id="a", generation=epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    world.timers.advance(2_000)
    newer = beat(world, "a", epoch, subscribed_topic_names=["t", "u"]).member_epoch
    assert newer == epoch + 1
    assert world.commit_error(7, member_id="a", generation=epoch) is ErrorCode.NONE
    assert fetched(world).topics[0].partitions[0].offset == 7
    assert fetched(world, ("a", newer)).error is ErrorCode.NONE
    assert fetched(world, ("a", epoch)).error is ErrorCode.STALE_MEMBER_EPOCH
    assert fetched(world, ("x", newer)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_expression_is_matched_beside_the_loop_with_the_clients_rights() -> None:
    world = world_with({"t1": 1, "t2": 1, "u": 1})
    answer = join(world, "a", (), subscribed_topic_regex="t.*")
    assert given(answer) == {}
    world.timers.run_soon()
    world.timers.advance(2_000)
    answer = beat(world, "a", answer.member_epoch)
    assert given(answer) == {world.cluster.topic_id(name): [0] for name in ("t1", "t2")}
    world.restart()
    assert beat(world, "a", answer.member_epoch).error_code == 0


@pytest.mark.parametrize("fails_at", ["the names", "an authorizer"])
def test_a_search_for_topics_that_fails_is_begun_anew(
    fails_at: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_with({"t1": 1, "u": 1})

    def fail(*_: object) -> Never:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as patched:
        if fails_at == "the names":
            patched.setattr(world.cluster, "topic_names", fail)
        else:
            patched.setattr(world.authorizer, "authorize", fail)
        answer = join(world, "a", (), subscribed_topic_regex="t.*")
        assert answer.error_code == 0
        world.timers.run_soon()
    assert world.groups.failures == 1
    assert "a fault of ours" in caplog.text
    assert beat(world, "a", answer.member_epoch).error_code == 0
    world.timers.run_soon()
    world.timers.advance(2_000)
    assert given(beat(world, "a", answer.member_epoch)) == {world.cluster.topic_id("t1"): [0]}
    assert world.groups.failures == 1


def test_a_topic_that_grows_is_shared_anew() -> None:
    world = world_with({"t": 1})
    epoch = join(world, "a").member_epoch
    world.cluster.topics["t"] = 2
    world.groups.topics_changed({}, frozenset({"t"}))
    world.timers.advance(2_000)
    assert given(beat(world, "a", epoch)) == {world.cluster.topic_id("t"): [0, 1]}


def test_topics_are_hashed_anew_only_if_one_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with({"t": 4})
    hashed: list[str] = []
    hash_of = world.cluster.topic_hash

    def counted(name: str) -> int | None:
        hashed.append(name)
        return hash_of(name)

    monkeypatch.setattr(world.cluster, "topic_hash", counted)
    for member in ("a", "b", "c"):
        hashed.clear()
        assert join(world, member).error_code == 0
    assert beat(world, "c", -1).error_code == 0
    assert hashed == []
    world.cluster.topics["t"] = 8
    world.groups.topics_changed({}, frozenset({"t"}))
    assert beat(world, "b", -1).error_code == 0
    assert hashed == ["t"]
    assert join(world, "d", ("t", "u")).error_code == 0
    assert hashed[1:] == ["t", "u"]


def test_a_member_that_wants_an_assignor_which_is_not_here_gets_the_default_one() -> None:
    """Apache Kafka can have assignors of its operator's, and has written that the member wants one."""
    world = world_with({"t": 2})
    epoch = join(world, "a").member_epoch
    member = world.shard("g").group_metadata.consumers.groups["g"].members["a"]
    record = member_record("g", msgspec.structs.replace(member, server_assignor="mine"))
    batch = coordinator_batch([record], timestamp_ms=1)
    world.log.append_internal(GROUP_TOPIC, world.groups.partition_for("g"), batch, lambda *_: None)
    world.restart()
    assert world.groups.describe_consumer_group("g").assignor_name == "uniform"
    world.timers.advance(2_000)
    assert join(world, "b").error_code == ErrorCode.NONE
    assert given(beat(world, "a", epoch)) == {world.cluster.topic_id("t"): [0]}
    assert world.groups.failures == 0


class Counted(str):
    """A name that counts how often one is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        Counted.looked_up += 1
        return super().__hash__()


def test_what_a_change_of_many_topics_costs_goes_by_what_the_groups_subscribe_to() -> None:
    """With a thousand groups, ten thousand topics took seconds in one turn of the loop."""
    world = world_with({"t": 1})
    epoch = join(world, "a").member_epoch
    beat(world, "a", epoch)
    changed = frozenset(Counted(f"new-{number}") for number in range(1_000))
    Counted.looked_up = 0
    world.groups.topics_changed({}, changed)
    assert Counted.looked_up < 100
    group = world.shard("g").group_metadata.consumers.groups["g"]
    assert not group.needs_metadata_check
    world.groups.topics_changed({}, changed | {"t"})
    assert group.needs_metadata_check


def test_a_group_with_members_stays_and_an_empty_one_is_deleted_with_its_offsets() -> None:
    world = world_with({"t": 1})
    epoch = join(world, "a").member_epoch
    world.commit_error(5, member_id="a", generation=epoch)
    assert now(world.groups.delete_group("g")) is ErrorCode.NON_EMPTY_GROUP
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        "t", [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)]
    )
    deleted = now(world.groups.delete_offsets(OffsetDeleteRequest(group_id="g", topics=[topic])))
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    beat(world, "a", -1)
    assert world.groups.describe_consumer_group("g").group_state == "Empty"
    assert now(world.groups.delete_group("g")) is ErrorCode.NONE
    assert world.groups.describe_consumer_group("g").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert fetched(world).topics[0].partitions[0].offset == -1
    world.restart()
    assert world.groups.list_groups([], []).groups == []


def test_offsets_of_a_consumer_group_expire_unless_their_topic_is_subscribed() -> None:
    world = world_with(
        {"t": 1}, GroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000)
    )
    epoch = join(world, "a").member_epoch
    world.commit_error(5, member_id="a", generation=epoch)
    for _ in range(4):
        world.timers.advance(30_000)
        assert beat(world, "a", epoch).error_code == 0
    assert fetched(world).topics[0].partitions[0].offset == 5
    beat(world, "a", -1)
    world.timers.advance(30_000)
    assert world.groups.list_groups([], []).groups == []
    assert fetched(world).topics[0].partitions[0].offset == -1


def test_empty_groups_change_their_protocol_and_others_refuse_what_they_cannot_read() -> None:
    world = world_with({"t": 1})
    join(world, "a")
    refused = now(world.join(member_id="b"))
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    beat(world, "a", -1)
    members = world.stable_group(1)
    assert world.groups.describe_consumer_group("g").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert join(world, "b").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.leave(*members)
    assert join(world, "b").error_code == 0
    assert [each.group_type for each in world.groups.list_groups([], []).groups] == ["consumer"]
    world.restart()
    assert [each.group_type for each in world.groups.list_groups([], []).groups] == ["consumer"]


def test_a_member_with_another_instance_id_leaves_its_former_one_to_others() -> None:
    world = world_with({"t": 4})
    for instance in ("one", "two"):
        assert join(world, "m", instance_id=instance).error_code == 0
    assert world.shard("g").group_metadata.consumers.groups["g"].static_members == {"two": "m"}
    assert beat(world, "m", -1, instance_id="two").error_code == 0
    joined = join(world, "n", instance_id="one")
    assert (joined.error_code, world.groups.failures) == (0, 0)


def test_what_the_log_refuses_has_not_been() -> None:
    world = world_with({"t": 1})
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert join(world, "a").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refusal = ErrorCode.NONE
    assert beat(world, "a", 2).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert join(world, "a").member_epoch == 2
