"""The partitions of coordinators, as these write them and read them back."""

from __future__ import annotations

import pytest

from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.result import CoordinatorRecord
from broker.handlers import fetch
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.records.control import TransactionMarker, build_marker_batch
from storage.append import AppendResult
from storage.errors import AppendRefused
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.support.rigs.transactions import confirm

TOPIC = "__consumer_offsets"


@pytest.fixture
def rig() -> HandlerRig:
    """Broker 1 leads, broker 2 is in sync."""
    made = HandlerRig()
    made.apply(made.broker_record(2))
    made.topic(TOPIC, replicas=(1, 2))
    return made


def append(rig: HandlerRig) -> list[AppendResult | AppendRefused]:
    results: list[AppendResult | AppendRefused] = []
    batch = coordinator_batch([CoordinatorRecord(b"key", b"value")], timestamp_ms=1)
    rig.coordinator_log.append_internal(TOPIC, 0, batch, results.append)
    return results


def follower_has(rig: HandlerRig, offset: int) -> None:
    wanted = FetchRequest.FetchPartition(0, -1, offset, -1, 0, 1 << 20)
    topics = [FetchRequest.FetchTopic(TOPIC, topic_id(1), [wanted])]
    request = FetchRequest(replica_state=FetchRequest.ReplicaState(2, 5), topics=topics, max_wait_ms=0)
    fetch.handle(rig.services, rig.context(1, 17), request)


def test_a_write_is_answered_when_the_high_watermark_has_passed_it(rig: HandlerRig) -> None:
    results = append(rig)
    assert results == []
    follower_has(rig, 1)
    assert [type(each) for each in results] == [AppendResult]


def test_a_marker_of_the_open_transaction_s_own_epoch_is_only_for_older_producers(rig: HandlerRig) -> None:
    told: list[ErrorCode] = []

    def hear(outcome: AppendResult | AppendRefused) -> None:
        told.append(outcome.error_code if isinstance(outcome, AppendRefused) else ErrorCode.NONE)

    record = CoordinatorRecord(b"key", b"value")
    batch = coordinator_batch([record], timestamp_ms=1, producer_id=7, producer_epoch=0)
    marker = build_marker_batch(TransactionMarker(True, 0), timestamp_ms=1, producer_id=7, producer_epoch=0)
    confirm(rig.log(TOPIC), 7)
    rig.coordinator_log.append_internal(TOPIC, 0, batch, hear)
    for version in (2, 1):
        rig.coordinator_log.append_internal(TOPIC, 0, bytes(marker), hear, version)
    follower_has(rig, 2)
    assert told == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE, ErrorCode.NONE]


def test_the_log_is_read_to_its_end_and_awaited_to_the_high_watermark(rig: HandlerRig) -> None:
    append(rig)
    assert rig.coordinator_log.read_batches(TOPIC, 0, 0, 1 << 20)
    told: list[ErrorCode] = []
    rig.coordinator_log.await_committed(TOPIC, 0, told.append)
    assert told == []
    follower_has(rig, 1)
    assert told == [ErrorCode.NONE]
    rig.coordinator_log.await_committed(TOPIC, 0, told.append)
    assert told == [ErrorCode.NONE] * 2


def test_whoever_waits_is_told_when_the_broker_leads_no_longer(rig: HandlerRig) -> None:
    results = append(rig)
    told: list[ErrorCode] = []
    rig.coordinator_log.await_committed(TOPIC, 0, told.append)
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=2))
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    (refused,) = results
    assert isinstance(refused, AppendRefused)
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.coordinator_log.await_committed("nowhere", 0, told.append)
    assert told[1] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
