"""ListOffsets and OffsetForLeaderEpoch: the ends of a log, times in it, and where epochs end."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import list_offsets, offset_for_leader_epoch
from protocol.codec.compiler import decode, encode
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.records.compression import ZSTD
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from tests.support.rigs.hand_clock import HandClock
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id
from tests.support.rigs.transactions import confirm
from tests.support.samples import bad_batches as bad

Asked = ListOffsetsRequest.ListOffsetsPartition
Told = ListOffsetsResponse.ListOffsetsPartitionResponse
T0 = 1_600_000_000_000


@pytest.fixture
def rig() -> HandlerRig:
    """t-0 holds offsets 0-1 (at T0), 2-3 (at T0 + 500) and 4 (at T0 + 200); its log begins at 1."""
    made = HandlerRig()
    made.topic("t", 2)
    made.write("t", count=2, timestamp=T0)
    made.write("t", count=2, timestamp=T0 + 500)
    made.write("t", count=1, timestamp=T0 + 200)
    made.log("t").increase_log_start(1)
    return made


def ask(
    rig: HandlerRig,
    timestamp: int,
    *,
    topic: str = "t",
    index: int = 0,
    version: int = 11,
    epoch: int = -1,
    replica_id: int = -1,
    isolation_level: int = 0,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        replica_id,
        isolation_level,
        [ListOffsetsRequest.ListOffsetsTopic(topic, [Asked(index, epoch, timestamp)])],
    )
    response = now(list_offsets.handle(rig.services, rig.context(2, version), request))
    (told,) = response.topics
    (partition,) = told.partitions
    assert isinstance(partition, Told)
    return partition


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, Told(0, 0, -1, 5, 0)),
        (-2, Told(0, 0, -1, 1, 0)),
        (-3, Told(0, 0, T0 + 500, 2, 0)),
        (-4, Told(0, 0, -1, 1, 0)),
        (-5, Told(0, 0, -1, -1, -1)),
        (-6, Told(0, 0, -1, -1, -1)),
        (0, Told(0, 0, T0, 1, 0)),
        (T0, Told(0, 0, T0, 1, 0)),
        (T0 + 1, Told(0, 0, T0 + 500, 2, 0)),
        (T0 + 500, Told(0, 0, T0 + 500, 2, 0)),
        (T0 + 501, Told(0, 0, -1, -1, -1)),
    ],
)
def test_offsets_by_time_and_by_special_number(rig: HandlerRig, timestamp: int, expected: Told) -> None:
    assert ask(rig, timestamp) == expected


def test_an_empty_log(rig: HandlerRig) -> None:
    assert ask(rig, -1, index=1) == Told(1, 0, -1, 0, 0)
    assert ask(rig, -3, index=1) == Told(1)
    assert ask(rig, T0, index=1) == Told(1)


@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)]
)
def test_special_numbers_have_their_versions(rig: HandlerRig, timestamp: int, first_version: int) -> None:
    for version in range(1, 12):
        refused = ask(rig, timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert refused == (version < first_version)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_can_be_sent_and_read(rig: HandlerRig, version: int) -> None:
    request = ListOffsetsRequest(
        -1, topics=[ListOffsetsRequest.ListOffsetsTopic("t", [Asked(0, -1, -1), Asked(9, -1, -1)])]
    )
    received = decode(ListOffsetsRequest, version, encode(request, version))
    response = now(list_offsets.handle(rig.services, rig.context(2, version), received))
    told = decode(ListOffsetsResponse, version, encode(response, version)).topics[0].partitions
    assert [(p.error_code, p.offset) for p in told] == [(0, 5), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert told[0].leader_epoch == (0 if version >= 4 else -1)


def test_consumers_see_the_high_watermark_and_replicas_the_end() -> None:
    rig = HandlerRig()
    rig.topic("t", replicas=(1, 2))
    rig.write("t", count=4, timestamp=T0)
    rig.replicas.by_name["t", 0].follower_fetched(2, 3, now_ms=0)
    assert ask(rig, -1).offset == 3
    assert ask(rig, -1, isolation_level=1).offset == 3
    assert ask(rig, -1, replica_id=2).offset == 4
    assert ask(rig, T0).offset == 0
    rig.write("t", timestamp=T0 + 9)
    assert ask(rig, T0 + 9) == Told(0), "found, but nobody may read it yet"
    assert ask(rig, -3) == Told(0), "nor may they the record with the largest timestamp"
    for replica_id in (2, -2):
        assert ask(rig, -1, replica_id=replica_id).offset == 5
        assert ask(rig, T0 + 9, replica_id=replica_id) == Told(0, 0, T0 + 9, 4, 0)
        assert ask(rig, -3, replica_id=replica_id) == Told(0, 0, T0 + 9, 4, 0)


def test_of_an_open_transaction_nothing_is_found_by_who_reads_what_is_committed(rig: HandlerRig) -> None:
    confirm(rig.log("t"), 7)
    begins = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    rig.write("t", count=1, timestamp=T0 + 900, **begins)
    assert rig.log("t").last_stable_offset == 5
    assert ask(rig, -3) == Told(0, 0, T0 + 900, 5, 0)
    for timestamp in (-3, T0 + 900):
        assert ask(rig, timestamp, isolation_level=1) == Told(0)
        assert ask(rig, timestamp, isolation_level=1, replica_id=-2) == Told(0, 0, T0 + 900, 5, 0)


def test_a_new_leader_knows_its_end_when_its_followers_have_caught_up() -> None:
    rig = HandlerRig()
    made = rig.topic("t", replicas=(1, 2), leader=2)
    log = rig.log("t")
    log.append_as_leader(rig.batch(3, timestamp=T0), leader_epoch=0, now_ms=rig.clock.wall_ms())
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=1))
    for timestamp, since in ((-1, 1), (-3, 7), (T0, 1), (T0 + 1, 1)):
        assert ask(rig, timestamp) == Told(0, ErrorCode.OFFSET_NOT_AVAILABLE)
        if since <= 4:
            assert ask(rig, timestamp, version=4) == Told(0, ErrorCode.LEADER_NOT_AVAILABLE)
        assert ask(rig, timestamp, replica_id=2).error_code == ErrorCode.NONE
        assert ask(rig, timestamp, replica_id=-2).error_code == ErrorCode.NONE
    assert ask(rig, -2).error_code == ErrorCode.NONE
    rig.replicas.by_name["t", 0].follower_fetched(2, 3, now_ms=0)
    assert ask(rig, -1) == Told(0, 0, -1, 3, 1)
    assert ask(rig, -3) == Told(0, 0, T0, 0, 0)
    assert ask(rig, T0 + 1) == Told(0)


def test_refusals(rig: HandlerRig) -> None:
    rig.apply(rig.broker_record(2))
    rig.topic("f", number=2, replicas=(1, 2), leader=2, leader_epoch=3)
    rig.topic("far", number=3, replicas=(2,), leader=2)
    assert ask(rig, -1, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(rig, -1, topic="f", epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(rig, -1, topic="f").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(rig, -1, topic="f", replica_id=-2).error_code == ErrorCode.NONE
    assert ask(rig, -1, topic="far").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(rig, -1, topic="nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.deny(Operation.DESCRIBE, ResourceType.TOPIC)
    assert ask(rig, -1) == Told(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert ask(rig, -1, topic="nobody") == Told(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_only_minus_one_is_no_leader_epoch(rig: HandlerRig) -> None:
    assert ask(rig, -1, epoch=-1).error_code == ErrorCode.NONE
    for epoch in (-2, -3, -(1 << 31)):
        assert ask(rig, -1, epoch=epoch) == Told(0, ErrorCode.FENCED_LEADER_EPOCH)


@pytest.mark.parametrize("timestamp", [-1, -2, -3, T0])
@pytest.mark.parametrize("isolation_level", [-1, 2, 7])
def test_an_isolation_level_that_does_not_exist(
    rig: HandlerRig, isolation_level: int, timestamp: int
) -> None:
    for version in (2, 11):
        told = ask(rig, timestamp, isolation_level=isolation_level, version=version)
        assert told == Told(0, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert ask(rig, timestamp, isolation_level=1).error_code == ErrorCode.NONE


def test_a_partition_that_is_asked_for_twice_is_refused_twice(rig: HandlerRig) -> None:
    request = ListOffsetsRequest(
        -1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic("t", [Asked(0, -1, -1), Asked(1, -1, -1), Asked(0, -1, -2)])
        ],
    )
    response = now(list_offsets.handle(rig.services, rig.context(2, 7), request))
    codes = [partition.error_code for partition in response.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


def epoch_ends(
    rig: HandlerRig, leader_epoch: int, *, topic: str = "t", current: int = -1, version: int = 4
) -> Any:
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic, [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, current, leader_epoch)]
            )
        ]
    )
    received = decode(OffsetForLeaderEpochRequest, version, encode(request, version))
    response = offset_for_leader_epoch.handle(rig.services, rig.context(23, version), received)
    told = decode(OffsetForLeaderEpochResponse, version, encode(response, version))
    (partition,) = told.topics[0].partitions
    return ErrorCode(partition.error_code), partition.leader_epoch, partition.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_an_epoch_ends(version: int) -> None:
    rig = HandlerRig()
    made = rig.topic("t", leader_epoch=2)
    rig.write("t", count=3)
    for _ in range(3):
        rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=1))
    rig.write("t", count=4)
    none = ErrorCode.NONE
    assert epoch_ends(rig, 1, version=version) == (none, 1, 0), "older than all that is known"
    assert epoch_ends(rig, 2, version=version) == (none, 2, 3)
    assert epoch_ends(rig, 4, version=version) == (none, 2, 3)
    assert epoch_ends(rig, 5, version=version) == (none, 5, 7)
    assert epoch_ends(rig, 6, version=version) == (none, -1, -1)
    assert epoch_ends(rig, -1, version=version) == (none, -1, -1)
    assert epoch_ends(rig, 5, current=4, version=version)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_ends(rig, 5, current=6, version=version)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert epoch_ends(rig, 5, current=-2, version=version) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert epoch_ends(rig, 5, topic="nobody", version=version) == unknown


def test_epochs_are_for_consumers_and_for_peers() -> None:
    rig = HandlerRig()
    rig.topic("t")
    rig.deny(Operation.DESCRIBE, ResourceType.TOPIC)
    assert epoch_ends(rig, 0)[0] == ErrorCode.NONE
    rig.deny(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    assert epoch_ends(rig, 0) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1)
    assert topic_id(1) == rig.replicas.by_name["t", 0].topic_id


# What takes long


def crowded(rig: HandlerRig, topic: str = "t") -> None:
    """A batch of many records whose header promises a later one than they hold."""
    log = rig.log(topic)
    batch = bad.lying(bad.crowded(ZSTD, 50_000, at=T0 + 1000), base_offset=log.log_end_offset, leader_epoch=0)
    log.append_as_follower(bytes(batch), rig.clock.wall_ms())
    log.update_high_watermark(log.log_end_offset)


def ask_long(rig: HandlerRig, *timestamps: int) -> Any:
    """Of each partition that time; the clock moves with each look at it, so that it is soon late."""
    rig.lookups._clock = TickingClock(rig.clock)
    asked = [Asked(index, -1, timestamp) for index, timestamp in enumerate(timestamps)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic("t", asked)])
    return list_offsets.handle(rig.services, rig.context(2, 11), request)


class TickingClock(HandClock):
    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self._under = clock

    def monotonic_ns(self) -> int:
        self._under.move(0.5)
        return self._under.monotonic_ns()


def test_a_long_look_up_is_answered_later_with_all_that_was_asked(rig: HandlerRig) -> None:
    crowded(rig)
    pending = ask_long(rig, T0 + 1500, -1)
    assert isinstance(pending, Pending)
    assert not pending.done
    rig.write("t", timestamp=T0 + 1600)
    turns = rig.timers.run_soon()
    assert turns > 10
    response = now(pending)
    assert response.topics[0].partitions == [Told(0, 0, T0 + 1600, 50_005, 0), Told(1, 0, -1, 0, 0)]


def test_who_leads_no_more_when_it_is_found_says_so(rig: HandlerRig) -> None:
    crowded(rig)
    rig.apply(rig.broker_record(2))
    pending = ask_long(rig, T0 + 1500)
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=2, isr=[2]))
    rig.timers.run_soon()
    assert now(pending).topics[0].partitions == [Told(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_topic_that_goes_meanwhile(rig: HandlerRig) -> None:
    crowded(rig)
    pending = ask_long(rig, T0 + 1500)
    rig.log("t").is_abandoned = True
    rig.remove_topic(topic_id(1))
    rig.timers.run_soon()
    assert now(pending).topics[0].partitions == [Told(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_ends_of_thousands_of_partitions_are_no_single_turn(rig: HandlerRig) -> None:
    pending = ask_long(rig, *[-1] * 1000)
    assert isinstance(pending, Pending)
    assert rig.timers.run_soon() > 3
    answers = now(pending).topics[0].partitions
    assert [each.partition_index for each in answers] == list(range(1000))
