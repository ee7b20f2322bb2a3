"""How a group comes to a generation: delays, time-outs, votes, and who is left behind."""

from __future__ import annotations

from broker.coordinator.group_operation import GroupSettings
from protocol.errors import ErrorCode
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import GroupWorld, is_parked, now


def test_ids_are_the_clients_name_and_a_uuid() -> None:
    world = GroupWorld()
    assert world.new_id() == "client-00000000-0000-4000-8000-000000000001"


def test_the_first_generation_waits_the_initial_delay() -> None:
    world = GroupWorld()
    member = world.new_id()
    answer = world.join("g", member)
    world.timers.advance(2_999)
    assert is_parked(answer)
    world.timers.advance(1)
    response = now(answer)
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, member)
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert [(other.member_id, other.metadata) for other in response.members] == [(member, b"meta")]


def test_newcomers_extend_the_initial_delay_but_only_up_to_the_rebalance_timeout() -> None:
    world = GroupWorld()
    answers = []
    for _ in range(5):
        answers.append(world.join("g", world.new_id(), rebalance_ms=7_000))
        world.timers.advance(2_000)
    # Delays of 3000, 3000 and the 1000 that are left of 7000.
    assert [now(answer).generation_id for answer in answers[:4]] == [1, 1, 1, 1]
    assert world.state() == "PreparingRebalance"  # the fifth came too late for it


def test_without_a_delay_the_first_member_is_alone() -> None:
    world = GroupWorld(GroupSettings(group_initial_rebalance_delay_ms=0))
    answer = world.join("g", world.new_id())
    world.timers.advance(0)
    assert now(answer).generation_id == 1


def test_only_the_leader_sees_who_is_in() -> None:
    world = GroupWorld()
    first, second = world.new_id(), world.new_id()
    leading, following = world.join("g", first), world.join("g", second, protocols=(("range", b"mine"),))
    world.timers.advance(6_000)
    assert [member.metadata for member in now(leading).members] == [b"meta", b"mine"]
    assert now(following).members == []
    assert now(following).leader == first


def test_a_rebalance_ends_when_all_have_joined_again() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2)
    c = world.new_id()
    third = world.join("g", c)
    assert world.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = world.join("g", a)
    assert is_parked(first)
    second = world.join("g", b)
    assert {now(answer).generation_id for answer in (first, second, third)} == {2}
    assert now(first).leader == a


def test_who_does_not_join_again_within_the_rebalance_timeout_is_out() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2, session_ms=1_800_000)
    answer = world.join("g", world.new_id())
    again = world.join("g", b)
    world.timers.advance(59_999)
    assert is_parked(answer)
    world.timers.advance(1)
    assert now(again).generation_id == 2
    # The leader was left behind, so the oldest member that came leads.
    assert now(again).leader == b
    assert len(now(again).members) == 2
    assert world.heartbeat(a, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_is_waited_for_during_a_rebalance() -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1)
    promised = world.new_id()
    again = world.join("g", a)
    assert is_parked(again)
    late = world.join("g", promised)
    assert now(again).generation_id == now(late).generation_id == 2


def test_an_id_that_nobody_uses_is_forgotten_after_its_session_timeout() -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1, session_ms=30_000)
    promised = world.new_id(session_ms=6_000)
    again = world.join("g", a, session_ms=30_000)
    world.timers.advance(6_000)
    assert now(again).generation_id == 2
    assert now(world.join("g", promised)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_waits_too_long_in_a_join_is_dropped() -> None:
    world = GroupWorld(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    (a,) = world.stable_group(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    answer = world.join("g", version=3, rebalance_ms=1_800_000)
    world.timers.advance(299_999)
    assert is_parked(answer)
    world.timers.advance(1)
    assert now(answer).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_protocol_with_most_votes_among_the_common_ones_is_chosen() -> None:
    world = GroupWorld()
    wishes = (
        (("alone", b"0"), ("sticky", b"1"), ("range", b"2")),
        (("range", b"3"), ("sticky", b"4")),
        (("sticky", b"5"), ("range", b"6")),
    )
    answers = [world.join("g", world.new_id(protocols=wish), protocols=wish) for wish in wishes]
    world.timers.advance(9_000)
    assert {now(answer).protocol_name for answer in answers} == {"sticky"}
    assert [member.metadata for member in now(answers[0]).members] == [b"1", b"4", b"5"]


def test_a_group_changes_its_protocol_member_by_member() -> None:
    world = GroupWorld()
    both, only_new = (("sticky", b"n"), ("range", b"o")), (("sticky", b"n"),)
    a, b = world.stable_group(2)
    answers = [world.join("g", member, protocols=both) for member in (a, b)]
    assert {now(answer).protocol_name for answer in answers} == {"sticky"}
    world.sync_all([a, b], 2)
    answers = [world.join("g", member, protocols=only_new) for member in (a, b)]
    assert {now(answer).generation_id for answer in answers} == {3}


def test_a_group_is_full_at_its_maximum_size() -> None:
    world = GroupWorld(GroupSettings(group_max_size=2))
    a, b = world.stable_group(2)
    assert now(world.join("g")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert is_parked(world.join("g", a))
    assert now(world.join("g", b)).error_code == 0


def test_members_that_never_ask_for_their_assignment_are_out() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    for member in (a, b):
        world.join("g", member, session_ms=1_800_000, rebalance_ms=20_000)
    world.timers.advance(6_000)
    world.sync(a, 1, {a: b"all"})
    assert world.state() == "Stable"
    world.timers.advance(20_000)
    assert world.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_the_leader_forgot_get_nothing() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    world.join("g", a)
    world.join("g", b)
    world.timers.advance(6_000)
    following = world.sync(b, 1)
    leading = world.sync(a, 1, {a: b"all", "somebody else": b"?"})
    assert now(leading).assignment == b"all"
    assert now(following).assignment == b""


def test_a_rebalance_sends_those_back_who_wait_for_their_assignment() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    world.join("g", a)
    world.join("g", b)
    world.timers.advance(6_000)
    following = world.sync(b, 1)
    world.leave(a)
    assert now(following).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert now(world.join("g", b)).leader == b


def test_heartbeats_and_commits_keep_a_session_and_silence_ends_it() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2)
    for _ in range(5):
        world.timers.advance(9_999)
        assert world.heartbeat(a, 1) is ErrorCode.NONE
        assert world.commit_error(1, member_id=b, generation=1) is ErrorCode.NONE
    world.timers.advance(9_999)
    world.heartbeat(a, 1)
    world.timers.advance(1)
    assert world.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_others_does_not_lose_its_session() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2, session_ms=6_000)
    world.heartbeat(b, 1)
    waiting = world.join("g", a, session_ms=6_000, rebalance_ms=60_000)
    for _ in range(8):
        world.timers.advance(5_000)
        assert world.heartbeat(b, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert is_parked(waiting)
    world.join("g", b, session_ms=6_000)
    assert now(waiting).generation_id == 2
    world.timers.advance(5_999)
    assert world.heartbeat(a, 2) is ErrorCode.NONE


def test_a_second_join_of_a_member_frees_the_first() -> None:
    world = GroupWorld()
    a, _ = world.stable_group(2)
    first, second = world.join("g", a), world.join("g", a)
    assert now(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert is_parked(second)


def test_version_0_has_only_a_session_timeout() -> None:
    world = GroupWorld()
    answer = world.join("g", version=0, session_ms=6_000, rebalance_ms=-1)
    world.timers.advance(3_000)
    member = now(answer).member_id
    assert world.shard("g").group_metadata.groups["g"].members[member].rebalance_timeout_ms == 6_000


def test_requests_that_make_no_sense_are_refused_at_once() -> None:
    world = GroupWorld()
    assert now(world.join("")).error_code == ErrorCode.INVALID_GROUP_ID
    assert now(world.join(session_ms=5_999)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert now(world.join(session_ms=1_800_001)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert now(world.join(protocols=())).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert now(world.join(protocol_type="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert now(world.sync("m", 1, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
    assert world.heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert world.leave("m", group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_no_protocol_is_null_since_version_7_and_empty_before() -> None:
    world = GroupWorld()
    assert now(world.join("", version=6)).protocol_name == ""
    assert now(world.join("", version=7)).protocol_name is None
    assert now(world.join("g", "nobody", version=6)).protocol_name == ""
    assert now(world.join("g", "nobody", version=7)).protocol_name is None


def test_a_client_that_went_away_while_it_waited_does_not_stop_the_others() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    gone, there = world.join("g", a), world.join("g", b)
    assert isinstance(gone, Pending)
    gone.cancel()
    world.timers.advance(6_000)
    assert now(there).generation_id == 1
    assert world.heartbeat(b, 1) is ErrorCode.NONE
    world.timers.advance(10_000)
    assert world.state() == "Empty"


def test_a_protocol_named_twice_counts_once_as_it_was_named_first() -> None:
    world = GroupWorld()
    twice = (("range", b"first"), ("sticky", b"s"), ("range", b"second"))
    answers = [world.join("g", world.new_id(protocols=twice), protocols=twice) for _ in range(2)]
    world.timers.advance(6_000)
    assert now(answers[0]).protocol_name == "range"
    assert [member.metadata for member in now(answers[0]).members] == [b"first", b"first"]
