"""Fetches of other brokers: what the leader learns from them, and what it must not believe."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import fetch
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.metadata_log.registrations import RegisterBrokerRecord
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id

REGISTERED = 5
"""The epoch under which `HandlerRig.broker_record` registers a broker."""


def ask(
    rig: HandlerRig,
    offset: int,
    *,
    replica: int = 2,
    broker_epoch: int = REGISTERED,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    **options: Any,
) -> Any:
    wanted = FetchRequest.FetchPartition(0, leader_epoch, offset, last_epoch, 0, 1 << 20)
    topics = [FetchRequest.FetchTopic("t", topic_id(1), [wanted])] if offset >= 0 else []
    state = FetchRequest.ReplicaState(replica, broker_epoch)
    request = FetchRequest(replica_state=state, topics=topics, **({"max_wait_ms": 0} | options))
    return fetch.handle(rig.services, rig.context(1, 17), request)


def only(answer: Any) -> FetchResponse.PartitionData:
    ((data,),) = [topic.partitions for topic in now(answer).responses]
    return data  # type: ignore[no-any-return]


@pytest.fixture
def rig() -> HandlerRig:
    """Broker 1 leads in epoch 2; it wrote the offsets 0 to 3 in epoch 0 and 4 to 7 in epoch 2."""
    made = HandlerRig()
    made.apply(made.broker_record(2), made.broker_record(3))
    made.topic("t", replicas=(1, 2, 3), isr=(1, 2))
    made.write("t", count=4)
    for _ in range(2):
        made.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=1))
    made.write("t", count=4)
    assert made.log("t").high_watermark == 0
    return made


def test_a_follower_moves_the_high_watermark(rig: HandlerRig) -> None:
    assert only(ask(rig, 6, leader_epoch=2, last_epoch=2)).error_code == ErrorCode.NONE
    assert rig.log("t").high_watermark == 6


def test_a_diverging_follower_does_not(rig: HandlerRig) -> None:
    """It has six records, of which the last two are not the leader's."""
    data = only(ask(rig, 6, leader_epoch=2, last_epoch=1))
    assert (data.error_code, data.diverging_epoch) == (0, FetchResponse.EpochEndOffset(0, 4))
    assert rig.log("t").high_watermark == 0
    assert only(ask(rig, 4, leader_epoch=2, last_epoch=0)).diverging_epoch is None
    assert rig.log("t").high_watermark == 4


@pytest.mark.parametrize(
    ("leader_epoch", "error"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_follower_in_another_leader_epoch_does_not(
    rig: HandlerRig, leader_epoch: int, error: ErrorCode
) -> None:
    assert only(ask(rig, 6, leader_epoch=leader_epoch)).error_code == error
    assert rig.log("t").high_watermark == 0


def test_a_follower_with_nothing_to_cut_is_told_the_high_watermark_after_all(rig: HandlerRig) -> None:
    """It led in epoch 3 and wrote nothing. It takes nothing of an answer that tells it where to cut."""
    for _ in range(2):
        rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=1))
    ask(rig, 8, leader_epoch=4, last_epoch=2)
    assert rig.log("t").high_watermark == 8
    opened = now(ask(rig, 8, replica=3, leader_epoch=4, last_epoch=3, session_epoch=0))
    assert only(opened).diverging_epoch == FetchResponse.EpochEndOffset(2, 8)
    told = ask(rig, 8, replica=3, leader_epoch=4, last_epoch=2, session_id=opened.session_id, session_epoch=1)
    assert (only(told).diverging_epoch, only(told).high_watermark) == (None, 8)


@pytest.mark.parametrize("offset", [9, 1 << 40])
def test_a_follower_beyond_the_end_does_not(rig: HandlerRig, offset: int) -> None:
    assert only(ask(rig, offset, leader_epoch=2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert rig.log("t").high_watermark == 0


def test_an_earlier_life_of_a_follower_does_not(rig: HandlerRig) -> None:
    """A fetch that was under way when its broker restarted says nothing of what the broker has now."""
    record = rig.broker_record(2)
    rig.apply(RegisterBrokerRecord(broker_id=2, broker_epoch=7, end_points=record.end_points))
    assert only(ask(rig, 6, broker_epoch=6)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.log("t").high_watermark == 0
    assert only(ask(rig, 6, broker_epoch=7)).error_code == ErrorCode.NONE
    assert rig.log("t").high_watermark == 6


def test_a_life_that_was_seen_already_fences_earlier_ones(rig: HandlerRig) -> None:
    """The follower's new registration is not in this broker's image yet."""
    assert only(ask(rig, 5, broker_epoch=9)).error_code == ErrorCode.NONE
    assert only(ask(rig, 6, broker_epoch=8)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.log("t").high_watermark == 5


def test_a_follower_outside_the_isr_is_known_and_does_not_count(rig: HandlerRig) -> None:
    rig.clock.move(1000)
    ask(rig, 8, replica=3)
    assert rig.log("t").high_watermark == 0
    state = rig.replicas.by_name["t", 0].state.replicas[3]  # type: ignore[union-attr]
    assert (state.log_end_offset, state.log_start_offset, state.broker_epoch) == (8, 0, REGISTERED)
    assert state.last_caught_up_time_ms == rig.clock.monotonic_ms()


def test_a_long_poll_tells_when_the_follower_asked_and_not_when_it_was_answered(rig: HandlerRig) -> None:
    asked_ms = rig.clock.monotonic_ms()
    poll = ask(rig, 8, max_wait_ms=500, min_bytes=1)
    assert isinstance(poll, Pending)
    rig.write("t")
    rig.timers.advance(500)
    assert only(poll).records
    state = rig.replicas.by_name["t", 0].state.replicas[2]  # type: ignore[union-attr]
    assert (state.last_fetch_time_ms, state.last_caught_up_time_ms) == (asked_ms, asked_ms)
    assert state.last_fetch_leader_log_end_offset == 8


def test_a_session_asks_for_what_it_does_not_name_too(rig: HandlerRig) -> None:
    """A follower at the log's end names nothing while nothing happens. It has caught up all the same, as long
    as its requests come."""
    opened = now(ask(rig, 8, session_epoch=0))
    again = {"session_id": opened.session_id}
    now(ask(rig, 8, session_epoch=1, **again))
    session = rig.sessions.get(opened.session_id)
    assert session is not None
    assert not session.active
    rig.clock.move(60_000)
    assert now(ask(rig, -1, session_epoch=2, **again)).responses == []
    state = rig.replicas.by_name["t", 0].state.replicas[2]  # type: ignore[union-attr]
    assert state.last_caught_up_time_ms == rig.clock.monotonic_ms()
    stale = ask(rig, -1, session_epoch=3, broker_epoch=REGISTERED - 1, **again)
    assert only(stale).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_a_follower_does_not_name_is_noted_once_a_second(rig: HandlerRig) -> None:
    """While records come it fetches hundreds of times a second, and its session may hold thousands of
    partitions."""
    opened = now(ask(rig, 8, session_epoch=0))
    again = {"session_id": opened.session_id}
    now(ask(rig, 8, session_epoch=1, **again))
    state = rig.replicas.by_name["t", 0].state.replicas[2]  # type: ignore[union-attr]
    began_ms = rig.clock.monotonic_ms()
    noted = []
    for epoch in range(2, 12):
        rig.clock.move(250)
        assert now(ask(rig, -1, session_epoch=epoch, **again)).responses == []
        noted.append(state.last_caught_up_time_ms - began_ms)
    assert noted == [0, 0, 0, 1_000, 1_000, 1_000, 1_000, 2_000, 2_000, 2_000]


def test_a_replica_asks_to_join_as_soon_as_its_broker_may(rig: HandlerRig) -> None:
    """Its broker is fenced when it has caught up, and unfenced a moment later."""
    opened = now(ask(rig, 8, replica=3, session_epoch=0))
    again = {"session_id": opened.session_id, "replica": 3}
    now(ask(rig, 8, session_epoch=1, **again))
    state = rig.replicas.by_name["t", 0].state.replicas[3]  # type: ignore[union-attr]
    rig.clock.move(10)
    asked_ms = rig.clock.monotonic_ms()
    rig.apply(rig.broker_record(3))
    assert now(ask(rig, -1, session_epoch=2, **again)).responses == []
    assert state.last_fetch_time_ms == asked_ms


def test_who_may_not_read_as_a_broker_says_nothing_of_a_follower(rig: HandlerRig) -> None:
    opened = now(ask(rig, 8, session_epoch=0))
    again = {"session_id": opened.session_id}
    now(ask(rig, 8, session_epoch=1, **again))
    told_ms = rig.clock.monotonic_ms()
    rig.deny(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    rig.clock.move(60_000)
    assert now(ask(rig, -1, session_epoch=2, **again)).responses == []
    state = rig.replicas.by_name["t", 0].state.replicas[2]  # type: ignore[union-attr]
    assert state.last_caught_up_time_ms == told_ms


@pytest.mark.parametrize(("opener", "other"), [(-1, 2), (2, -1)])
def test_a_consumer_and_a_follower_share_no_session(rig: HandlerRig, opener: int, other: int) -> None:
    """Else what a consumer has read would count as copied."""
    opened = now(ask(rig, 8 if opener == 2 else 0, replica=opener, session_epoch=0))
    again = {"session_id": opened.session_id, "session_epoch": 1}
    assert now(ask(rig, -1, replica=other, **again)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert now(ask(rig, -1, replica=opener, **again)).error_code == ErrorCode.NONE


# Waiting.


def test_a_waiting_follower_is_answered_by_the_append_and_not_by_its_commit(rig: HandlerRig) -> None:
    """acks=all waits for the follower; if the follower waited for the high watermark, both would wait."""
    poll = ask(rig, 8, max_wait_ms=500, min_bytes=1)
    consumer = fetch.handle(
        rig.services,
        rig.context(1, 17),
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[FetchRequest.FetchTopic("t", topic_id(1), [FetchRequest.FetchPartition(0, -1, 8)])],
        ),
    )
    rig.write("t")
    rig.timers.run_soon()
    assert only(poll).records
    assert isinstance(consumer, Pending)
    assert not consumer.done, "a consumer waits until the record is replicated"
    ask(rig, 9)
    rig.timers.run_soon()
    assert only(consumer).records


def test_a_follower_alone_outside_the_isr_is_answered_by_the_append_too(rig: HandlerRig) -> None:
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), isr=[1]))
    assert rig.log("t").high_watermark == 8
    poll = ask(rig, 8, replica=3, max_wait_ms=500, min_bytes=1)
    rig.write("t")
    rig.timers.run_soon()
    assert only(poll).records


def test_a_new_high_watermark_does_not_end_the_wait_and_is_told_with_the_next_request(
    rig: HandlerRig,
) -> None:
    opened = now(ask(rig, 8, replica=3, session_epoch=0))
    again = {"session_id": opened.session_id, "replica": 3}
    poll = ask(rig, -1, session_epoch=1, max_wait_ms=500, min_bytes=1, **again)
    ask(rig, 8)
    rig.timers.run_soon()
    assert isinstance(poll, Pending)
    assert not poll.done
    rig.timers.advance(500)
    assert only(poll).high_watermark == 8
    assert now(ask(rig, -1, session_epoch=2, **again)).responses == []
    rig.write("t")
    assert only(ask(rig, -1, session_epoch=3, **again)).records


@pytest.mark.parametrize(
    ("leader_epoch", "error"), [(2, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_broker_that_is_no_replica_is_not_served(
    rig: HandlerRig, leader_epoch: int, error: ErrorCode
) -> None:
    """It may be one of a reassignment that this broker does not know of yet, so it shall try again."""
    assert only(ask(rig, 4, replica=4, leader_epoch=leader_epoch)).error_code == error
    diverging = ask(rig, 6, replica=4, leader_epoch=leader_epoch, last_epoch=1)
    assert only(diverging).error_code == error
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), replicas=[1, 2, 3, 4]))
    assert only(ask(rig, 4, replica=4, leader_epoch=leader_epoch)).error_code == ErrorCode.NONE


def test_a_follower_is_told_who_leads_and_not_where(rig: HandlerRig) -> None:
    """Consumers are told both (KIP-951)."""
    wrong = now(ask(rig, 4, leader_epoch=0))
    assert only(wrong).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert only(wrong).current_leader == FetchResponse.LeaderIdAndEpoch(1, 2)
    assert wrong.node_endpoints == []
    to_consumer = now(ask(rig, 4, leader_epoch=0, replica=-1))
    assert [each.node_id for each in to_consumer.node_endpoints] == [1]


def test_a_replica_that_was_taken_away_while_it_waited_is_not_served(rig: HandlerRig) -> None:
    poll = ask(rig, 8, replica=3, leader_epoch=2, max_wait_ms=500, min_bytes=1)
    assert isinstance(poll, Pending)
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), replicas=[1, 2]))
    rig.write("t")
    rig.timers.advance(500)
    assert only(poll).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_fetch_that_moves_the_high_watermark_tells_it_when_its_wait_is_over(rig: HandlerRig) -> None:
    """The follower acknowledged the last record with it, so nothing else may happen for a long time."""

    def request(offset: int, session_id: int, session_epoch: int) -> FetchRequest:
        wanted = FetchRequest.FetchPartition(0, 2, offset, -1, 0, 1 << 20)
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(2, REGISTERED),
            topics=[FetchRequest.FetchTopic("t", topic_id(1), [wanted])],
            session_id=session_id,
            session_epoch=session_epoch,
            max_wait_ms=500,
            min_bytes=1,
        )

    first = now(fetch.handle(rig.services, rig.context(1, 17), request(0, 0, 0)))
    assert only(first).high_watermark == 0
    poll = fetch.handle(rig.services, rig.context(1, 17), request(8, first.session_id, 1))
    assert isinstance(poll, Pending)
    assert rig.log("t").high_watermark == 8
    rig.timers.advance(500)
    assert only(poll).high_watermark == 8


def test_the_fetch_that_moves_a_high_watermark_and_is_answered_for_another_partition_leaves_it_to_be_told(
    rig: HandlerRig,
) -> None:
    """The records of another partition answer it at once, with the high watermark before it."""
    rig.topic("u", number=2, replicas=(1, 2), isr=(1, 2))
    rig.write("u", count=3)
    session = 0

    def told(session_epoch: int, **offsets: int) -> dict[int, int]:
        nonlocal session
        topics = [
            FetchRequest.FetchTopic(
                name,
                topic_id("tu".index(name) + 1),
                [FetchRequest.FetchPartition(0, -1, offset, -1, 0, 9999)],
            )
            for name, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(2, REGISTERED),
            topics=topics,
            session_id=session,
            session_epoch=session_epoch,
        )
        answer = now(fetch.handle(rig.services, rig.context(1, 17), request))
        session = answer.session_id
        return {topic.topic_id[-1]: topic.partitions[0].high_watermark for topic in answer.responses}

    assert told(0, t=0, u=0) == {1: 0, 2: 0}
    assert told(1, t=8) == {2: 0}, "the records of u, told again"
    assert rig.log("t").high_watermark == 8
    assert told(2, u=3) == {1: 8}
    assert rig.log("u").high_watermark == 3
    assert told(3) == {2: 3}
