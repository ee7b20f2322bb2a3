"""The tables of a partition's roles and of its ISR, and what a leader remembers of the other replicas."""

from __future__ import annotations

from typing import Any

import pytest

from broker.replication.partition import Partition
from broker.replication.partition_state import CommittedPartitionState, LeaderAndIsr
from broker.replication.roles import NEVER, Follower, Leader, Offline, PartitionFetchState, ReplicaState
from broker.replication.transitions import (
    ISR_TRANSITIONS,
    STARTING_ROLE,
    TRANSITIONS,
    IsrCause,
    IsrState,
    Role,
    RoleCause,
)
from protocol.errors import ErrorCode, InvariantViolated
from tests.support.rigs.handler_rig import HandlerRig


@pytest.fixture
def rig() -> HandlerRig:
    """Broker 1 leads a partition of four replicas, of which 1 and 2 are in sync, and wrote ten records."""
    made = HandlerRig()
    made.topic("t", replicas=(1, 2, 3, 4), isr=(1, 2), leader_epoch=5)
    made.write("t", count=10)
    return made


@pytest.fixture
def partition(rig: HandlerRig) -> Partition:
    return rig.replicas.by_name["t", 0]


def follow(partition: Partition, leader_id: int = 1, leader_epoch: int = 5, **changes: Any) -> bool:
    values: dict[str, Any] = {
        "leader_id": leader_id,
        "leader_epoch": leader_epoch,
        "partition_epoch": partition.partition_epoch + 1,
        "replicas": (1, 2, 3, 4),
        "isr": (1, 2),
        "min_insync_replicas": 1,
        "now_ms": 0,
    }
    return partition.follow_image(**(values | changes))


def leading(partition: Partition) -> Leader:
    assert isinstance(partition.state, Leader)
    return partition.state


def answer(pending: Any, *, isr: tuple[int, ...], leader_epoch: int = 5, **changes: Any) -> LeaderAndIsr:
    values = {"leader_recovery_state": 0, "partition_epoch": pending.sent_leader_and_isr.partition_epoch + 1}
    return LeaderAndIsr(
        leader_id=1,
        leader_epoch=leader_epoch,
        isr_with_broker_epoch=tuple((each, -1) for each in isr),
        **(values | changes),
    )


# The tables.


def test_every_role_is_reached_and_every_cause_has_its_place() -> None:
    assert {STARTING_ROLE} | {new for _, new in TRANSITIONS} == set(Role)
    assert {cause for causes in TRANSITIONS.values() for cause in causes} == set(RoleCause)
    assert not any(old is Role.OFFLINE for old, _ in TRANSITIONS), "an offline partition stays so"
    assert all(
        causes == {RoleCause.LOG_FAILED} for (_, new), causes in TRANSITIONS.items() if new is Role.OFFLINE
    )


def test_every_isr_state_is_reached_and_left() -> None:
    assert {new for _, new in ISR_TRANSITIONS} == {old for old, _ in ISR_TRANSITIONS} == set(IsrState)
    assert {cause for causes in ISR_TRANSITIONS.values() for cause in causes} == set(IsrCause)
    assert all(
        IsrCause.IMAGE in ISR_TRANSITIONS[state, IsrState.COMMITTED] for state in IsrState
    )  # the metadata log is right whatever was asked


def test_each_role_has_its_own_state(partition: Partition) -> None:
    assert (partition.role, partition.is_leader, partition.leader_id) == (Role.LEADER, True, 1)
    assert follow(partition, 2, 6)
    assert partition.state == Follower(2, PartitionFetchState(10, 6, 5))
    assert (partition.isr, partition.leader_epoch_start_offset) == ((), 0)
    assert follow(partition, -1, 7)
    assert (partition.role, partition.leader_id) == (Role.FOLLOWER, -1)
    partition.go_offline()
    assert isinstance(partition.state, Offline)
    assert (partition.is_leader, partition.is_offline) == (False, True)


def test_a_change_that_is_in_no_table_is_our_bug(partition: Partition) -> None:
    partition.go_offline()
    with pytest.raises(InvariantViolated, match="as the table says"):
        follow(partition, 1, 6)
    with pytest.raises(InvariantViolated, match="only its leader knows"):
        partition.prepare_isr_expand(3, 7)


def test_who_is_retired_finds_no_leader(partition: Partition) -> None:
    partition.retire()
    assert (partition.role, partition.leader_id) == (Role.FOLLOWER, -1)
    assert partition.refusal(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


# The other replicas.


def test_a_replica_is_caught_up_while_it_has_had_everything_lately() -> None:
    state = ReplicaState()
    assert not state.is_caught_up(0, 0, 30_000)

    def fetch(offset: int, end: int, now_ms: int) -> int:
        state.note_fetch(
            fetch_offset=offset, log_start_offset=0, leader_end_offset=end, now_ms=now_ms, broker_epoch=1
        )
        return state.last_caught_up_time_ms

    assert fetch(0, 100, 1_000) == NEVER
    assert fetch(60, 200, 2_000) == NEVER, "it has not what there was a second ago"
    assert fetch(200, 300, 3_000) == 2_000, "it has what there was when it asked before"
    assert fetch(300, 300, 4_000) == 4_000
    assert state.is_caught_up(300, 99_000, 30_000), "nothing came since"
    assert state.is_caught_up(301, 34_000, 30_000)
    assert not state.is_caught_up(301, 34_001, 30_000)


def test_a_new_leader_knows_nothing_and_gives_the_isr_its_time(partition: Partition) -> None:
    partition.follower_fetched(3, 7, now_ms=100)
    follow(partition, 2, 6)
    follow(partition, 1, 7, now_ms=200)
    replicas = leading(partition).replicas
    assert [state.log_end_offset for state in replicas.values()] == [-1, -1, -1]
    assert [state.last_caught_up_time_ms for state in replicas.values()] == [200, NEVER, NEVER]


def test_a_leader_in_a_new_epoch_keeps_what_it_knows(partition: Partition) -> None:
    partition.follower_fetched(2, 4, 1, now_ms=100, broker_epoch=9)
    partition.follower_fetched(3, 10, 2, now_ms=100, broker_epoch=8)
    follow(partition, 1, 6, now_ms=200)
    second, third, _ = leading(partition).replicas.values()
    assert (second.log_end_offset, second.log_start_offset, second.broker_epoch) == (4, 1, 9)
    assert (second.last_caught_up_time_ms, second.last_fetch_leader_log_end_offset) == (200, 10)
    assert (third.log_end_offset, third.last_caught_up_time_ms) == (10, NEVER)
    assert leading(partition).epoch_start_offset == 10


def test_a_leader_that_has_missed_an_epoch_believes_nothing_of_what_it_was_told_before(
    partition: Partition,
) -> None:
    """Who led in between may have had the third replica cut its log. What is acknowledged must be there."""
    follow(partition, isr=(1, 2, 3))
    partition.follower_fetched(2, 8, now_ms=100)
    partition.follower_fetched(3, 10, now_ms=100)
    follow(partition, 1, 7, isr=(1, 3), now_ms=200)
    assert partition.log.high_watermark == 8
    assert [state.log_end_offset for state in leading(partition).replicas.values()] == [-1, -1, -1]
    partition.follower_fetched(3, 8, now_ms=300)
    assert partition.log.high_watermark == 8
    partition.follower_fetched(3, 10, now_ms=400)
    assert partition.log.high_watermark == 10


def test_replicas_come_and_go_within_an_epoch(partition: Partition) -> None:
    partition.follower_fetched(2, 4, now_ms=100)
    follow(partition, replicas=(1, 2, 5), isr=(1, 2))
    assert list(leading(partition).replicas) == [2, 5]
    assert leading(partition).replicas[2].log_end_offset == 4


def test_an_older_image_than_the_one_known_changes_nothing(partition: Partition) -> None:
    follow(partition, isr=(1, 2, 3))
    assert not follow(partition, 2, 4, partition_epoch=partition.partition_epoch - 1)
    assert (partition.is_leader, partition.isr) == (True, (1, 2, 3))


# The ISR.


def test_a_replica_that_is_to_join_holds_the_high_watermark_at_once(partition: Partition) -> None:
    partition.follower_fetched(3, 6, now_ms=0, broker_epoch=33)
    partition.follower_fetched(2, 4, now_ms=0, broker_epoch=22)
    pending = partition.prepare_isr_expand(3, 11)
    sent = pending.sent_leader_and_isr
    assert sent.isr_with_broker_epoch == ((1, 11), (2, 22), (3, 33))
    assert (sent.leader_epoch, sent.partition_epoch) == (5, partition.partition_epoch)
    assert (pending.isr, pending.maximal_isr, partition.isr) == ((1, 2), (1, 2, 3), (1, 2))
    partition.follower_fetched(2, 10, now_ms=0)
    assert partition.log.high_watermark == 6
    assert partition.isr_confirmed(pending, answer(pending, isr=(1, 2, 3)))
    assert (partition.isr, partition.partition_epoch) == ((1, 2, 3), sent.partition_epoch + 1)
    assert leading(partition).partition_state == CommittedPartitionState((1, 2, 3))


def test_a_replica_that_is_to_leave_holds_the_high_watermark_until_it_has_left(partition: Partition) -> None:
    pending = partition.prepare_isr_shrink([2], 11)
    assert (pending.isr, pending.maximal_isr, pending.sent_leader_and_isr.isr) == ((1, 2), (1, 2), (1,))
    assert partition.log.high_watermark == 0
    assert partition.isr_confirmed(pending, answer(pending, isr=(1,)))
    assert (partition.log.high_watermark, partition.is_under_min_isr) == (10, False)


def test_an_isr_is_asked_for_in_the_order_of_ids(partition: Partition) -> None:
    follow(partition, isr=(3, 2, 1))
    pending = partition.prepare_isr_shrink([2], 11)
    assert pending.sent_leader_and_isr.isr == (1, 3)
    partition.isr_confirmed(pending, answer(pending, isr=(3, 1)))
    assert partition.prepare_isr_expand(2, 11).sent_leader_and_isr.isr == (1, 2, 3)


def test_a_change_that_was_not_made_is_taken_back(partition: Partition) -> None:
    partition.follower_fetched(2, 8, now_ms=0)
    pending = partition.prepare_isr_expand(3, 11)
    partition.follower_fetched(2, 9, now_ms=0)
    assert partition.log.high_watermark == 8, "nothing is known of the third"
    assert partition.isr_rejected(pending)
    assert (partition.log.high_watermark, partition.isr) == (9, (1, 2))
    assert not partition.isr_rejected(pending), "told twice"


def test_a_metadata_log_that_comes_late_forgets_nothing_that_was_asked_for_since(
    partition: Partition,
) -> None:
    """The answer to the change before has told the same partition epoch already. The controller may have
    taken the third replica in, and may elect it."""
    pending = partition.prepare_isr_expand(3, 11)
    partition.follower_fetched(3, 6, now_ms=0)
    follow(partition, partition_epoch=partition.partition_epoch, replicas=(1, 2, 3, 5))
    assert (partition.replicas, set(leading(partition).replicas)) == ((1, 2, 3, 5), {2, 3, 5})
    assert partition.awaits(pending)
    partition.follower_fetched(2, 10, now_ms=0)
    assert partition.log.high_watermark == 6
    assert partition.isr_confirmed(pending, answer(pending, isr=(1, 2, 3)))
    assert (partition.isr, partition.log.high_watermark) == ((1, 2, 3), 6)


def test_the_metadata_log_may_be_quicker_than_the_answer(partition: Partition) -> None:
    pending = partition.prepare_isr_expand(3, 11)
    follow(partition, isr=(1, 2, 3))
    assert leading(partition).partition_state == CommittedPartitionState((1, 2, 3))
    assert not partition.isr_confirmed(pending, answer(pending, isr=(1, 2, 3)))
    assert not partition.isr_rejected(pending)


@pytest.mark.parametrize("late", [{"leader_epoch": 4}, {"partition_epoch": -2}])
def test_an_answer_of_another_epoch_is_ignored(partition: Partition, late: dict[str, int]) -> None:
    pending = partition.prepare_isr_shrink([2], 11)
    assert not partition.isr_confirmed(pending, answer(pending, isr=(1,), **late))
    assert leading(partition).partition_state is pending


def test_an_answer_comes_too_late_for_who_leads_no_more(partition: Partition) -> None:
    pending = partition.prepare_isr_shrink([2], 11)
    follow(partition, 2, 6)
    assert not partition.isr_confirmed(pending, answer(pending, isr=(1,)))
    assert not partition.isr_rejected(pending)


def test_a_leader_asks_for_one_change_at_a_time(partition: Partition) -> None:
    partition.prepare_isr_expand(3, 11)
    with pytest.raises(InvariantViolated, match="one change"):
        partition.prepare_isr_expand(4, 11)


@pytest.mark.parametrize("replica", [2, 9])
def test_only_a_replica_outside_can_join(partition: Partition, replica: int) -> None:
    with pytest.raises(InvariantViolated, match="ISR"):
        partition.prepare_isr_expand(replica, 11)


def test_a_leader_does_not_leave_its_own_isr(partition: Partition) -> None:
    with pytest.raises(InvariantViolated, match="own ISR"):
        partition.prepare_isr_shrink([1], 11)
