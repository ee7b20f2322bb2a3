"""Groups and offsets that are deleted, expire with a topic, or belong to somebody else."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_keys import GroupKey, offset_key, read_key
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.offsets.offset_records import OffsetAndMetadata, offset_record
from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.builder import BatchBuilder
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.serving.turns import run_through
from tests.support.rigs.group_world import GroupWorld, is_parked, now

SOON_GONE = GroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=60_000)

SHARE_GROUP = CoordinatorRecord(b"\x00\x0a\x00\x01g", b"\x00\x00\x00\x00\x00\x01\x00")
"""A record of a share group g."""


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\0\0\0\0"


def delete(world: GroupWorld, topics: dict[str, list[int]], group_id: str = "g") -> Any:
    """The error of the group, or the errors by topic and partition."""
    cls = OffsetDeleteRequest
    places = [
        cls.OffsetDeleteRequestTopic(name, [cls.OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in topics.items()
    ]
    response = now(world.groups.delete_offsets(cls(group_id, places)))
    if response.error_code:
        return ErrorCode(response.error_code)
    return {
        (topic.name, entry.partition_index): ErrorCode(entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    }


def append(world: GroupWorld, *records: CoordinatorRecord) -> None:
    """Records that somebody else wrote into the log of group g's partition."""
    batch = coordinator_batch(records, timestamp_ms=1)
    world.log.append_internal(GROUP_TOPIC, world.groups.partition_for("g"), batch, lambda *_: None)


def append_transactional(world: GroupWorld, producer_id: int, offset: int) -> None:
    """An offset of group g in t-0 that a producer commits in a transaction, whose marker does not come."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(*offset_record("g", "t", 0, OffsetAndMetadata(offset)), 1)
    partition = world.groups.partition_for("g")
    world.log.append_internal(GROUP_TOPIC, partition, bytes(builder.build()), lambda *_: None)


def test_a_group_with_members_cannot_be_deleted_an_empty_one_goes_with_its_offsets() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1)
    world.commit_error(1, member_id=member, generation=1)
    assert world.groups.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    assert world.groups.delete_group("nobody") is ErrorCode.GROUP_ID_NOT_FOUND
    world.leave(member)
    assert world.groups.delete_group("g") is ErrorCode.NONE
    for _ in range(2):
        assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert world.committed().offset == -1
        assert world.groups.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND
        world.restart()


def test_a_simple_group_can_be_deleted() -> None:
    world = GroupWorld()
    world.commit_error(1)
    assert world.groups.delete_group("g") is ErrorCode.NONE
    world.restart()
    assert world.groups.list_groups([], []).groups == []


def test_a_deletion_is_answered_when_it_is_in_the_log_and_taken_back_when_it_is_refused() -> None:
    world = GroupWorld()
    world.commit_error(1)
    world.log.held = []
    answer = world.groups.delete_group("g")
    assert is_parked(answer)
    world.log.decide(ErrorCode.KAFKA_STORAGE_ERROR)
    assert now(answer) is ErrorCode.NOT_COORDINATOR
    assert world.state() == "Empty"
    world.log.held = None
    assert world.committed().offset == 1


def test_a_group_with_very_many_offsets_is_deleted_in_several_batches() -> None:
    world = GroupWorld()
    append(world, *(offset_record("g", "t" * 200, index, OffsetAndMetadata(1)) for index in range(9_000)))
    world.restart()
    written = len(world.log.batches[GROUP_TOPIC, world.groups.partition_for("g")])
    assert world.groups.delete_group("g") is ErrorCode.NONE
    batches = world.log.batches[GROUP_TOPIC, world.groups.partition_for("g")][written:]
    assert len(batches) > 1
    assert max(map(len, batches)) <= 1_000_000
    world.restart()
    assert world.groups.list_groups([], []).groups == []


def test_offsets_are_deleted_but_for_topics_that_are_subscribed() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1, protocols=(("range", subscription("mine")),))
    for topic in ("mine", "other"):
        world.commit_error(1, topic=topic, member_id=member, generation=1)
    assert delete(world, {"mine": [0, 4], "other": [0, 1]}) == {
        ("mine", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("mine", 4): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("other", 0): ErrorCode.NONE,
        ("other", 1): ErrorCode.NONE,
    }
    for _ in range(2):
        assert (world.committed(topic="mine").offset, world.committed(topic="other").offset) == (1, -1)
        world.restart()


def test_only_what_is_there_gets_a_tombstone() -> None:
    world = GroupWorld()
    world.commit_error(1)
    partition = world.groups.partition_for("g")
    before = world.log.end_offset(GROUP_TOPIC, partition)
    assert delete(world, {"t": [0, 1, 2], "u": [0]}).keys() == {("t", 0), ("t", 1), ("t", 2), ("u", 0)}
    assert world.log.end_offset(GROUP_TOPIC, partition) == before + 1


def test_what_is_named_many_times_gets_one_tombstone() -> None:
    """A tombstone names the group, and its name may be long."""
    world = GroupWorld()
    world.commit_error(1)
    partition = world.groups.partition_for("g")
    before = world.log.end_offset(GROUP_TOPIC, partition)
    partitions = [OffsetDeleteRequest.OffsetDeleteRequestPartition(0)]
    topics = [OffsetDeleteRequest.OffsetDeleteRequestTopic("t", partitions) for _ in range(100)]
    answer = now(world.groups.delete_offsets(OffsetDeleteRequest("g", topics)))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [ErrorCode.NONE] * 100
    assert world.log.end_offset(GROUP_TOPIC, partition) == before + 1


def test_once_a_consumer_group_is_empty_it_subscribes_nothing() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1, protocols=(("range", subscription("t")),))
    world.commit_error(1, member_id=member, generation=1)
    world.leave(member)
    assert delete(world, {"t": [0]}) == {("t", 0): ErrorCode.NONE}
    assert world.committed().offset == -1


def test_groups_of_other_protocols_must_be_empty_before_their_offsets_go() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1, protocol_type="connect")
    world.commit_error(1, member_id=member, generation=1)
    assert delete(world, {"t": [0]}) is ErrorCode.NON_EMPTY_GROUP
    world.leave(member)
    assert delete(world, {"t": [0]}) == {("t", 0): ErrorCode.NONE}


def test_groups_that_are_not_there_and_groups_without_a_name() -> None:
    world = GroupWorld()
    assert delete(world, {"t": [0]}) is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(world, {"t": [0]}, "") is ErrorCode.INVALID_GROUP_ID


# Topics


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = GroupWorld()
    for group in ("g", "h"):
        for topic in ("gone", "stays"):
            world.commit_error(1, topic=topic, group_id=group)
    world.groups.topics_changed({"gone": b"its id has 16 bs"})
    for _ in range(2):
        assert world.committed(topic="gone", group_id="h").offset == -1
        assert world.committed(topic="stays", group_id="h").offset == 1
        world.restart()


def test_an_offset_of_the_next_topic_of_that_name_stays() -> None:
    world = GroupWorld()
    append(world, offset_record("g", "t", 0, OffsetAndMetadata(5, topic_id=b"the second topic")))
    append(world, offset_record("g", "t", 1, OffsetAndMetadata(6, topic_id=b"the first topic!")))
    world.restart()
    world.groups.topics_changed({"t": b"the first topic!"})
    assert [world.committed(index).offset for index in (0, 1)] == [5, -1]


def test_offsets_of_a_much_read_topic_go_in_slices() -> None:
    """A commit to the next topic of that name, before all are gone, stays, even if it names no id."""
    world = GroupWorld()
    groups = [f"g-{number}" for number in range(1_000)]
    world.cluster.topics[GROUP_TOPIC] = 1
    append(world, *(offset_record(group, "t", 0, OffsetAndMetadata(5)) for group in groups))
    world.restart()
    committed = world.shard("g").offset_metadata.committed
    world.groups.topics_changed({"t": b"the first topic!"})
    left = [group for group in groups if committed.has_group(group)]
    assert len(left) == 800
    refused, kept = left[:2]
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.commit_error(6, group_id=refused)
    world.log.refusal = ErrorCode.NONE
    assert world.commit_error(7, group_id=kept) is ErrorCode.NONE
    turns = 0
    while [group for group in groups if committed.has_group(group)] != [kept]:
        world.timers.advance(1)
        turns += 1
    assert turns in (4, 5)
    for _ in range(2):
        assert world.committed(group_id=kept).offset == 7
        assert world.committed(group_id=refused).offset == -1
        world.restart()


def test_who_names_a_topic_by_its_id_is_not_shown_an_offset_of_another_one() -> None:
    world = GroupWorld()
    append(world, offset_record("g", "t", 0, OffsetAndMetadata(5, topic_id=b"the second topic")))
    append(world, offset_record("g", "t", 1, OffsetAndMetadata(6)))
    world.restart()
    for topic_id, expected in ((b"the first topic!", [-1, 6]), (b"the second topic", [5, 6])):
        fetched = now(
            world.groups.fetch_offsets("g", [("t", [0, 1])], require_stable=False, topic_ids={"t": topic_id})
        )
        assert [entry.offset for entry in fetched.topics[0].partitions] == expected


# Open transactions


def test_what_is_deleted_no_marker_brings_back() -> None:
    world = GroupWorld()
    append(world, offset_record("g", "t", 0, OffsetAndMetadata(1)))
    append_transactional(world, 7, 99)
    world.restart()
    assert world.committed(stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert delete(world, {"t": [0]}) == {("t", 0): ErrorCode.NONE}
    for _ in range(2):
        assert world.committed(stable=True).error is ErrorCode.NONE
        assert world.committed().offset == -1
        assert list(world.shard("g").offset_metadata.pending.end(7, None)) == []
        world.restart()


def test_a_refused_deletion_leaves_the_transaction_as_it_was() -> None:
    world = GroupWorld()
    append(world, offset_record("g", "t", 0, OffsetAndMetadata(1)))
    append_transactional(world, 7, 99)
    world.restart()
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete(world, {"t": [0]}) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.committed(stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert [key for key, *_ in world.shard("g").offset_metadata.pending.end(7, None)] == [
        offset_key("g", "t", 0)
    ]


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_open_transaction_brings_its_group_into_being(is_committed: bool) -> None:
    """As in Apache Kafka, where tools describe it before a marker comes; if the transaction is aborted, it
    goes with the next look for what has expired."""
    world = GroupWorld(SOON_GONE)
    append_transactional(world, 7, 99)
    world.restart()
    assert world.groups.describe("g", 6).error_code == 0
    assert world.state() == "Empty"
    marker = TransactionMarker(is_committed, 0)
    partition = world.groups.partition_for("g")
    batch = build_marker_batch(marker, timestamp_ms=1, producer_id=7, producer_epoch=0)
    world.log.append_internal(GROUP_TOPIC, partition, bytes(batch), lambda *_: None)
    world.restart()
    assert world.groups.describe("g", 6).error_code == 0
    assert world.committed().offset == (99 if is_committed else -1)
    world.timers.advance(120_000)
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_an_open_transaction_does_not_expire() -> None:
    world = GroupWorld(SOON_GONE)
    append_transactional(world, 7, 99)
    append(world, offset_record("g", "u", 0, OffsetAndMetadata(1, commit_timestamp_ms=1)))
    world.restart()
    world.timers.advance(120_000)
    assert world.committed(topic="u").offset == -1
    assert world.state() == "Empty"
    assert world.groups.describe("g", 6).error_code == 0


# Groups of newer protocols


def commit_in_transaction(world: GroupWorld, generation: int) -> ErrorCode:
    """The error for an offset of group g in t-0."""
    cls = TxnOffsetCommitRequest
    partition = cls.TxnOffsetCommitRequestPartition(0, 6)
    request = cls(
        transactional_id="id",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        generation_id=generation,
        topics=[cls.TxnOffsetCommitRequestTopic("t", [partition])],
    )
    prepared = run_through(world.groups.prepare_transactional_commit(request))
    response = now(world.groups.commit_in_transaction(request, prepared))
    return ErrorCode(response.topics[0].partitions[0].error_code)


def test_groups_of_newer_protocols_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = GroupWorld(SOON_GONE)
    unknown = CoordinatorRecord(b"\x00\x63\x00\x01g", b"x")
    nonsense = [
        CoordinatorRecord(b"\x00\x02\x00\x63", b""),
        CoordinatorRecord(b"", b"x"),
        CoordinatorRecord(b"\x00\x0b\x00\x09g", b"x"),
    ]
    append(world, offset_record("g", "t", 0, OffsetAndMetadata(5, commit_timestamp_ms=1)))
    append(world, SHARE_GROUP, unknown, *nonsense)
    with caplog.at_level(logging.WARNING, "barnabas.groups"):
        world.restart()
    partition = world.groups.partition_for("g")
    said = [record.getMessage() for record in caplog.records]
    for kind in (10, 11, 99):
        records = f"partition {partition}: 1 records of kind {kind}"
        assert f"{records}, which this broker does not know, are left alone" in said
    end = world.log.end_offset(GROUP_TOPIC, partition)
    assert now(world.join(version=3)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.groups.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(world, {"t": [0]}) is ErrorCode.GROUP_ID_NOT_FOUND
    for generation in (-1, 3):
        for version in (2, 9):
            error = world.commit_error(6, generation=generation, version=version)
            assert error is ErrorCode.GROUP_ID_NOT_FOUND
        assert commit_in_transaction(world, generation) is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.groups.list_groups([], []).groups == []
    world.timers.advance(120_000)
    assert world.log.end_offset(GROUP_TOPIC, partition) == end
    assert world.committed().offset == 5


def test_who_asks_for_a_group_of_a_newer_protocol_by_another_one_is_told_what_it_is_not() -> None:
    world = GroupWorld()
    world.cluster.topics["t"] = 1
    append(world, SHARE_GROUP)
    world.restart()
    end = world.log.end_offset(GROUP_TOPIC, world.groups.partition_for("g"))
    no_consumer_group = (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")
    for epoch in (0, 2, -1):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="a",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        beat = now(world.groups.consumer_heartbeat(request, world.context(68, 1)))
        assert (beat.error_code, beat.error_message) == no_consumer_group
    described = world.groups.describe_consumer_group("g")
    assert (described.error_code, described.error_message) == no_consumer_group
    classic = world.groups.describe("g", 6)
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    assert world.log.end_offset(GROUP_TOPIC, world.groups.partition_for("g")) == end


def test_a_newer_group_that_was_deleted_is_free_again() -> None:
    world = GroupWorld()
    append(
        world,
        CoordinatorRecord(b"\x00\x03\x00\x01g", b"\x00\x00"),
        CoordinatorRecord(b"\x00\x03\x00\x01g", None),
    )
    world.restart()
    assert now(world.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_what_deleting_a_group_costs_does_not_depend_on_others_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One request may delete thousands of groups while thousands of offsets are pending."""
    world = GroupWorld()
    shard = world.shard("g")
    for number in range(2_000):
        shard.replay_transactional(7, offset_key(f"other-{number}", "t", 0), b"", None)
    world.commit_error(1)
    shard.replay_transactional(8, offset_key("g", "u", 3), b"", None)
    read: list[bytes] = []

    def counted(key: bytes) -> GroupKey | None:
        read.append(key)
        return read_key(key)

    monkeypatch.setattr("broker.coordinator.offsets.pending_transactional_offsets.read_key", counted)
    assert shard.offset_metadata.pending.has_group("g")
    assert shard.offset_metadata.pending.partitions("g") == [("u", 3)]
    assert now(world.groups.delete_group("g")) is ErrorCode.NONE
    assert read == []
    assert shard.offset_metadata.pending.partitions("g") == []
    assert list(shard.offset_metadata.pending.end(8, None)) == []
    assert not shard.offset_metadata.pending.has_group("g")
    assert len(shard.offset_metadata.pending.groups()) == 2_000


def test_thousands_leave_in_one_request_the_oldest_first() -> None:
    """Whoever is oldest leads; it is looked for once, and not for each that goes."""
    world = GroupWorld()
    members = [world.new_id() for _ in range(3_000)]
    for member in members:
        world.join("g", member)
    world.timers.advance(6_000)
    group = world.shard("g").group_metadata.groups["g"]
    assert group.leader_id == members[0]
    world.leave(*members[:-2])
    assert group.leader_id == members[-2]
    world.leave(members[-1], members[-2])
    assert group.leader_id is None
