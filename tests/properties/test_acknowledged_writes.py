"""Whoever is answered without error finds what he wrote, whatever happens in between.

Producers by name and by id and a group's members write while topics are deleted and made anew, leaders move,
disks fail and heal, logs go offline, helper threads come back late and the image is applied a partition at
a time. Each answer without error must name an offset (a group's: the record must be in its log), and there
the record is read back, at the moment of the answer. The same holds where a producer hears of an error that
came while its batch was replicated, and that names an offset.

And at every step: who is found under a name is the topic that the metadata shows by that name.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupCoordinator
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.runtime.batches import loaded_batches
from broker.handlers import delete_records, produce
from broker.replication.partition import Partition
from broker.replication.replica_manager import LeaderChange
from protocol.errors import ErrorCode
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.metadata_log.cluster import ConfigRecord
from protocol.metadata_log.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.records.builder import SimpleRecord, build_batch
from protocol.serving.pending import CloseConnection, Pending
from protocol.serving.turns import run_through
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import topic_id
from tests.support.rigs.waiting_rig import WaitingRig

TOPICS = ("plain", "synced", "packed", "copied", GROUP_TOPIC)
CONFIGS = {"synced": ("flush.messages", "1"), "packed": ("compression.type", "lz4")}
PARTITIONS = 3
REPLICAS = {"copied": [1, 2]}
WHILE_REPLICATED = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""The errors of batches that are in the log."""

names = st.sampled_from(TOPICS)
written = st.sampled_from(TOPICS[:-1])
indexes = st.integers(0, PARTITIONS - 1)


class _Topics:
    """The coordinator's topic is there or not; nobody makes it here but the test."""

    def __init__(self, rig: WaitingRig) -> None:
        self._rig = rig

    def ensure(self, topic: str) -> bool:
        return self._rig.metadata.topic_id(topic) is not None


class Writes(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.files = FaultyFiles(MemoryFiles())
        self.rig = WaitingRig(files=self.files)
        self.groups = GroupCoordinator(
            GroupSettings(group_initial_rebalance_delay_ms=0),
            writer=self.rig.coordinator_log,
            reader=self.rig.coordinator_log,
            cluster=self.rig.metadata,
            topics=_Topics(self.rig),
            clock=self.rig.clock,
            timers=self.rig.timers,
            random_source=self.rig.random_source,
        )
        self.made = 0
        self.written = 0
        self.ids: dict[str, list[bytes]] = {name: [topic_id(99)] for name in TOPICS}
        """All that a topic's name has ever meant, and one that nothing means."""
        self.exists: dict[str, bytes] = {}
        """As the controller has it: the broker may not have heard of it yet."""
        self.changes: list[LeaderChange] = []
        self.steps: Iterator[None] = iter(())
        for name in TOPICS:
            self.change(name, "make")

    # The cluster.

    def drive(self, count: int) -> None:
        for _ in range(count):
            if next(self.steps, self) is self:
                break
            self.tell_groups()
        self.tell_groups()

    def tell_groups(self) -> None:
        for change in self.changes:
            if change.topic == GROUP_TOPIC and change.leads:
                self.groups.elected(change.partition, change.leader_epoch)
            elif change.topic == GROUP_TOPIC:
                self.groups.resigned(change.partition, change.leader_epoch)
        self.changes.clear()

    @rule(name=names, how=st.sampled_from(("make", "delete", "anew", "anew")), count=st.integers(0, 12))
    def change(self, name: str, how: str, count: int = 1 << 30) -> None:
        """The next image; as with the loader, the one before is published to its end first."""
        self.drive(1 << 30)
        records: list[Any] = []
        if name in self.exists and how in ("delete", "anew"):
            records.append(RemoveTopicRecord(self.exists.pop(name)))
        if name not in self.exists and how in ("make", "anew"):
            self.made += 1
            made = self.exists[name] = topic_id(self.made)
            self.ids[name].append(made)
            records.append(TopicRecord(name, made))
            if name in CONFIGS:
                key, value = CONFIGS[name]
                records.append(ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))
            replicas = REPLICAS.get(name, [1])
            records += [
                PartitionRecord(partition_id=index, topic_id=made, replicas=replicas, isr=replicas, leader=1)
                for index in range(1 if name == GROUP_TOPIC else PARTITIONS)
            ]
        self.steps = self.rig.apply_in_steps(self.changes, *records)
        self.drive(count)

    @rule(name=names, index=indexes, leader=st.sampled_from((-1, 1, 1, 2)), count=st.integers(0, 3))
    def move_leader(self, name: str, index: int, leader: int, count: int) -> None:
        self.drive(1 << 30)
        index = 0 if name == GROUP_TOPIC else index
        if name in self.exists:
            record = PartitionChangeRecord(partition_id=index, topic_id=self.exists[name], leader=leader)
            self.steps = self.rig.apply_in_steps(self.changes, record)
            self.drive(count)

    @rule(count=st.integers(1, 8))
    def apply_on(self, count: int) -> None:
        self.drive(count)

    @rule(offset=st.integers(0, 4))
    def follow(self, offset: int) -> None:
        for (name, _), partition in self.rig.replicas.by_name.items():
            if name == "copied":
                partition.follower_fetched(2, max(0, partition.log.log_end_offset - offset), 0, now_ms=0)

    # Disks and threads.

    @rule(
        call=st.sampled_from(("write", "write", "fdatasync", "makedirs", "open", "rename")),
        error=st.sampled_from((errno.ENOSPC, errno.EIO)),
        count=st.integers(1, 3),
        partial_bytes=st.sampled_from((0, 0, 30)),
    )
    def disk_fails(self, call: str, error: int, count: int, partial_bytes: int) -> None:
        partial_bytes = partial_bytes if call == "write" else 0
        self.files.faults = [Fault(call, count=count, error=error, partial_bytes=partial_bytes)]

    @rule()
    def disk_heals(self) -> None:
        self.files.faults = []

    @rule(name=names, index=indexes)
    def log_goes_offline(self, name: str, index: int) -> None:
        log = self.rig.logs.logs.pop((name, index), None)
        if log is not None:
            log.abandon()
            change = self.rig.replicas.log_went_offline(name, index)
            self.changes += [] if change is None else [change]
            self.tell_groups()

    @rule(which=st.sampled_from(("codecs", "disks", "turn", "all")))
    def threads_come_back(self, which: str) -> None:
        if which == "all":
            self.rig.run()
        elif which == "turn":
            self.rig.timers.run_soon()
        else:
            (self.rig.codecs if which == "codecs" else self.rig.disks).run()

    @rule(milliseconds=st.sampled_from((1, 600, 6_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.rig.timers.advance(milliseconds)

    # Producers.

    @rule(
        name=written,
        version=st.sampled_from((12, 13)),
        which=st.integers(0, 2),
        asked=st.lists(indexes, min_size=1, max_size=3),
        acks=st.sampled_from((1, -1, -1, 0)),
        large=st.booleans(),
    )
    def produce(self, name: str, version: int, which: int, asked: list[int], acks: int, large: bool) -> None:
        ids = self.ids[name]
        made = ids[-1 - which % len(ids)]
        hosted: Any = self.rig.replicas.by_id if version == 13 else self.rig.replicas.by_name
        key = made if version == 13 else name
        values: dict[int, bytes] = {}
        entries = []
        for index in asked:
            self.written += 1
            values[index] = b"value %d." % self.written
            record = SimpleRecord(
                b"k", values[index] + bytes(70_000 if large else 5), self.rig.clock.wall_ms()
            )
            entries.append(ProduceRequest.PartitionProduceData(index, memoryview(build_batch([record]))))
        found: dict[int, Partition | None] = {index: hosted.get((key, index)) for index in values}
        request = ProduceRequest(None, acks, 500, [ProduceRequest.TopicProduceData(name, made, entries)])
        try:
            answer = produce.handle(self.rig.services, self.rig.context(0, version), request)
        except CloseConnection:
            return

        def check(response: Any) -> None:
            if acks and not isinstance(response, CloseConnection):
                for told in response.responses[0].partition_responses:
                    if told.error_code and told.base_offset == -1:
                        continue
                    partition = found[told.index]
                    assert partition is not None, "what was not here was not written"
                    assert not told.error_code or (acks == -1 and told.error_code in WHILE_REPLICATED)
                    if hosted.get((key, told.index)) is partition:
                        assert values[told.index] in self.read(partition, told.base_offset)
                    elif not told.error_code:
                        assert len(values) > 1, "it was here when it was written, and another was waited for"
                        assert told.base_offset >= 0

        if isinstance(answer, Pending):
            answer.on_complete(check)
        elif answer is not None:
            check(answer)

    @rule(
        name=written,
        count=st.integers(0, 2 * PARTITIONS + 1),
        version=st.sampled_from((12, 13)),
        which=st.integers(0, 1),
        asked=st.lists(indexes, min_size=1, max_size=3),
        large=st.booleans(),
    )
    def produce_to_a_topic_that_is_made_anew(
        self, name: str, count: int, version: int, which: int, asked: list[int], large: bool
    ) -> None:
        self.change(name, "make")
        self.change(name, "anew", count)
        self.produce(name, version, which, asked, -1, large)

    def read(self, partition: Partition, offset: int) -> bytes:
        log = partition.log
        assert log.log_start_offset <= offset < log.log_end_offset
        faults, self.files.faults = self.files.faults, []
        found = log.read(offset, max_bytes=1, up_to_offset=log.log_end_offset)
        self.files.faults = faults
        assert found is not None
        assert found.base_offset == offset
        return found.read()

    @rule(name=written, index=indexes, offset=st.integers(-1, 3))
    def delete_records(self, name: str, index: int, offset: int) -> None:
        """Below the low watermark that is answered nothing can be read."""
        topic = DeleteRecordsRequest.DeleteRecordsTopic(
            name, [DeleteRecordsRequest.DeleteRecordsPartition(index, offset)]
        )
        request = DeleteRecordsRequest([topic], 500)
        partition = self.rig.replicas.by_name.get((name, index))

        def check(response: Any) -> None:
            told = response.topics[0].partitions[0]
            if told.error_code == 0:
                assert partition is not None
                assert partition.log.log_start_offset >= told.low_watermark >= max(offset, 0)

        answer = delete_records.handle(self.rig.services, self.rig.context(21, 2), request)
        if isinstance(answer, Pending):
            answer.on_complete(check)
        else:
            check(answer)

    # Groups.

    @rule(group=st.sampled_from("gh"))
    def commit(self, group: str) -> None:
        self.written += 1
        offset = self.written
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, 7, "")
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="plain", partitions=[partition])
        request = OffsetCommitRequest(group_id=group, topics=[topic])
        request.generation_id_or_member_epoch = -1

        def check(response: Any) -> None:
            if response.topics[0].partitions[0].error_code == 0:
                assert offset.to_bytes(8) in self.last_value(group.encode(), b"plain")

        self.when_answered(run_through(self.groups.commit_offsets(request, 9)), check)

    @rule(group=st.sampled_from("gh"))
    def join_and_sync(self, group: str) -> None:
        def joined(response: Any) -> None:
            if response.error_code == 0 and response.leader == response.member_id:
                self.sync(group, response.member_id, response.generation_id)

        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"meta")
        request = JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", [protocol])
        self.when_answered(self.groups.join(request, self.rig.context(11, 3)), joined)

    def sync(self, group: str, member_id: str, generation: int) -> None:
        self.written += 1
        assigned = b"assigned %d." % self.written
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id, assigned)
        request = SyncGroupRequest(group, generation, member_id, assignments=[assignment])

        def check(response: Any) -> None:
            if response.error_code == 0:
                assert response.assignment in self.last_value(group.encode(), b"")
                assert response.assignment == assigned

        self.when_answered(self.groups.sync(request), check)

    def when_answered(self, answer: Any, check: Any) -> None:
        if isinstance(answer, Pending):
            answer.on_complete(check)
        else:
            check(answer)

    def last_value(self, *key_parts: bytes) -> bytes:
        """All values in the coordinator's log under keys that hold these parts."""
        partition = self.rig.replicas.by_name[GROUP_TOPIC, 0]
        faults, self.files.faults = self.files.faults, []
        found = partition.log.read(
            partition.log.log_start_offset, max_bytes=1 << 30, up_to_offset=partition.log.high_watermark
        )
        self.files.faults = faults
        assert found is not None
        return b"".join(
            value or b""
            for batch in loaded_batches(found.read(), 0)
            for key, value in batch.records
            if all(part in key for part in key_parts)
        )

    # Always.

    @invariant()
    def who_is_found_by_a_name_is_the_topic_of_that_name(self) -> None:
        if hasattr(self, "rig"):
            replicas, metadata = self.rig.replicas, self.rig.metadata
            by_id = {(each.topic_id, each.index): each for each in replicas.by_name.values()}
            assert by_id == replicas.by_id
            for (name, index), partition in replicas.by_name.items():
                assert metadata.topic_id(name) == partition.topic_id
                assert metadata.partition(name, index) is not None


TestAcknowledgedWrites = Writes.TestCase
TestAcknowledgedWrites.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
