"""A new coordinator takes over, or the log fails: what members notice."""

from __future__ import annotations

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_operation import GroupSettings
from protocol.errors import ErrorCode
from tests.support.rigs.group_world import GroupWorld, MemoryLog, is_parked, now


def test_a_stable_group_goes_on_as_if_nothing_had_been() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2)
    world.commit_error(42, member_id=b, generation=1)
    world.restart()
    assert world.state() == "Stable"
    assert world.heartbeat(a, 1) is ErrorCode.NONE
    assert world.commit_error(43, member_id=b, generation=1) is ErrorCode.NONE
    assert now(world.sync(b, 1)).assignment == b.encode()
    followed = now(world.join("g", b))
    assert (followed.generation_id, followed.leader, followed.protocol_name) == (1, a, "range")


def test_sessions_begin_anew_with_the_new_coordinator() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2)
    world.timers.advance(9_999)
    world.restart()
    world.timers.advance(9_999)
    assert world.heartbeat(a, 1) is ErrorCode.NONE
    world.timers.advance(1)
    assert world.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_wait_are_told_to_look_for_the_new_coordinator() -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1)
    joining = world.join("g", version=3)
    other = world.new_id("h")
    world.join("h", other)
    second = world.new_id("h")
    world.join("h", second)
    world.timers.advance(6_000)
    syncing = world.sync(second, 1, group_id="h")
    assert is_parked(joining)
    assert is_parked(syncing)
    world.restart()
    assert now(joining).error_code == ErrorCode.NOT_COORDINATOR
    assert now(syncing).error_code == ErrorCode.NOT_COORDINATOR
    # What was not in the log is lost as it is in Kafka: the old generation of g lives, h never had one.
    assert world.heartbeat(a, 1) is ErrorCode.NONE
    assert world.heartbeat(other, 1, group_id="h") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_emptied_group_stays_empty_and_keeps_counting() -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1)
    world.leave(a)
    world.restart()
    assert world.state() == "Empty"
    answer = world.join("g", world.new_id())
    world.timers.advance(3_000)
    assert now(answer).generation_id == 3


def test_a_group_above_a_lowered_limit_rebalances_at_once() -> None:
    world = GroupWorld()
    members = world.stable_group(3)
    world.settings = GroupSettings(group_max_size=2)
    world.restart()
    assert world.state() == "PreparingRebalance"
    assert [world.heartbeat(member, 1) for member in members] == [ErrorCode.REBALANCE_IN_PROGRESS] * 3
    joins = [world.join("g", member) for member in members]
    assert now(joins[2]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert now(joins[0]).generation_id == 2


def test_while_loading_heartbeats_are_welcome_and_all_else_must_wait() -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1)
    world.groups.close()
    world.groups = world.coordinator()
    world.groups.elected(world.groups.partition_for("g"), 1)
    assert world.heartbeat(a, 1) is ErrorCode.NONE
    assert now(world.join("g", a)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert now(world.sync(a, 1)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.leave(a).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.commit_error(1, member_id=a, generation=1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fetched = now(world.groups.fetch_offsets("g", None, require_stable=False))
    assert fetched.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.groups.describe("g", 6).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.groups.list_groups([], []).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_broker_that_does_not_lead_the_partition_is_not_the_coordinator() -> None:
    world = GroupWorld()
    (a,) = world.stable_group(1)
    world.groups.resigned(world.groups.partition_for("g"), 0)
    assert world.heartbeat(a, 1) is ErrorCode.NOT_COORDINATOR
    assert now(world.join("g", a)).error_code == ErrorCode.NOT_COORDINATOR
    assert world.commit_error(1, member_id=a, generation=1) is ErrorCode.NOT_COORDINATOR
    assert world.groups.list_groups([], []).groups == []


# The log refuses


def test_a_group_that_could_not_be_stored_never_was() -> None:
    world = GroupWorld()
    world.log.held = []
    answer = world.join("g", version=3)
    assert is_parked(answer)
    world.log.decide(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert now(answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_followers_wait_until_the_assignment_is_stored() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    world.join("g", a)
    world.join("g", b)
    world.timers.advance(6_000)
    world.log.held = []
    answers = [world.sync(b, 1), world.sync(a, 1, {a: b"1", b: b"2"})]
    assert all(is_parked(answer) for answer in answers)
    assert world.state() == "CompletingRebalance"
    world.log.decide()
    assert [now(answer).assignment for answer in answers] == [b"2", b"1"]
    assert world.state() == "Stable"


def test_an_assignment_that_could_not_be_stored_sends_all_back() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    world.join("g", a)
    world.join("g", b)
    world.timers.advance(6_000)
    world.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answers = [world.sync(b, 1), world.sync(a, 1, {a: b"1", b: b"2"})]
    assert {now(answer).error_code for answer in answers} == {ErrorCode.NOT_COORDINATOR}
    assert world.state() == "PreparingRebalance"


def test_an_assignment_stored_too_late_is_void() -> None:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    world.join("g", a)
    world.join("g", b)
    world.timers.advance(6_000)
    world.log.held = []
    answers = [world.sync(b, 1), world.sync(a, 1, {a: b"1", b: b"2"})]
    newcomer = world.join("g", version=3)
    assert {now(answer).error_code for answer in answers} == {ErrorCode.REBALANCE_IN_PROGRESS}
    world.log.decide()
    assert world.state() == "PreparingRebalance"
    joins = [world.join("g", a), world.join("g", b)]
    assert [now(join).generation_id for join in (*joins, newcomer)] == [2, 2, 2]
    assert now(world.sync(now(newcomer).member_id, 1)).error_code == ErrorCode.ILLEGAL_GENERATION


def test_all_groups_of_many_partitions_come_back() -> None:
    log = MemoryLog()
    world = GroupWorld(log=log)
    for number in range(120):
        world.commit_error(number, group_id=f"group-{number}")
    world.restart()
    assert len({index for topic, index in log.batches if topic == GROUP_TOPIC}) > 30
    assert len(world.groups.list_groups([], []).groups) == 120
    assert all(world.committed(group_id=f"group-{number}").offset == number for number in range(120))


def test_a_new_coordinator_tells_what_it_found_in_the_log_once_that_is_committed() -> None:
    """It reads to the log's end; of the last records it is not known yet if they stay."""
    world = GroupWorld()
    assert world.commit_error(42) is ErrorCode.NONE
    world.log.uncommitted = []
    world.restart()
    asked = world.groups.fetch_offsets("g", [("t", [0])], require_stable=False)
    assert is_parked(asked)
    for on_result in world.log.uncommitted:
        on_result(ErrorCode.NONE)
    assert now(asked).topics[0].partitions[0].offset == 42
    assert world.committed().offset == 42


def test_who_waits_too_long_for_what_a_new_coordinator_found_asks_again() -> None:
    world = GroupWorld()
    world.log.uncommitted = []
    world.restart()
    asked = world.groups.fetch_offsets("g", [("t", [0])], require_stable=False)
    world.timers.advance(world.settings.offsets_commit_timeout_ms)
    assert now(asked).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    asked = world.groups.fetch_offsets("g", [("t", [0])], require_stable=False)
    world.log.uncommitted[world.groups.partition_for("g")](ErrorCode.NONE)
    assert now(asked).error is ErrorCode.NONE
