"""A consumer that names its rack is sent to a replica near it, and reads there (KIP-392)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import fetch
from broker.replication.replica_selector import RackAwareReplicaSelector, replica_selector
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import now, topic_id
from tests.support.rigs.leader_rig import TOPIC, LeaderRig

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def only(answer: Any) -> FetchResponse.PartitionData:
    ((data,),) = [topic.partitions for topic in now(answer).responses]
    return data  # type: ignore[no-any-return]


def leader(selector: str = RACK_AWARE) -> LeaderRig:
    """Broker 1 in rack a leads; 2 and 3 are in rack b, 4 in rack c is out of sync. Ten records."""
    rig = LeaderRig(replica_selector_class=selector)
    rig.lead((1, 2, 3, 4), (1, 2, 3))
    rig.register(1, rack="a")
    rig.register(2, 3, rack="b")
    rig.register(4, rack="c")
    rig.produce(10, acks=1)
    for replica, offset in ((2, 10), (3, 10), (2, 10)):
        rig.clock.move(1)
        rig.follow(replica, offset)
    return rig


@pytest.fixture
def rig() -> LeaderRig:
    return leader()


def test_a_consumer_is_sent_to_its_rack_and_gets_no_records(rig: LeaderRig) -> None:
    data = only(rig.fetch(4, rack="b"))
    assert (data.error_code, data.preferred_read_replica, data.records) == (0, 2, b"")
    assert (data.high_watermark, data.log_start_offset) == (10, 0)


def test_it_is_sent_at_once_however_long_it_would_wait(rig: LeaderRig) -> None:
    assert not isinstance(rig.fetch(10, rack="b", max_wait_ms=500), Pending)


@pytest.mark.parametrize("rack", ["", "a", "c", "nowhere"])
def test_the_leader_serves_its_own_rack_and_those_without_a_replica_in_sync(
    rig: LeaderRig, rack: str
) -> None:
    data = only(rig.fetch(4, rack=rack))
    assert data.preferred_read_replica == -1
    assert data.records


def test_without_a_selector_the_leader_serves_everybody() -> None:
    data = only(leader("org.apache.kafka.common.replica.LeaderSelector").fetch(4, rack="b"))
    assert (data.preferred_read_replica, bool(data.records)) == (-1, True)


def test_of_two_the_one_that_is_further_is_chosen_and_then_the_one_that_was_caught_up_last(
    rig: LeaderRig,
) -> None:
    assert only(rig.fetch(4, rack="b")).preferred_read_replica == 2
    rig.produce(1, acks=1)
    rig.follow(3, 11)
    assert only(rig.fetch(4, rack="b")).preferred_read_replica == 3


def test_a_replica_that_lacks_the_offset_is_not_chosen(rig: LeaderRig) -> None:
    rig.produce(1, acks=1)
    assert only(rig.fetch(11, rack="b")).preferred_read_replica == -1
    for replica in (2, 3):
        rig.follow(replica, 11, log_start=5)
    assert only(rig.fetch(4, rack="b")).preferred_read_replica == -1
    assert only(rig.fetch(5, rack="b")).preferred_read_replica == 3


def test_a_broker_that_is_fenced_is_not_chosen(rig: LeaderRig) -> None:
    rig.register(2, rack="b", fenced=True)
    assert only(rig.fetch(4, rack="b")).preferred_read_replica == 3


def test_a_consumer_with_an_old_picture_is_told_that_first(rig: LeaderRig) -> None:
    rig.change(leader=1)
    for replica in (2, 3):
        rig.follow(replica, 10)
    assert only(rig.fetch(4, rack="b", leader_epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_session_tells_it_again_each_time(rig: LeaderRig) -> None:
    wanted = FetchRequest.FetchPartition(0, -1, 4, -1, 0, 1 << 20)
    topic = FetchRequest.FetchTopic(TOPIC, topic_id(1), [wanted])
    first = now(
        fetch.handle(
            rig.services, rig.context(1, 17), FetchRequest(topics=[topic], rack_id="b", session_epoch=0)
        )
    )
    assert only(first).preferred_read_replica == 2
    again = FetchRequest(rack_id="b", session_id=first.session_id, session_epoch=1)
    assert only(fetch.handle(rig.services, rig.context(1, 17), again)).preferred_read_replica == 2


def test_a_follower_serves_up_to_its_own_high_watermark() -> None:
    rig = LeaderRig(replica_selector_class=RACK_AWARE)
    rig.lead((1, 2), (1, 2))
    rig.produce(6, acks=1)
    rig.produce(4, acks=1)
    rig.follow(2, 6)
    rig.change(leader=2)
    data = only(rig.fetch(4, rack="b"))
    assert (data.error_code, data.preferred_read_replica, data.high_watermark) == (0, -1, 6)
    assert data.records
    assert only(rig.fetch(6, rack="b")).records == b""


def test_only_kafkas_own_selectors_are_known(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(replica_selector(RACK_AWARE), RackAwareReplicaSelector)
    assert replica_selector(None) is None
    assert not caplog.records
    assert replica_selector("com.example.Nearest") is None
    assert "replica.selector.class=com.example.Nearest is a Java class" in caplog.text
