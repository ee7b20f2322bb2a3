"""DeleteRecords at a leader: what the log start becomes, what is refused, and how long the answer waits for
followers. The codes are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import delete_records
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import HandlerRig, now

Request = DeleteRecordsRequest
Answer = dict[tuple[str, int], tuple[int, int]]


def ask(rig: HandlerRig, *places: tuple[str, int, int], timeout_ms: int = 5000) -> Any:
    request = Request(timeout_ms=timeout_ms)
    for topic, index, offset in places:
        request.topics.append(
            Request.DeleteRecordsTopic(topic, [Request.DeleteRecordsPartition(index, offset)])
        )
    return delete_records.handle(rig.services, rig.context(ApiKey.DELETE_RECORDS, 2), request)


def told(response: DeleteRecordsResponse) -> Answer:
    """(low watermark, error) by partition."""
    return {
        (topic.name, each.partition_index): (each.low_watermark, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


def delete(rig: HandlerRig, *places: tuple[str, int, int]) -> Answer:
    return told(now(ask(rig, *places)))


@pytest.fixture
def rig() -> HandlerRig:
    """Topic `t` with ten records, which only broker 1 has."""
    rig = HandlerRig()
    rig.topic("t", 2)
    rig.write("t", count=10)
    return rig


def test_the_log_begins_where_it_was_cut(rig: HandlerRig) -> None:
    assert delete(rig, ("t", 0, 4)) == {("t", 0): (4, 0)}
    log = rig.log("t")
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 10, 10)


def test_what_is_gone_already_changes_nothing(rig: HandlerRig) -> None:
    delete(rig, ("t", 0, 4))
    assert delete(rig, ("t", 0, 2)) == {("t", 0): (4, 0)}
    assert rig.log("t").log_start_offset == 4


def test_everything_that_is_replicated(rig: HandlerRig) -> None:
    assert delete(rig, ("t", 0, -1), ("t", 1, -1)) == {("t", 0): (10, 0), ("t", 1): (0, 0)}
    assert rig.write("t") == 10, "offsets go on"


@pytest.mark.parametrize("offset", [11, 2**62, -2, -(2**62)])
def test_an_offset_that_is_not_there(rig: HandlerRig, offset: int) -> None:
    assert delete(rig, ("t", 0, offset)) == {("t", 0): (-1, ErrorCode.OFFSET_OUT_OF_RANGE)}
    assert rig.log("t").log_start_offset == 0


def test_what_is_not_replicated_stays(rig: HandlerRig) -> None:
    rig.topic("r", number=2, replicas=(1, 2))
    rig.write("r", count=5)
    assert delete(rig, ("r", 0, 1)) == {("r", 0): (-1, ErrorCode.OFFSET_OUT_OF_RANGE)}


def test_partitions_that_may_not_or_cannot_be_cut(rig: HandlerRig) -> None:
    rig.topic("compacted", number=2, cleanup_policy="compact")
    rig.topic("both", number=3, cleanup_policy="compact,delete")
    rig.topic("__consumer_offsets", number=4)
    rig.topic("elsewhere", number=5, replicas=(2,), leader=2)
    rig.topic("led", number=6, replicas=(2, 1), leader=2)
    names = ("compacted", "both", "__consumer_offsets", "elsewhere", "led", "nowhere")
    assert delete(rig, *((name, 0, 0) for name in names), ("t", 9, 0)) == {
        ("compacted", 0): (-1, ErrorCode.POLICY_VIOLATION),
        ("both", 0): (0, 0),
        ("__consumer_offsets", 0): (-1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("elsewhere", 0): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("led", 0): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("nowhere", 0): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 9): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }


def test_of_one_partition_named_twice_the_last_counts(rig: HandlerRig) -> None:
    assert delete(rig, ("t", 0, 7), ("t", 0, 3)) == {("t", 0): (3, 0)}


def test_it_needs_delete_on_the_topic(rig: HandlerRig) -> None:
    rig.deny(Operation.DELETE, ResourceType.TOPIC, "t")
    rig.deny(Operation.DELETE, ResourceType.TOPIC, "nowhere")
    denied = (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert delete(rig, ("t", 0, 4), ("nowhere", 0, 0)) == {("t", 0): denied, ("nowhere", 0): denied}
    assert rig.log("t").log_start_offset == 0


# With followers


@pytest.fixture
def led() -> HandlerRig:
    """Topic `r` on brokers 1, 2 and 3; ten records are everywhere, and every log begins at 0."""
    rig = HandlerRig()
    rig.apply(rig.broker_record(2), rig.broker_record(3))
    rig.topic("r", replicas=(1, 2, 3), isr=(1, 2))
    rig.write("r", count=10)
    for follower in (2, 3):
        fetched(rig, follower, 0)
    return rig


def fetched(rig: HandlerRig, follower: int, log_start_offset: int) -> None:
    rig.replicas.by_name["r", 0].follower_fetched(follower, 10, log_start_offset, now_ms=0)


def test_the_answer_waits_until_all_replicas_have_cut(led: HandlerRig) -> None:
    waiting = ask(led, ("r", 0, 6))
    assert isinstance(waiting, Pending)
    assert led.log("r").log_start_offset == 6, "the leader does not wait"
    fetched(led, 2, 6)
    assert waiting.response is None, "3 is not in the ISR, and counts"
    fetched(led, 3, 5)
    assert waiting.response is None
    fetched(led, 3, 6)
    assert waiting.response is not None
    assert told(waiting.response) == {("r", 0): (6, 0)}
    assert led.replicas.by_name["r", 0].deletion_waiters == []


def test_a_follower_that_was_level_before_holds_nobody_up(led: HandlerRig) -> None:
    for follower in (2, 3):
        fetched(led, follower, 6)
    assert delete(led, ("r", 0, 6)) == {("r", 0): (6, 0)}


def test_a_dead_follower_holds_nobody_up(led: HandlerRig) -> None:
    led.apply(led.broker_record(3, fenced=True))
    waiting = ask(led, ("r", 0, 6))
    fetched(led, 2, 6)
    assert told(now(waiting)) == {("r", 0): (6, 0)}


def test_time_ends_the_wait_and_says_how_far_it_came(led: HandlerRig) -> None:
    waiting = ask(led, ("r", 0, 6), timeout_ms=5000)
    fetched(led, 2, 6)
    fetched(led, 3, 4)
    led.timers.advance(4999)
    assert waiting.response is None
    led.timers.advance(1)
    assert told(now(waiting)) == {("r", 0): (4, ErrorCode.REQUEST_TIMED_OUT)}
    assert led.replicas.by_name["r", 0].deletion_waiters == []


def test_without_any_time_nobody_waits(led: HandlerRig) -> None:
    response = now(ask(led, ("r", 0, 6), timeout_ms=0))
    assert told(response) == {("r", 0): (0, ErrorCode.REQUEST_TIMED_OUT)}
    assert led.log("r").log_start_offset == 6


def test_who_leads_no_more_says_so(led: HandlerRig) -> None:
    waiting = ask(led, ("r", 0, 6))
    partition = led.replicas.by_name["r", 0]
    partition.follow_image(
        leader_id=2,
        leader_epoch=1,
        partition_epoch=9,
        replicas=(1, 2, 3),
        isr=(2,),
        min_insync_replicas=1,
        now_ms=0,
    )
    assert told(now(waiting)) == {("r", 0): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}


def test_a_deleted_topic_ends_the_wait(led: HandlerRig) -> None:
    waiting = ask(led, ("r", 0, 6))
    led.remove_topic(led.replicas.by_name["r", 0].topic_id)
    assert told(now(waiting)) == {("r", 0): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}


def test_who_went_away_is_forgotten(led: HandlerRig) -> None:
    waiting = ask(led, ("r", 0, 6))
    waiting.cancel()
    assert led.replicas.by_name["r", 0].deletion_waiters == []
    fetched(led, 2, 6)
    fetched(led, 3, 6)


def test_two_partitions_are_answered_together(led: HandlerRig) -> None:
    led.topic("t", number=9)
    led.write("t", count=3)
    waiting = ask(led, ("r", 0, 6), ("t", 0, 2))
    assert waiting.response is None
    for follower in (2, 3):
        fetched(led, follower, 6)
    assert told(now(waiting)) == {("r", 0): (6, 0), ("t", 0): (2, 0)}
