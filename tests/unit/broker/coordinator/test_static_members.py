"""Static members come back under another id and nobody notices (KIP-345)."""

from __future__ import annotations

from protocol.errors import ErrorCode
from tests.support.rigs.group_world import GroupWorld, is_parked, now


def static_group(world: GroupWorld, *instances: str, session_ms: int = 30_000) -> list[str]:
    answers = [world.join("g", instance=name, session_ms=session_ms) for name in instances]
    world.timers.advance(6_000)
    members = [now(answer).member_id for answer in answers]
    world.sync_all(members, 1)
    return members


def test_ids_of_static_members_begin_with_their_instance_and_need_no_second_trip() -> None:
    world = GroupWorld()
    (member,) = static_group(world, "one")
    assert member.startswith("one-0000")


def test_a_follower_comes_back_into_its_place_without_a_rebalance() -> None:
    world = GroupWorld()
    leader, old = static_group(world, "one", "two")
    response = now(world.join("g", instance="two"))
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, leader)
    assert (response.skip_assignment, response.members) == (False, [])
    assert response.member_id != old
    assert now(world.sync(response.member_id, 1, instance="two")).assignment == old.encode()
    assert world.heartbeat(leader, 1) is ErrorCode.NONE
    assert world.heartbeat(old, 1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_comes_back_and_is_told_not_to_distribute() -> None:
    world = GroupWorld()
    static_group(world, "one", "two")
    response = now(world.join("g", instance="one", version=9))
    assert response.skip_assignment is True
    assert response.leader == response.member_id
    assert len(response.members) == 2


def test_before_version_9_a_returning_leader_is_told_that_its_former_self_leads() -> None:
    world = GroupWorld()
    old, _ = static_group(world, "one", "two")
    response = now(world.join("g", instance="one", version=8))
    assert (response.leader, response.members, response.skip_assignment) == (old, [], False)


def test_the_new_id_is_in_the_log() -> None:
    world = GroupWorld()
    static_group(world, "one", "two")
    new = now(world.join("g", instance="two")).member_id
    world.restart()
    assert world.heartbeat(new, 1, instance="two") is ErrorCode.NONE


def test_if_the_log_does_not_take_it_the_former_self_has_its_place_again() -> None:
    world = GroupWorld()
    _, old = static_group(world, "one", "two")
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    response = now(world.join("g", instance="two", protocols=(("range", b"new"),)))
    assert (response.error_code, response.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert world.heartbeat(old, 1, instance="two") is ErrorCode.NONE
    group = world.shard("g").group_metadata.groups["g"]
    assert group.members[old].protocols == (("range", b"meta"),)
    assert group.awaiting_join == 0


def test_coming_back_with_another_protocol_rebalances() -> None:
    world = GroupWorld()
    answers = [
        world.join("g", instance=name, protocols=(("range", b"r"), ("sticky", b"s")))
        for name in ("one", "two")
    ]
    world.timers.advance(6_000)
    world.sync_all([now(answer).member_id for answer in answers], 1)
    assert is_parked(world.join("g", instance="two", protocols=(("sticky", b"s"),)))
    assert world.state() == "PreparingRebalance"


def test_coming_back_while_the_leader_distributes_rebalances() -> None:
    world = GroupWorld()
    answers = [world.join("g", instance=name) for name in ("one", "two")]
    world.timers.advance(6_000)
    waiting = world.sync(now(answers[1]).member_id, 1, instance="two")
    assert is_parked(world.join("g", instance="two"))
    assert now(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.state() == "PreparingRebalance"


def test_coming_back_while_the_former_self_waits_in_a_join_fences_it() -> None:
    world = GroupWorld()
    static_group(world, "one", "two")
    dynamic = world.join("g", world.new_id())
    waiting = world.join("g", instance="two")
    again = world.join("g", instance="two")
    assert now(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert is_parked(again)
    assert is_parked(dynamic)


def test_static_members_that_do_not_join_again_keep_their_place_until_their_session_ends() -> None:
    world = GroupWorld()
    _, silent = static_group(world, "one", "two", session_ms=120_000)
    newcomer = world.join("g", version=3, session_ms=120_000)
    first = world.join(
        "g",
        world.shard("g").group_metadata.groups["g"].static_members["one"],
        instance="one",
        session_ms=120_000,
    )
    world.timers.advance(60_000)
    assert now(first).generation_id == 2
    assert {member.group_instance_id for member in now(first).members} == {"one", "two", None}
    assert now(newcomer).generation_id == 2
    assert silent in world.shard("g").group_metadata.groups["g"].members


def test_if_only_static_members_are_missing_the_group_waits_on() -> None:
    world = GroupWorld()
    members = static_group(world, "one", "two", session_ms=1_800_000)
    world.leave(members[0])
    world.timers.advance(200_000)
    assert world.state() == "PreparingRebalance"
    assert now(world.join("g", members[1], instance="two")).generation_id == 2


def test_a_member_cannot_speak_for_another_instance() -> None:
    world = GroupWorld()
    one, two = static_group(world, "one", "two")
    assert world.heartbeat(one, 1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(one, 1, instance="three") is ErrorCode.UNKNOWN_MEMBER_ID
    assert now(world.join("g", two, instance="one")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.commit_error(1, member_id=one, generation=1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert now(world.sync(one, 1, instance="two")).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_administrators_remove_static_members_by_their_instance() -> None:
    world = GroupWorld()
    one, two = static_group(world, "one", "two")
    response = world.leave(("", "one"), ("", "three"), (one, "two"), two)
    assert [ErrorCode(member.error_code).name for member in response.members] == [
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "NONE",
    ]
    assert [member.group_instance_id for member in response.members] == ["one", "three", "two", None]
    assert world.state() == "Empty"


def test_a_pending_id_cannot_become_static() -> None:
    world = GroupWorld()
    promised = world.new_id()
    assert now(world.join("g", promised, instance="one")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
