"""The leader's side of KIP-73: what a throttled follower outside the ISR gets while the rate is exceeded."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import fetch
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id

IN_SYNC, OUTSIDE = 2, 3
WINDOWS_MS = 11_000


def ask(rig: HandlerRig, replica: int, *indexes: int, offset: int = 0, **options: Any) -> Any:
    """A follower of broker 1 asks for these partitions of topic t."""
    wanted = [FetchRequest.FetchPartition(index, -1, offset, -1, 0, 1 << 20) for index in indexes]
    topics = [FetchRequest.FetchTopic("t", topic_id(1), wanted)] if wanted else []
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica, 5),
        topics=topics,
        **({"max_wait_ms": 0, "session_epoch": -1} | options),
    )
    return fetch.handle(rig.services, rig.context(1, 17), request)


def given(answer: Any) -> dict[int, bool]:
    """By partition of the answer, whether it brings records."""
    response: FetchResponse = now(answer)
    partitions = [data for topic in response.responses for data in topic.partitions]
    assert not any(data.error_code for data in partitions)
    return {data.partition_index: bool(data.records) for data in partitions}


@pytest.fixture
def rig() -> HandlerRig:
    """Partition 0 is throttled at one byte a second, 1 is not; a first fetch has used the rate up."""
    made = HandlerRig()
    made.apply(made.broker_record(IN_SYNC), made.broker_record(OUTSIDE))
    made.topic("t", partitions=2, replicas=(1, IN_SYNC, OUTSIDE), isr=(1, IN_SYNC))
    for index in range(2):
        made.write("t", index, count=4)
    made.fetches.replication.quota.throttle("t", frozenset({0}))
    made.fetches.replication.quota.limit(1)
    assert given(ask(made, OUTSIDE, 0)) == {0: True}
    return made


def test_a_throttled_replica_outside_the_isr_gets_nothing_for_now(rig: HandlerRig) -> None:
    assert given(ask(rig, OUTSIDE, 0, 1)) == {0: False, 1: True}
    rig.clock.move(WINDOWS_MS)
    assert given(ask(rig, OUTSIDE, 0, 1)) == {0: True, 1: True}


def test_a_replica_in_the_isr_is_never_held_back(rig: HandlerRig) -> None:
    assert given(ask(rig, IN_SYNC, 0, 1)) == {0: True, 1: True}


def test_a_consumer_is_never_held_back(rig: HandlerRig) -> None:
    for replica in (IN_SYNC, OUTSIDE):
        ask(rig, replica, 0, offset=4)
    assert given(ask(rig, -1, 0)) == {0: True}


def test_only_what_replicas_read_of_throttled_partitions_is_counted(rig: HandlerRig) -> None:
    def counted() -> float:
        return rig.fetches.replication.quota.rate(rig.clock.monotonic_ms())

    before = counted()
    assert before > 1
    ask(rig, OUTSIDE, 0, 1)
    ask(rig, IN_SYNC, 1)
    ask(rig, -1, 0)
    assert counted() == before
    ask(rig, IN_SYNC, 0)
    assert counted() == 2 * before


def test_what_is_appended_does_not_wake_a_fetch_that_may_not_have_it(rig: HandlerRig) -> None:
    poll = ask(rig, OUTSIDE, 0, max_wait_ms=500, min_bytes=1)
    assert isinstance(poll, Pending)
    rig.write("t", 0)
    rig.timers.run_soon()
    assert not poll.done
    rig.timers.advance(500)
    assert given(poll) == {0: False}


def test_what_is_held_back_is_given_to_a_session_without_being_asked_for_again(rig: HandlerRig) -> None:
    """Also where the follower has all that is committed: no later append need come to remind of the rest."""
    ask(rig, OUTSIDE, 0, offset=2)
    assert rig.log("t").high_watermark == 0
    first = now(ask(rig, OUTSIDE, 0, offset=2, session_epoch=0))
    assert given(first) == {0: False}
    session = {"session_id": first.session_id}
    assert given(ask(rig, OUTSIDE, session_epoch=1, **session)) == {}
    rig.clock.move(WINDOWS_MS)
    assert given(ask(rig, OUTSIDE, session_epoch=2, **session)) == {0: True}


def test_what_did_not_fit_is_given_to_a_session_without_being_asked_for_again() -> None:
    """A follower is ahead of the high watermark in every partition that it keeps up with."""
    rig = HandlerRig()
    rig.apply(rig.broker_record(IN_SYNC), rig.broker_record(OUTSIDE))
    rig.topic("t", partitions=2, replicas=(1, IN_SYNC, OUTSIDE), isr=(1, IN_SYNC, OUTSIDE))
    for index in range(2):
        rig.write("t", index)
    small = {"max_bytes": 1}
    first = now(ask(rig, IN_SYNC, 0, 1, session_epoch=0, **small))
    assert given(first) == {0: True, 1: False}
    again = ask(rig, IN_SYNC, session_id=first.session_id, session_epoch=1, **small)
    assert given(again)[1]
