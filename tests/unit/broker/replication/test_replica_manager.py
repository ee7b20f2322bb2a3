"""The replica manager: hosting what the image says, the coordinators' appends and reads, and disks that
fail."""

from __future__ import annotations

import errno
import gc
import logging

import pytest

from broker.handlers import fetch
from broker.replication.partition import Partition
from broker.replication.replica_manager import LeaderChange
from broker.replication.topic_settings import loading_config
from config.broker_config import BrokerConfig
from config.setting import Setting, Source
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.metadata_log.cluster import ConfigRecord
from protocol.metadata_log.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.records.compression import LZ4
from protocol.records.errors import CorruptRecord
from protocol.records.header import headers
from protocol.serving.pending import Pending
from protocol.values import ZERO_UUID
from storage.append import AppendResult
from storage.errors import AppendRefused
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import HandlerRig, committed, topic_id

DAY_MS = 86_400_000

Result = tuple[ErrorCode, int]


def internal(
    rig: HandlerRig, results: list[Result], count: int = 1, topic: str = "t", size_bytes: int = 10
) -> None:
    rig.coordinator_log.append_internal(
        topic, 0, bytes(rig.batch(count, size_bytes)), lambda outcome: results.append(committed(outcome))
    )


# Following the image.


def test_only_what_is_assigned_here_is_hosted() -> None:
    rig = HandlerRig()
    changes = rig.apply(
        TopicRecord("t", topic_id(1)),
        PartitionRecord(
            partition_id=0, topic_id=topic_id(1), replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0
        ),
        PartitionRecord(
            partition_id=1, topic_id=topic_id(1), replicas=[2, 1], isr=[1, 2], leader=2, leader_epoch=0
        ),
        PartitionRecord(
            partition_id=2, topic_id=topic_id(1), replicas=[2, 3], isr=[2, 3], leader=2, leader_epoch=0
        ),
    )
    assert changes == [LeaderChange("t", 0, 0, True)]
    assert list(rig.replicas.by_name) == [("t", 0), ("t", 1)]
    assert rig.replicas.by_id[topic_id(1), 1] is rig.replicas.by_name["t", 1]
    assert rig.replicas.partition("t", 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.replicas.partition("t", 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leadership_comes_and_goes() -> None:
    rig = HandlerRig()
    made = rig.topic("t", replicas=(1, 2))

    def lead(leader: int) -> list[LeaderChange]:
        return rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=leader))

    assert lead(2) == [LeaderChange("t", 0, 1, False)]
    assert lead(2) == []
    assert lead(1) == [LeaderChange("t", 0, 3, True)]
    assert lead(1) == [LeaderChange("t", 0, 4, True)]
    isr_only = PartitionChangeRecord(partition_id=0, topic_id=made, isr=[1])
    assert rig.apply(isr_only) == []


class Copying:
    """Writes down what the fetchers are told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int, int]] = []

    def partition_moved(self, partition: Partition) -> None:
        self.heard.append(("moved", partition.topic, partition.leader_id, partition.leader_epoch))

    def partition_gone(self, partition: Partition) -> None:
        self.heard.append(("gone", partition.topic, partition.leader_id, partition.leader_epoch))


def test_the_fetchers_hear_of_each_leader_epoch_and_of_the_end() -> None:
    rig = HandlerRig()
    copying = Copying()
    rig.replicas.copy_with(copying)
    made = rig.topic("t", replicas=(1, 2))
    assert copying.heard == [("moved", "t", 1, 0)]
    copying.heard.clear()
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, isr=[1]))
    assert copying.heard == [], "it has the same leader in the same epoch"
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=2))
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=-1))
    assert copying.heard == [("moved", "t", 2, 1), ("moved", "t", -1, 2)]
    copying.heard.clear()
    rig.remove_topic(made)
    assert copying.heard == [("gone", "t", -1, 2)]
    copying.heard.clear()
    rig.topic("u", number=2)
    rig.replicas.log_went_offline("u", 0)
    assert [each[0] for each in copying.heard] == ["moved", "gone"]


def test_a_broker_that_leaves_stops_following_where_it_is_out_of_the_isr() -> None:
    rig = HandlerRig()
    copying = Copying()
    rig.replicas.copy_with(copying)
    made = rig.topic("t", replicas=(1, 2), leader=2)
    rig.replicas.begin_controlled_shutdown()
    copying.heard.clear()
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=2))
    assert copying.heard == [("moved", "t", 2, 1)], "it is in the ISR yet"
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, isr=[2]))
    assert copying.heard[1:] == [("gone", "t", 2, 1)]
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=-1, isr=[2, 1]))
    assert copying.heard[2:] == [("gone", "t", -1, 2)]


def test_a_partition_that_moves_away_takes_its_log_along() -> None:
    rig = HandlerRig()
    made = rig.topic("t", replicas=(1, 2))
    moved = PartitionChangeRecord(partition_id=0, topic_id=made, replicas=[2, 3], isr=[2, 3], leader=2)
    assert rig.apply(moved) == [LeaderChange("t", 0, 0, False)]
    assert rig.logs.deleted == [("t", 0)]
    assert (len(rig.replicas.by_name), len(rig.replicas.by_id)) == (0, 0)


def test_a_partition_that_moves_away_while_its_topic_is_deleted_takes_its_log_along() -> None:
    rig = HandlerRig()
    made = rig.topic("t", 2, replicas=(1, 2))
    moved = PartitionChangeRecord(partition_id=0, topic_id=made, replicas=[2, 3], isr=[2, 3], leader=2)
    rig.apply(moved, RemoveTopicRecord(made))
    assert (rig.logs.logs, rig.logs.deleted) == ({}, [("t", 0), ("t", 1)])
    assert (len(rig.replicas.by_name), len(rig.replicas.by_id)) == (0, 0)


def test_a_topic_deleted_and_made_again_in_one_breath() -> None:
    rig = HandlerRig()
    made = rig.topic("t")
    rig.write("t", count=3)
    old = rig.replicas.by_name["t", 0]
    assert rig.remove_topic(made) == [LeaderChange("t", 0, 0, False)]
    rig.topic("t", number=2)
    new = rig.replicas.by_name["t", 0]
    assert new is not old
    assert (new.log.log_end_offset, new.topic_id, list(rig.replicas.by_id)) == (
        0,
        topic_id(2),
        [(topic_id(2), 0)],
    )
    with pytest.raises(AppendRefused, match="NOT_LEADER_OR_FOLLOWER"):
        rig.replicas.appends.append(old, rig.batch(), 1, 12, {}, rig.clock.wall_ms())


def test_a_topic_of_many_partitions_comes_and_goes_a_partition_a_step() -> None:
    rig = HandlerRig()
    made = topic_id(1)
    partitions = [
        PartitionRecord(partition_id=index, topic_id=made, replicas=[1], isr=[1], leader=1)
        for index in range(200)
    ]
    changes: list[LeaderChange] = []
    seen = [0]
    for _ in rig.apply_in_steps(changes, TopicRecord("wide", made), *partitions):
        seen.append(len(rig.replicas.by_name))
        assert seen[-1] - seen[-2] in (0, 1)
    assert len(rig.replicas.by_name) == len(changes) == 200
    seen = [200]
    logs = [200]
    for _ in rig.apply_in_steps(changes, RemoveTopicRecord(made)):
        seen.append(len(rig.replicas.by_name))
        logs.append(len(rig.logs.logs))
        assert seen[-2] - seen[-1] in (0, 1)
        assert logs[-2] - logs[-1] in (0, 1)
        assert not seen[-1] or rig.metadata.topic("wide") is not None, "known as long as it is here"
    assert (rig.replicas.by_name, rig.logs.logs, len(changes)) == ({}, {}, 400)


def test_a_log_of_an_earlier_topic_of_the_name_is_not_taken() -> None:
    rig = HandlerRig()
    rig.logs.create("t", 0, topic_id(8), LogConfig())
    rig.logs.create("u", 0, ZERO_UUID, LogConfig())
    rig.topic("t")
    rig.topic("u", number=2)
    assert rig.logs.deleted == [("t", 0)]
    assert (rig.log("t").topic_id, rig.log("u").topic_id) == (topic_id(1), topic_id(2))


def test_a_whole_image_is_followed_at_the_start() -> None:
    rig = HandlerRig()
    rig.topic("a", 2, number=1)
    rig.topic("b", 1, number=2)
    other = HandlerRig()
    other.metadata.apply(rig.image)
    changes = other.replicas.apply(rig.image, None)
    assert [(change.topic, change.partition) for change in changes] == [("a", 0), ("a", 1), ("b", 0)]


def test_configs_reach_the_logs() -> None:
    rig = HandlerRig(compression_type="gzip")
    rig.topic("t", segment_bytes="2000000", compression_type="lz4")
    rig.topic("u", number=2)
    assert (rig.log("t").config.segment_bytes, rig.log("t").config.codec) == (2000000, LZ4)
    assert rig.log("u").config.codec == 1
    rig.apply(
        ConfigRecord(2, "t", "compression.type", "producer"),
        ConfigRecord(2, "t", "segment.bytes", "3000000"),
        ConfigRecord(2, "t", "min.insync.replicas", "2"),
    )
    assert (rig.log("t").config.segment_bytes, rig.log("t").config.codec) == (3000000, None)
    assert rig.replicas.by_name["t", 0].min_insync_replicas == 2
    changed = BrokerConfig(
        {"log.segment.bytes": Setting("log.segment.bytes", "5000000", Source.FILE, "test")}
    )
    rig.replicas.configure(rig.image, changed)
    assert (rig.log("t").config.segment_bytes, rig.log("u").config.segment_bytes) == (3000000, 5000000)


@pytest.mark.parametrize("expiration_days", [1, 3])
def test_producers_that_expired_while_the_broker_was_down_are_forgotten(expiration_days: int) -> None:
    rig = HandlerRig(producer_id_expiration_ms=str(expiration_days * DAY_MS))
    log = rig.logs.create("t", 0, topic_id(1), LogConfig())
    batch = rig.batch(producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, leader_epoch=0, now_ms=rig.clock.wall_ms())
    rig.clock.move(2 * DAY_MS)
    rig.topic("t")
    assert rig.log("t") is log
    assert (log.producer_state.get(7) is None) == (expiration_days == 1)


def test_logs_that_are_opened_before_their_topics_are_known_go_by_the_brokers_settings() -> None:
    rig = HandlerRig(log_index_interval_bytes="512", log_segment_delete_delay_ms="7")
    config = loading_config(rig.config)
    assert (config.index_interval_bytes, config.file_delete_delay_ms) == (512, 7)


def test_a_stored_setting_that_makes_no_sense_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    rig = HandlerRig()
    rig.topic("t", segment_bytes="many")
    assert rig.log("t").config.segment_bytes == 1 << 30
    assert "Topic t has a setting that is not valid" in caplog.text


def test_a_stored_setting_that_is_not_valid_leaves_the_topics_others_in_force(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Apache Kafka 3.9 allowed segments of 14 bytes."""
    rig = HandlerRig()
    rig.topic(
        "t", cleanup_policy="compact", retention_ms="-1", min_insync_replicas="2", segment_bytes="524288"
    )
    rig.replicas.configure(rig.image, rig.config)
    config = rig.log("t").config
    assert (config.compact, config.delete, config.retention_ms) == (True, False, -1)
    assert config.segment_bytes == 1_048_576
    assert rig.replicas.by_name["t", 0].min_insync_replicas == 2
    (told,) = caplog.messages
    assert told == (
        "Topic t has a setting that is not valid: Invalid value 524288 for configuration segment.bytes: "
        "Value must be at least 1048576; 1048576 is used instead"
    )


def test_a_log_that_cannot_be_made_is_offline_until_it_can(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles(MemoryFiles(), Fault("makedirs", error=errno.ENOSPC))
    rig = HandlerRig(files=files)
    made = rig.topic("t")
    assert rig.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "t-0 cannot be served" in caplog.text
    changes = rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=1))
    assert changes == [LeaderChange("t", 0, 1, True)]
    assert rig.write("t") == 0


# Coordinators.


def test_a_coordinators_batch_is_told_with_its_offset() -> None:
    rig = HandlerRig()
    rig.topic("t")
    results: list[Result] = []
    internal(rig, results, 3)
    internal(rig, results, 1)
    assert results == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 3)]
    assert rig.log("t").high_watermark == 4


def test_a_coordinators_batch_waits_for_replicas_and_may_append_from_its_result() -> None:
    rig = HandlerRig()
    rig.topic("t", replicas=(1, 2))
    results: list[Result] = []

    def and_again(outcome: AppendResult | AppendRefused) -> None:
        results.append(committed(outcome))
        internal(rig, results)

    rig.coordinator_log.append_internal("t", 0, bytes(rig.batch()), and_again)
    assert results == []
    rig.replicas.by_name["t", 0].follower_fetched(2, 1, now_ms=0)
    assert results == [(ErrorCode.NONE, 0)]
    rig.replicas.by_name["t", 0].follower_fetched(2, 2, now_ms=0)
    assert results == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]


def test_a_coordinators_batch_that_is_refused() -> None:
    files = FaultyFiles(MemoryFiles())
    rig = HandlerRig(files=files)
    rig.apply(rig.broker_record(2))
    rig.topic("t", max_message_bytes="500")
    rig.topic("f", number=2, replicas=(2, 1), leader=2)
    rig.topic("m", number=3, replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    results: list[Result] = []
    internal(rig, results, topic="nobody")
    internal(rig, results, topic="f")
    internal(rig, results, topic="m")
    internal(rig, results, size_bytes=1000)
    files.faults.append(Fault("write", error=errno.EIO))
    internal(rig, results)
    internal(rig, results)
    assert results == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (ErrorCode.NOT_ENOUGH_REPLICAS, -1),
        (ErrorCode.MESSAGE_TOO_LARGE, -1),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (ErrorCode.NONE, 0),
    ]


def test_a_partition_is_read_back_in_bites() -> None:
    rig = HandlerRig()
    rig.topic("t")
    for _ in range(5):
        rig.write("t", count=2, size_bytes=100)
    read, offset = [], 0
    while data := rig.coordinator_log.read_batches("t", 0, offset, 500):
        found = [header for _, header in headers(data)]
        read += [header.base_offset for header in found]
        offset = found[-1].next_offset
    assert read == [0, 2, 4, 6, 8]
    assert len(rig.coordinator_log.read_batches("t", 0, 0, 1)) > 1
    rig.log("t").increase_log_start(4)
    assert next(headers(rig.coordinator_log.read_batches("t", 0, 0, 1)))[1].base_offset == 4
    assert rig.coordinator_log.read_batches("t", 0, 10, 1) == b""
    with pytest.raises(CorruptRecord, match="99"):
        rig.coordinator_log.read_batches("t", 0, 99, 1)
    with pytest.raises(LookupError):
        rig.coordinator_log.read_batches("nobody", 0, 0, 1)


def test_a_failing_disk_is_reported_once_and_so_is_its_recovery(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles(MemoryFiles())
    rig = HandlerRig(files=files)
    rig.topic("t")
    files.faults.append(Fault("write", count=3, error=errno.ENOSPC))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with pytest.raises(AppendRefused, match="KAFKA_STORAGE_ERROR"):
                rig.write("t")
        assert rig.write("t") == 0
        assert rig.write("t") == 1
    told = [record.message for record in caplog.records if "t-0" in record.message]
    assert len(told) == 2
    assert "fail" in told[0]
    assert "work again" in told[1]


@pytest.mark.parametrize("leader", [-1, 2])
def test_who_leads_no_longer_does_not_wait_for_the_disk_to_work_again(leader: int) -> None:
    files = FaultyFiles(MemoryFiles())
    rig = HandlerRig(files=files)
    made = rig.topic("t", replicas=(1, 2))
    files.faults.append(Fault("write", error=errno.ENOSPC))
    with pytest.raises(AppendRefused, match="KAFKA_STORAGE_ERROR"):
        rig.write("t")
    assert list(rig.replicas.appends.failing) == [rig.replicas.by_name["t", 0]]
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, leader=leader))
    assert not rig.replicas.appends.failing


def test_requests_leave_nothing_for_the_collector() -> None:
    """The hot path makes no cycles: with the collector off nothing piles up."""
    rig = HandlerRig()
    rig.topic("t", 3)

    def one_round() -> None:
        rig.write("t")
        end = rig.log("t").log_end_offset
        partitions = [FetchRequest.FetchPartition(index, -1, end, -1, -1, 1 << 20) for index in range(1)]
        asked = FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchRequest.FetchTopic("t", topic_id(1), partitions)]
        )
        answer = fetch.handle(rig.services, rig.context(1, 12), asked)
        assert isinstance(answer, Pending)
        rig.write("t")
        rig.timers.run_soon()
        assert answer.response is not None
        answer.response.responses[0].partitions[0].records.release()  # type: ignore[union-attr]
        gone = fetch.handle(rig.services, rig.context(1, 12), asked)
        if isinstance(gone, Pending):
            gone.cancel()
        else:
            gone.responses[0].partitions[0].records.release()  # type: ignore[union-attr]

    for _ in range(20):
        one_round()
    while gc.collect():  # what finalizers of other tests' remains leave behind is not ours
        pass
    gc.disable()
    try:
        for _ in range(500):
            one_round()
        assert gc.collect() < 100, "what one odd moment leaves is no pile; 500 rounds would make one"
    finally:
        gc.enable()
