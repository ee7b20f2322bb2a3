"""acks=all beside followers: what is acknowledged when, and what a producer hears when the leader changes."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceResponse
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import now
from tests.support.rigs.leader_rig import LeaderRig


@pytest.fixture
def rig() -> LeaderRig:
    made = LeaderRig()
    made.lead((1, 2, 3), (1, 2), min_insync_replicas="2")
    return made


def only(answer: Any) -> ProduceResponse.PartitionProduceResponse:
    ((data,),) = [topic.partition_responses for topic in now(answer).responses]
    return data  # type: ignore[no-any-return]


def test_an_acknowledgement_waits_for_every_replica_in_sync(rig: LeaderRig) -> None:
    sent = rig.produce(3)
    rig.follow(2, 2)
    assert isinstance(sent, Pending)
    assert not sent.holds_request, "it is in the log"
    assert not sent.done
    rig.follow(2, 3)
    assert (only(sent).error_code, only(sent).base_offset) == (0, 0)


def test_too_few_in_sync_before_the_append(rig: LeaderRig) -> None:
    rig.change(isr=[1])
    answer = only(rig.produce(1))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert rig.log("t").log_end_offset == 0
    assert only(rig.produce(1, acks=1)).error_code == 0


def test_too_few_in_sync_after_the_append_leaves_it_open_until_the_time_is_over(rig: LeaderRig) -> None:
    """Nobody knows whether the record will be there after a failover (KIP-966)."""
    sent = rig.produce(1, timeout_ms=1000)
    rig.change(isr=[1])
    rig.follow(2, 1)
    assert not sent.done
    rig.timers.advance(1000)
    assert only(sent).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_leader_that_leads_no_more_says_so_at_once_and_who_does(rig: LeaderRig) -> None:
    rig.produce(2, acks=1)
    sent = rig.produce(1)
    rig.change(leader=2)
    answer = only(sent)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert answer.current_leader == ProduceResponse.LeaderIdAndEpoch(2, 1)
    assert now(sent).node_endpoints == [ProduceResponse.NodeEndpoint(2, "host2", 9002, None)]


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR])
def test_who_hears_of_an_error_late_is_told_where_the_batch_lies(error: ErrorCode) -> None:
    """Only the error code says that its replication is not known, as in Kafka."""
    rig = LeaderRig()
    rig.lead((1, 2), (1, 2), message_timestamp_type="LogAppendTime")
    rig.produce(3, acks=1)
    sent = rig.produce(1, timeout_ms=1000)
    appended_ms = rig.clock.wall_ms()
    if error is ErrorCode.KAFKA_STORAGE_ERROR:
        rig.replicas.log_went_offline("t", 0)
    rig.timers.advance(1000)
    answer = only(sent)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (error, 3, appended_ms)


def test_a_leader_that_is_elected_again_keeps_what_it_owes(rig: LeaderRig) -> None:
    sent = rig.produce(1)
    rig.change(leader=1)
    assert not sent.done
    rig.follow(2, 1)
    assert only(sent).error_code == 0
