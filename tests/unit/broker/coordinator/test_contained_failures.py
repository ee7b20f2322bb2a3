"""What raises in the coordinator, or cannot be written down, fails alone: others and the node go on."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator import group_coordinator
from broker.coordinator.classic import join, rebalance, sync
from broker.coordinator.classic.states import GroupState
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.offsets import expiry
from broker.coordinator.offsets.expiry import expired_offsets
from protocol.errors import EncodeError, ErrorCode, InvariantViolated
from tests.support.rigs.group_world import GroupWorld, is_parked, now

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
LONG = "l" * 32_767


def explode(*_: Any, **__: Any) -> Any:
    raise KeyError("a fault of ours")


def refuse(*_: Any, **__: Any) -> Any:
    raise EncodeError("too long for its form")


def works(world: GroupWorld, group_id: str = "g") -> None:
    """The group can be used: members join anew and commit."""
    member = world.new_id(group_id)
    answer = world.join(group_id, member)
    world.timers.advance(6_000)
    generation = now(answer).generation_id
    assert generation > 0
    world.sync_all([member], generation, group_id)
    assert world.commit_error(7, member_id=member, generation=generation, group_id=group_id) is ErrorCode.NONE
    world.leave(member, group_id=group_id)


# Records that cannot be written down


def test_an_assignment_that_cannot_be_written_down_sends_all_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    joins = [world.join("g", a), world.join("g", b)]
    world.timers.advance(6_000)
    assert [now(join).generation_id for join in joins] == [1, 1]
    with monkeypatch.context() as patch:
        patch.setattr(sync, "group_record", refuse)
        answers = [world.sync(b, 1), world.sync(a, 1, {a: b"1", b: b"2"})]
    assert [now(answer).error_code for answer in answers] == [UNKNOWN, UNKNOWN]
    assert world.state() == "PreparingRebalance"
    again = [world.join("g", a), world.join("g", b)]
    assert [now(join).generation_id for join in again] == [2, 2]
    world.sync_all([a, b], 2)


def test_an_empty_generation_that_cannot_be_written_down_stands_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = GroupWorld()
    world.stable_group(2)
    written = sum(map(len, world.log.batches.values()))
    with monkeypatch.context() as patch:
        patch.setattr(rebalance, "group_record", refuse)
        world.timers.advance(120_000)  # the sessions end in a timer
    assert world.state() == "Empty"
    assert sum(map(len, world.log.batches.values())) == written
    works(world)


def test_a_group_that_cannot_be_written_down_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GroupWorld()
    with monkeypatch.context() as patch:
        patch.setattr(join, "new_group_record", refuse)
        answer = world.join("g", version=3)
    assert now(answer).error_code == UNKNOWN
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    works(world)


def test_a_static_member_that_cannot_be_written_down_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = GroupWorld()
    first = world.join("g", instance="i")
    world.timers.advance(6_000)
    member = now(first).member_id
    world.sync_all([member], 1)
    with monkeypatch.context() as patch:
        patch.setattr("broker.coordinator.classic.join.group_record", refuse)
        assert now(world.join("g", instance="i")).error_code == UNKNOWN
    assert world.heartbeat(member, 1, instance="i") is ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 4, 9])
@pytest.mark.parametrize("excess", [0, 1, 37])
def test_a_member_id_as_long_as_a_string_may_be_is_the_last_that_joins(version: int, excess: int) -> None:
    """The broker adds a uuid to a client's name; an id that no record can carry is refused."""
    world = GroupWorld()
    (good,) = world.stable_group(1)
    name = "n" * (32_767 - 37 + excess)
    if version < 9:
        request = world.context(version=version, client_id=name)
        world.context = lambda **_: request  # type: ignore[method-assign]
    answer = world.join("g", instance=name if version == 9 else None, version=version)
    if excess:
        assert (now(answer).error_code, now(answer).member_id) == (UNKNOWN, "")
        assert world.state() == "Stable"
        assert world.heartbeat(good, 1) is ErrorCode.NONE
    elif version == 4:
        assert len(now(answer).member_id.encode()) == 32_767
    else:
        assert is_parked(answer)
        if version < 9:
            del world.context
        joins = [answer, world.join("g", good)]
        ids = {now(join).member_id for join in joins}
        assert max(len(each) for each in ids) == 32_767
        world.sync_all(sorted(ids), 2)
        world.restart()
        assert world.state() == "Stable"


def test_names_as_long_as_a_request_can_carry_are_stored_and_loaded() -> None:
    world = GroupWorld()
    answer = world.join(LONG, version=3, protocol_type=LONG, protocols=((LONG, b"m" * 70_000),))
    world.timers.advance(6_000)
    member = now(answer).member_id
    world.sync_all([member], 1, LONG)
    metadata = "é" * 4_096
    error = world.commit_error(1, member_id=member, generation=1, group_id=LONG, metadata=metadata)
    assert error is ErrorCode.NONE
    world.restart()
    described = world.groups.describe(LONG, 5)
    assert (described.group_state, described.protocol_type) == ("Stable", LONG)
    assert world.committed(group_id=LONG).metadata == metadata


def test_an_offset_that_cannot_be_written_down_is_refused_alone() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1)
    bad = world.commit_error(1, member_id=member, generation=1, topic="t" * 40_000)
    assert bad is UNKNOWN
    assert world.commit_error(2, member_id=member, generation=1) is ErrorCode.NONE
    assert world.shard("g").offset_metadata.committed.partitions("g") == [("t", 0)]


def test_metadata_of_all_members_beyond_the_largest_batch() -> None:
    """Each member's is small; together they are more than `max.message.bytes`. As in Kafka the leader's
    assignment is refused, and the group goes on when it has shrunk."""
    world = GroupWorld()
    world.log.largest_batch_bytes = 10_000
    members = [world.new_id() for _ in range(4)]
    joins = [world.join("g", member, protocols=(("range", b"m" * 3_000),)) for member in members]
    world.timers.advance(6_000)
    leader = now(joins[0]).leader
    answers = [world.sync(member, 1) for member in members if member != leader]
    answers.append(world.sync(leader, 1, dict.fromkeys(members, b"x")))
    assert {now(answer).error_code for answer in answers} == {UNKNOWN}
    assert world.state() == "PreparingRebalance"
    world.leave(members[3])
    slim = [world.join("g", member, protocols=(("range", b"m" * 2_000),)) for member in members[:3]]
    assert {now(join).generation_id for join in slim} == {2}
    world.sync_all(members[:3], 2)


def test_deletions_are_cut_to_what_the_topic_takes() -> None:
    world = GroupWorld()
    for partition in range(200):
        world.commit_error(partition, partition=partition)
    world.log.largest_batch_bytes = 1_000
    assert now(world.groups.delete_group("g")) is ErrorCode.NONE
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# What raises


@pytest.mark.parametrize("name", ["join_group", "sync_group", "leave_group", "commit_offsets", "heartbeat"])
def test_a_request_that_raises_fails_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1)
    with monkeypatch.context() as patch:
        patch.setattr(group_coordinator, name, explode)
        if name == "join_group":
            assert now(world.join("g")).error_code == UNKNOWN
        elif name == "sync_group":
            assert now(world.sync(member, 1)).error_code == UNKNOWN
        elif name == "leave_group":
            assert world.leave(member).error_code == UNKNOWN
        elif name == "commit_offsets":
            assert world.commit_error(1, member_id=member, generation=1) is UNKNOWN
        else:
            assert world.heartbeat(member, 1) is UNKNOWN
    assert world.state() == "Stable"
    assert world.heartbeat(member, 1) is ErrorCode.NONE
    assert world.commit_error(1, member_id=member, generation=1) is ErrorCode.NONE


@pytest.mark.parametrize("what", ["next_generation", "elect_joined_leader", "remove"])
def test_a_join_phase_whose_end_raises_frees_everybody(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The end comes in a timer: nobody asked, and members wait."""
    world = GroupWorld()
    a, b = world.stable_group(2)
    world.commit_error(41, member_id=a, generation=1)
    waiting = world.join("g", version=3)
    with monkeypatch.context() as patch:
        patch.setattr("broker.coordinator.classic.classic_group.ClassicGroup." + what, explode)
        world.timers.advance(60_000)
    assert now(waiting).error_code in (UNKNOWN, ErrorCode.UNKNOWN_MEMBER_ID)
    group = world.shard("g").group_metadata.groups["g"]
    assert (group.state, group.generation) == (GroupState.EMPTY, 1)
    assert world.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed().offset == 41
    works(world)


def test_a_join_that_raises_when_it_ends_the_phase_frees_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GroupWorld()
    a, b = world.stable_group(2)
    waiting = world.join("g", a)
    assert is_parked(waiting)
    with monkeypatch.context() as patch:
        patch.setattr("broker.coordinator.classic.classic_group.ClassicGroup.select_protocol", explode)
        last = world.join("g", b, protocols=(("range", b"other"),))
    assert [now(answer).error_code for answer in (last, waiting)] == [UNKNOWN, UNKNOWN]
    assert world.state() == "Empty"
    works(world)


@pytest.mark.parametrize("due", ["session_due", "join_phase_due", "sync_phase_due"])
def test_a_deadline_that_raises_leaves_others_alone(monkeypatch: pytest.MonkeyPatch, due: str) -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1, group_id="g")
    same = next(f"h{n}" for n in range(1000)
                if world.groups.partition_for(f"h{n}") == world.groups.partition_for("g"))  # fmt: skip
    (b,) = world.stable_group(1, group_id=same)
    original = getattr(rebalance, due)

    def only_g(group: Any, *rest: Any) -> None:
        if group.group_id == "g":
            explode()
        original(group, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(rebalance, due, only_g)
        for group_id, member in (("g", a), (same, b)):
            world.heartbeat(member, 1, group_id=group_id)
            world.join(group_id, version=3)
        world.timers.advance(400_000)
    assert world.state(same) == "Empty"
    works(world)
    works(world, same)


def test_what_follows_a_write_may_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    joins = [world.join("g", a), world.join("g", b)]
    world.timers.advance(6_000)
    assert [now(join).generation_id for join in joins] == [1, 1]
    with monkeypatch.context() as patch:
        patch.setattr(sync, "_distribute", explode)
        answers = [world.sync(b, 1), world.sync(a, 1, {a: b"1", b: b"2"})]
    assert [now(answer).error_code for answer in answers] == [UNKNOWN, UNKNOWN]
    works(world)


def test_an_append_that_raises_is_taken_back() -> None:
    world = GroupWorld()
    world.commit_error(1)
    world.log.failure = RuntimeError("a fault of the writer's")
    assert world.commit_error(2) is UNKNOWN
    world.log.failure = None
    assert world.committed().offset == 1
    assert world.commit_error(3) is ErrorCode.NONE
    world.restart()
    assert world.committed().offset == 3


def test_a_broken_invariant_of_the_log_is_not_contained() -> None:
    world = GroupWorld()
    world.log.failure = InvariantViolated("the log's own")
    with pytest.raises(InvariantViolated):
        world.commit_error(2)


def test_a_group_whose_expiry_raises_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GroupWorld(GroupSettings(offsets_retention_ms=1_000))
    names = [f"e{n}" for n in range(2_000)
             if world.groups.partition_for(f"e{n}") == world.groups.partition_for("g")][:4]  # fmt: skip
    for name in (*names[:2], "g", *names[2:]):
        world.commit_error(1, group_id=name)
    original = expired_offsets

    def only_g(group: Any, *rest: Any) -> Any:
        return explode() if group.group_id == "g" else original(group, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(expiry, "expired_offsets", only_g)
        world.timers.advance(1_300_000)
    assert list(world.shard("g").group_metadata.groups) == ["g"]
    world.timers.advance(700_000)
    assert list(world.shard("g").group_metadata.groups) == []
