"""Time-outs that no sensible client names: none at all, less than none, three weeks.

What is expected here is what Apache Kafka 4.3.1 does with the same requests (`test_groups_beside_kafka`), but
for the processor that it burns while it waits.
"""

from __future__ import annotations

import logging

import pytest

from broker.coordinator.group_operation import DeadlineKind, GroupSettings
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.coordinator_context import DEADLINES_PER_TURN
from broker.server.broker_server import group_settings
from protocol.errors import ErrorCode, InvariantViolated
from tests.support.rigs.controllers import one_node_config
from tests.support.rigs.group_world import GroupWorld, is_parked, now

LONGEST_MS = 2**31 - 1
NO_TIME = pytest.mark.parametrize("rebalance_ms", [0, -1, -LONGEST_MS - 1, 1])


def stable_static(world: GroupWorld, *instances: str, rebalance_ms: int) -> dict[str, str]:
    """A stable group whose static members have come back and named this time-out; their ids."""
    joins = [world.join("g", instance=name) for name in instances]
    world.timers.advance(2 * world.settings.group_initial_rebalance_delay_ms)
    world.sync_all([now(join).member_id for join in joins], 1)
    back = {name: now(world.join("g", instance=name, rebalance_ms=rebalance_ms)) for name in instances}
    assert world.state() == "Stable"
    return {name: answer.member_id for name, answer in back.items()}


@NO_TIME
def test_a_join_phase_without_time_waits_without_spinning(
    rebalance_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = GroupWorld()
    ids = stable_static(world, "one", "two", rebalance_ms=rebalance_ms)
    with caplog.at_level(logging.WARNING):
        world.leave(("", "one"))
        world.timers.advance(9_000)
    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(ids["two"], 1, instance="two") is ErrorCode.REBALANCE_IN_PROGRESS
    waits = [record for record in caplog.records if "waiting on" in record.getMessage()]
    assert len(waits) == 1, "it says once that it waits"


@NO_TIME
def test_who_comes_to_a_phase_that_waits_on_is_not_kept_waiting(rebalance_ms: int) -> None:
    world = GroupWorld()
    ids = stable_static(world, "one", "two", "three", rebalance_ms=rebalance_ms)
    world.leave(("", "one"))
    world.timers.advance(2_500)
    answer = world.join("g", ids["two"], instance="two", rebalance_ms=rebalance_ms)
    assert is_parked(answer)
    world.timers.advance(max(rebalance_ms, 0))
    assert now(answer).generation_id == 2
    members = [member.group_instance_id for member in now(answer).members]
    assert members == ["two", "three"], "a static member that stays away keeps its place"


def test_a_patient_phase_that_waits_on_ends_a_rebalance_timeout_later() -> None:
    world = GroupWorld()
    ids = stable_static(world, "one", "two", "three", rebalance_ms=5_000)
    world.leave(("", "one"))
    for _ in range(3):  # their heartbeats keep them in
        world.timers.advance(2_000)
        for name in ("two", "three"):
            world.heartbeat(ids[name], 1, instance=name)
    answer = world.join("g", ids["two"], instance="two", rebalance_ms=5_000)
    world.timers.advance(3_999)
    assert is_parked(answer)
    world.timers.advance(1)
    assert now(answer).generation_id == 2


@pytest.mark.parametrize("rebalance_ms", [0, -1])
def test_a_member_without_time_to_sync_is_out_at_once(rebalance_ms: int) -> None:
    world = GroupWorld()
    member = world.new_id()
    answer = world.join("g", member, rebalance_ms=rebalance_ms)
    world.timers.advance(3_000)
    assert now(answer).generation_id == 1
    world.timers.advance(0)
    assert now(world.sync(member, 1, {member: b"x"})).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.state() == "Empty"
    assert world.shard("g").group_metadata.groups["g"].generation == 2


def test_the_longest_time_outs_are_kept_to_the_millisecond() -> None:
    world = GroupWorld(
        GroupSettings(
            group_max_session_timeout_ms=LONGEST_MS,
            offsets_retention_check_interval_ms=LONGEST_MS,
            offsets_retention_ms=10**15,
        )
    )
    member = world.new_id(session_ms=LONGEST_MS, rebalance_ms=LONGEST_MS)
    joined = world.join("g", member, session_ms=LONGEST_MS, rebalance_ms=LONGEST_MS)
    world.timers.advance(3_000)
    world.sync_all([member], now(joined).generation_id)
    newcomer = world.join("g", version=3, session_ms=LONGEST_MS, rebalance_ms=LONGEST_MS)
    newcomer_id = next(iter(world.shard("g").group_metadata.groups["g"].members.keys() - {member}))
    due = world.shard("g").deadlines.get((DeadlineKind.JOIN_PHASE, "g", ""))
    assert due == world.clock.monotonic_ms() + LONGEST_MS
    world.timers.advance(300_000)  # a member that was never in a generation has five minutes
    assert now(newcomer).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer_id not in world.shard("g").group_metadata.groups["g"].members
    world.timers.advance(LONGEST_MS)
    assert world.state() == "Empty"


@pytest.mark.parametrize("session_ms", [0, 1])
def test_a_session_without_length_ends_at_once(session_ms: int) -> None:
    world = GroupWorld(GroupSettings(group_min_session_timeout_ms=0))
    pending = world.new_id(session_ms=session_ms)
    world.timers.advance(1)
    refused = now(world.join("g", pending, session_ms=session_ms))
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    answer = world.join("g", instance="x", session_ms=session_ms)
    world.timers.advance(3_000)
    assert now(answer).generation_id == 1
    world.timers.advance(1)
    assert world.state() == "Empty"


@pytest.mark.parametrize("session_ms", [-1, 0, LONGEST_MS])
def test_sessions_outside_the_bounds_of_the_broker_are_refused(session_ms: int) -> None:
    answer = now(GroupWorld().join("g", session_ms=session_ms))
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("delay_ms", ["0", "-1", "-2147483648"])
def test_no_first_delay_and_members_that_keep_coming(delay_ms: str) -> None:
    config = one_node_config(group__initial__rebalance__delay__ms=delay_ms)
    world = GroupWorld(group_settings(config))
    first, second = world.new_id(), world.new_id()
    joins = [world.join("g", first), world.join("g", second)]
    world.timers.advance(0)
    assert [now(join).generation_id for join in joins] == [1, 1]
    assert world.groups.failures == 0


def test_thousands_of_deadlines_at_one_moment_leave_room_for_others() -> None:
    world = GroupWorld()
    count = 3 * DEADLINES_PER_TURN
    for _ in range(count):
        world.new_id()
    group = world.shard("g").group_metadata.groups["g"]
    world.clock.move(10_000)
    left = [count]
    while left[-1]:
        (timer,) = [each for each in world.timers._timers if each.callback is not None
                    and each.deadline_ms <= world.clock.monotonic_ms()]  # fmt: skip
        callback, timer.callback = timer.callback, None
        assert callback is not None
        callback()
        left.append(len(group.pending_members))
        assert left[-2] - left[-1] <= DEADLINES_PER_TURN
    assert len(left) == 4


def test_a_deadline_that_would_come_again_at_once_is_an_error_of_ours() -> None:
    world = GroupWorld()
    world.stable_group(1)
    shard = world.shard("g")
    key = (DeadlineKind.JOIN_PHASE, "g", "")
    now = CurrentTime(world.clock.wall_ms(), world.clock.monotonic_ms())
    shard.deadlines.set(key, now.monotonic_ms)
    group = shard.group_metadata.groups["g"]

    class Again(dict):  # type: ignore[type-arg]
        def get(self, name: object, default: object = None) -> object:
            shard.deadlines.set(key, now.monotonic_ms)
            return group

    shard.group_metadata.groups = Again(g=group)
    with pytest.raises(InvariantViolated, match="lies ahead again"):
        shard.expire(now)
