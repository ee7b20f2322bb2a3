"""How a leader asks for another ISR, what it does with each answer, and whom it waits for meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from broker.replication.isr_maintenance import PARTITIONS_PER_TURN
from broker.replication.transitions import IsrState
from protocol.codec.compiler import encode
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.peer_channel import PeerError
from tests.support.rigs.handler_rig import topic_id
from tests.support.rigs.leader_rig import BROKER_EPOCH, MAX_LAG_MS, LeaderRig


@pytest.fixture
def rig() -> LeaderRig:
    """Broker 1 leads 1, 2 and 3, of which 1 and 2 are in sync; ten records, of which five are committed."""
    made = LeaderRig()
    made.lead((1, 2, 3), (1, 2))
    made.produce(10, acks=1)
    made.follow(2, 5)
    assert made.log("t").high_watermark == 5
    return made


def state(rig: LeaderRig) -> tuple[IsrState, tuple[int, ...]]:
    leader: Any = rig.partition.state
    return leader.partition_state.state, leader.partition_state.maximal_isr


# Who joins.


def test_a_follower_that_has_all_that_is_committed_is_asked_in(rig: LeaderRig) -> None:
    rig.follow(3, 4)
    assert rig.controller.requests == [], "it lacks a committed record"
    rig.follow(3, 5)
    (request,) = rig.controller.requests
    states = [AlterPartitionRequest.BrokerState(broker, BROKER_EPOCH) for broker in (1, 2, 3)]
    wish = AlterPartitionRequest.PartitionData(0, 0, [], states, 0, 0)
    topics = [AlterPartitionRequest.TopicData(topic_id(1), [wish])]
    assert request == AlterPartitionRequest(1, BROKER_EPOCH, topics)
    assert state(rig) == (IsrState.PENDING_EXPAND, (1, 2, 3))
    rig.answer()
    assert state(rig) == (IsrState.COMMITTED, (1, 2, 3))
    assert (rig.partition.partition_epoch, rig.isr.expands, rig.isr.failed_updates) == (1, 1, 0)


def test_whoever_is_asked_in_holds_the_high_watermark_at_once(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.follow(2, 10)
    assert rig.log("t").high_watermark == 5
    rig.follow(3, 7)
    assert rig.log("t").high_watermark == 7


def test_one_wish_at_a_time(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.follow(3, 6)
    rig.timers.advance(2 * MAX_LAG_MS)
    assert len(rig.controller.requests) == 1


def test_a_follower_that_has_nothing_of_this_leaders_epoch_stays_outside(rig: LeaderRig) -> None:
    """What the leader had at the beginning of its epoch may be committed without its knowing it."""
    rig.change(leader=1)
    assert (rig.partition.leader_epoch_start_offset, rig.log("t").high_watermark) == (10, 5)
    rig.follow(3, 9)
    assert rig.controller.requests == []
    rig.follow(3, 10)
    assert rig.asked_isr == [1, 2, 3]


@pytest.mark.parametrize(
    "registration",
    [{"fenced": True}, {"in_controlled_shutdown": True}, {"epoch": 9}],
    ids=["fenced", "shutting down", "registered again"],
)
def test_a_follower_whose_broker_is_not_eligible_stays_outside(
    rig: LeaderRig, registration: dict[str, Any]
) -> None:
    rig.register(3, **registration)
    answer = rig.follow(3, 10)
    assert rig.controller.requests == []
    stale = registration == {"epoch": 9}
    assert answer.error_code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if stale else 0)
    rig.register(3)
    rig.follow(3, 10)
    assert rig.asked_isr == [1, 2, 3]


def test_a_follower_that_does_not_tell_its_epoch_is_taken_at_its_word(rig: LeaderRig) -> None:
    rig.follow(3, 10, broker_epoch=-1)
    assert [each.broker_epoch for each in rig.asked.new_isr_with_epochs] == [BROKER_EPOCH, BROKER_EPOCH, -1]


def test_a_follower_of_a_life_that_the_image_does_not_know_yet_waits_for_the_image(rig: LeaderRig) -> None:
    rig.follow(3, 10, broker_epoch=BROKER_EPOCH + 1)
    assert rig.controller.requests == []
    rig.register(3, epoch=BROKER_EPOCH + 1)
    rig.follow(3, 10, broker_epoch=BROKER_EPOCH + 1)
    assert rig.asked.new_isr_with_epochs[2].broker_epoch == BROKER_EPOCH + 1


# Who leaves.


def test_a_follower_that_lags_for_too_long_is_asked_out(
    rig: LeaderRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barnabas.replicas")
    rig.follow(2, 10)
    rig.produce(1, acks=1)
    rig.timers.advance(MAX_LAG_MS // 2)
    rig.timers.advance(MAX_LAG_MS // 2)
    assert rig.controller.requests == [], "it has lagged for just so long"
    rig.timers.advance(MAX_LAG_MS // 2)
    assert rig.asked_isr == [1]
    assert state(rig) == (IsrState.PENDING_SHRINK, (1, 2))
    assert rig.log("t").high_watermark == 10, "it counts until the controller has agreed"
    rig.answer()
    assert state(rig) == (IsrState.COMMITTED, (1,))
    assert (rig.log("t").high_watermark, rig.isr.shrinks) == (11, 1)
    shrinking, updated = [record.getMessage() for record in caplog.records]
    assert shrinking.startswith(
        "[Partition t-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 10, endOffset: 11). "
        "Out of sync replicas: (brokerId: 2, endOffset: 10, lastCaughtUpTimeMs: "
    )
    assert updated == "[Partition t-0 broker=1] ISR updated to 1 and version updated to 1"


def test_a_follower_at_the_log_end_stays_however_long_it_is_silent(rig: LeaderRig) -> None:
    rig.follow(2, 10)
    rig.timers.advance(5 * MAX_LAG_MS)
    assert rig.controller.requests == []


def test_a_follower_that_never_fetched_has_the_full_time_from_the_election_on() -> None:
    rig = LeaderRig()
    rig.lead((1, 2), (1, 2))
    rig.produce(1, acks=1)
    rig.timers.advance(MAX_LAG_MS)
    assert rig.controller.requests == []
    rig.timers.advance(MAX_LAG_MS // 2)
    assert rig.asked_isr == [1]


def test_the_next_isr_names_the_one_before(rig: LeaderRig) -> None:
    rig.timers.advance(2 * MAX_LAG_MS)
    rig.answer()
    rig.follow(3, 10)
    assert (rig.asked_isr, rig.asked.partition_epoch) == ([1, 3], 1)


def test_partitions_are_looked_at_some_in_a_turn() -> None:
    rig = LeaderRig()
    rig.register(2)
    count = PARTITIONS_PER_TURN + 1
    rig.topic("t", count, replicas=(1, 2), isr=(1, 2))
    rig.isr.start(rig.replicas.by_name.values)
    for index in range(count):
        rig.write("t", index)
    for _ in range(3):
        rig.clock.move(MAX_LAG_MS // 2)
        rig.timers.advance(0)
    first, second = rig.controller.requests[0], None
    assert isinstance(first, AlterPartitionRequest)
    assert sum(len(topic.partitions) for topic in first.topics) == 1, "the others wait for its answer"
    asked = first.topics[0].partitions[0]
    granted = AlterPartitionResponse.PartitionData(asked.partition_index, 0, 1, 0, [1], 0, 1)
    rig.timers.run_soon()
    rig.answer_with(AlterPartitionResponse(topics=[AlterPartitionResponse.TopicData(topic_id(1), [granted])]))
    second = rig.controller.requests[1]
    assert isinstance(second, AlterPartitionRequest)
    assert sum(len(topic.partitions) for topic in second.topics) == count - 1, "all of them in one request"


# The high watermark and those who are about to join.


def test_the_high_watermark_waits_for_a_replica_that_is_about_to_join(rig: LeaderRig) -> None:
    """Otherwise it would run ahead of a replica that keeps up, and the replica would never have all that is
    committed."""
    rig.register(2, fenced=True)
    rig.change(isr=[1])
    rig.follow(3, 10)
    rig.refuse(ErrorCode.INELIGIBLE_REPLICA)
    assert (state(rig), rig.log("t").high_watermark) == ((IsrState.COMMITTED, (1,)), 10)
    rig.produce(1, acks=1)
    assert rig.log("t").high_watermark == 10
    rig.timers.advance(2 * MAX_LAG_MS)
    assert rig.log("t").high_watermark == 11, "it is about to join no more"


def test_the_high_watermark_does_not_wait_for_one_that_may_not_join(rig: LeaderRig) -> None:
    rig.change(isr=[1])
    rig.register(2, 3, fenced=True)
    rig.follow(3, 10)
    rig.produce(1, acks=1)
    assert rig.log("t").high_watermark == 11


# Answers.


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_what_was_not_done_is_taken_back(rig: LeaderRig, error: ErrorCode) -> None:
    rig.follow(3, 5)
    rig.refuse(error)
    assert (state(rig), rig.isr.failed_updates) == ((IsrState.COMMITTED, (1, 2)), 1)
    rig.follow(3, 6)
    assert len(rig.controller.requests) == 2


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_what_nobody_knows_stands_until_the_metadata_log_tells(rig: LeaderRig, error: ErrorCode) -> None:
    rig.follow(3, 5)
    rig.refuse(error)
    rig.timers.advance(10 * MAX_LAG_MS)
    rig.follow(3, 6)
    assert (len(rig.controller.requests), state(rig)) == (1, (IsrState.PENDING_EXPAND, (1, 2, 3)))
    rig.change(isr=[1, 2])
    assert state(rig) == (IsrState.COMMITTED, (1, 2))


def test_any_other_error_of_the_partition_has_the_same_wish_sent_again(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.refuse(ErrorCode.NOT_CONTROLLER)
    assert len(rig.controller.requests) == 1
    rig.timers.advance(50)
    first, second = rig.controller.requests
    assert first == second
    rig.answer()
    assert rig.partition.isr == (1, 2, 3)


@pytest.mark.parametrize(
    "response",
    [
        AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
        AlterPartitionResponse(),
        PeerError("the connection broke"),
    ],
    ids=["not controller", "stale epoch", "not authorized", "server error", "left out", "no answer"],
)
def test_a_request_that_came_to_nothing_is_sent_again(rig: LeaderRig, response: Any) -> None:
    rig.follow(3, 5)
    rig.answer_with(response)
    assert len(rig.controller.requests) == 1
    rig.timers.advance(50)
    assert rig.controller.requests[1] == rig.controller.requests[0]
    rig.answer()
    assert rig.partition.isr == (1, 2, 3)


def test_every_request_can_be_written(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    assert encode(rig.controller.requests[0], 3)


def test_a_controller_that_knows_no_epochs_is_told_none(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.answer_with(PeerError("it knows version 2 at most", is_unsupported=True))
    rig.timers.advance(50)
    assert (rig.asked.new_isr, rig.asked.new_isr_with_epochs) == ([1, 2, 3], [])
    assert encode(rig.controller.requests[1], 2)


def test_an_answer_that_the_metadata_log_has_overtaken_changes_nothing(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.change(isr=[1])
    rig.answer()
    assert (rig.partition.isr, rig.partition.partition_epoch, rig.isr.expands) == ((1,), 1, 0)


def test_a_wish_while_an_overtaken_one_waits_for_its_answer_is_not_attempted(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.change(isr=[1])
    rig.follow(3, 10)
    assert len(rig.controller.requests) == 1
    assert (state(rig), rig.isr.failed_updates) == ((IsrState.COMMITTED, (1,)), 1)
    rig.answer()
    rig.follow(3, 10)
    assert rig.asked_isr == [1, 3]


def test_who_leads_no_more_hears_no_answer(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.change(leader=2)
    rig.answer()
    assert (rig.partition.is_leader, rig.isr.expands, rig.isr.failed_updates) == (False, 0, 0)


def test_an_answer_of_another_leader_epoch_is_no_news(rig: LeaderRig) -> None:
    rig.follow(3, 5)
    rig.answer(leader_epoch=1)
    assert (state(rig), rig.isr.failed_updates) == ((IsrState.PENDING_EXPAND, (1, 2, 3)), 1)


# The end.


def test_a_stopped_broker_asks_for_nothing(rig: LeaderRig) -> None:
    rig.isr.stop()
    rig.follow(3, 10)
    rig.timers.advance(10 * MAX_LAG_MS)
    assert rig.controller.requests == []


def test_a_closed_manager_tells_nobody_and_sends_nothing_again(rig: LeaderRig) -> None:
    rig.follow(3, 10)
    rig.manager.close()
    rig.answer_with(PeerError("closed"))
    rig.timers.advance(1000)
    assert (len(rig.controller.requests), rig.partition.isr) == (1, (1, 2))


# What metrics show of it.


def test_the_standing_of_a_partition() -> None:
    rig = LeaderRig()
    rig.lead((1, 2, 3), (1, 2), min_insync_replicas="2")

    def standing() -> tuple[bool, bool, bool]:
        partition = rig.partition
        return partition.is_under_replicated, partition.is_at_min_isr, partition.is_under_min_isr

    assert standing() == (True, True, False)
    rig.change(isr=[1, 2, 3])
    assert standing() == (False, False, False)
    rig.change(replicas=[1, 2, 3, 4], adding_replicas=[4])
    assert standing() == (False, False, False), "one that is on its way is not missed"
    rig.change(isr=[1])
    assert standing() == (True, False, True)
    rig.change(leader=2)
    assert standing() == (False, False, False), "only the leader knows"
