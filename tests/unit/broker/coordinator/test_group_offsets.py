"""Committed offsets: who may write them, who sees them, when they go."""

from __future__ import annotations

import tracemalloc

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_keys import offset_key
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.offsets.offset_records import OffsetAndMetadata, offset_record
from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.partitioning import partition_for
from broker.coordinator.runtime.pending_writes import Transaction
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from protocol.codec.compiler import encode
from protocol.consumer_protocol import ConsumerProtocolSubscription
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.serving.turns import run_through
from tests.support.rigs.group_world import GroupWorld, is_parked, now

DAY_MS = 24 * 60 * 60 * 1000
WEEK_MS = 7 * DAY_MS
TEN_MINUTES_MS = 600_000


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + encode(ConsumerProtocolSubscription(topics=list(topics)), 1)


def test_what_was_committed_is_fetched() -> None:
    world = GroupWorld()
    assert world.commit_error(42, metadata="here") is ErrorCode.NONE
    found = world.committed()
    assert (found.offset, found.leader_epoch, found.metadata, found.error) == (42, 7, "here", 0)


def test_what_was_not_committed_is_minus_one_without_an_error() -> None:
    world = GroupWorld()
    world.commit_error(42)
    for found in (world.committed(1), world.committed(topic="other"), world.committed(group_id="nobody")):
        assert (found.offset, found.leader_epoch, found.metadata, found.error) == (-1, -1, "", 0)


def test_null_metadata_is_empty() -> None:
    world = GroupWorld()
    world.commit_error(1, metadata=None)
    assert world.committed().metadata == ""


def test_a_simple_commit_makes_a_group_without_a_protocol() -> None:
    world = GroupWorld()
    world.commit_error(1)
    group = world.groups.describe("g", 6)
    assert (group.group_state, group.protocol_type, group.error_code) == ("Empty", "", 0)


def test_the_empty_group_id_may_commit() -> None:
    world = GroupWorld()
    assert world.commit_error(1, group_id="") is ErrorCode.NONE
    assert world.committed(group_id="").offset == 1


def test_an_unknown_group_with_a_generation_has_an_error_of_its_version() -> None:
    world = GroupWorld()
    assert world.commit_error(1, member_id="m", generation=3, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit_error(1, member_id="m", generation=3, version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_metadata_are_counted_in_characters_of_java() -> None:
    world = GroupWorld(GroupSettings(offset_metadata_max_characters=4))
    assert world.commit_error(1, metadata="üüüü") is ErrorCode.NONE
    assert world.commit_error(2, metadata="12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.commit_error(3, metadata="😀😀") is ErrorCode.NONE
    assert world.commit_error(4, metadata="😀😀!") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.committed().offset == 3


def test_a_commit_is_answered_when_the_log_has_it_and_fetches_wait_for_it() -> None:
    world = GroupWorld()
    world.log.held = []
    commit = world.commit(5)
    fetch = world.groups.fetch_offsets("g", None, require_stable=False)
    assert is_parked(commit)
    assert is_parked(fetch)
    world.log.decide()
    assert now(fetch).topics[0].partitions[0].offset == 5


def test_more_partitions_of_the_offsets_topic_leave_groups_where_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As in Kafka: a broker that runs goes on with the partition count of its start."""
    world = GroupWorld()
    world.commit_error(1)
    world.cluster.topics[GROUP_TOPIC] = 60
    world.groups.topics_changed({}, frozenset({GROUP_TOPIC}))
    assert world.groups.partition_for("g") == partition_for("g", 50)
    assert world.committed().offset == 1
    assert "__consumer_offsets has 60 partitions now" in caplog.text
    world.restart()
    assert world.groups.partition_for("g") == partition_for("g", 60)
    assert world.committed().offset == -1


def test_an_offsets_topic_that_was_made_anew_has_the_partitions_that_it_says() -> None:
    world = GroupWorld()
    world.commit_error(1)
    for count in (None, 5):
        world.cluster.topics.pop(GROUP_TOPIC, None)
        if count is not None:
            world.cluster.topics[GROUP_TOPIC] = count
        world.groups.topics_changed({}, frozenset({GROUP_TOPIC}))
    assert world.groups.partition_for("g") == partition_for("g", 5)


def test_a_refused_commit_leaves_the_offset_before_it() -> None:
    world = GroupWorld()
    world.commit_error(1)
    world.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.commit_error(2) is ErrorCode.NOT_COORDINATOR
    assert world.commit_error(1, group_id="new") is ErrorCode.NOT_COORDINATOR
    world.log.refusal = ErrorCode.NONE
    assert world.committed().offset == 1
    assert world.groups.describe("new", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(("group_bytes", "count"), [(32_000, 16_000), (100, 10_000), (32_000, 40)])
def test_of_a_commit_larger_than_a_batch_no_records_are_made(group_bytes: int, count: int) -> None:
    """Each record names its group, so that a small request could take gigabytes."""
    world = GroupWorld()
    world.log.largest_batch_bytes = 1_000_000
    world.log.held = []
    entries = [OffsetCommitRequest.OffsetCommitRequestPartition(index, 1) for index in range(count)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=entries)
    tracemalloc.start()
    try:
        request = OffsetCommitRequest("g" * group_bytes, topics=[topic])
        answer = run_through(world.groups.commit_offsets(request, 9))
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not world.log.held
    assert most_bytes < 8_000_000
    codes = [each.error_code for each in now(answer).topics[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * count
    world.log.held = None
    assert world.commit_error(1, group_id="other") is ErrorCode.NONE


def test_a_commit_that_just_fits_a_batch_is_made() -> None:
    """What is refused for its metadata is not in the batch, and does not count."""
    world = GroupWorld(GroupSettings(offset_metadata_max_characters=10))
    world.log.largest_batch_bytes = 32_000 * 3 + 1_000
    entries = [
        OffsetCommitRequest.OffsetCommitRequestPartition(index, index, -1, "too long a text" * (index > 2))
        for index in range(6)
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=entries)
    group_id = "g" * 32_000
    answer = now(run_through(world.groups.commit_offsets(OffsetCommitRequest(group_id, topics=[topic]), 9)))
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.OFFSET_METADATA_TOO_LARGE] * 3
    assert world.committed(2, group_id=group_id).offset == 2


def test_a_commit_that_is_not_replicated_in_time_says_so() -> None:
    world = GroupWorld()
    world.log.held = []
    commit = world.commit(5)
    world.timers.advance(5_000)
    assert now(commit).topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# Transactions of other brokers in the log


def test_offsets_of_an_open_transaction_are_not_stable() -> None:
    world = GroupWorld()
    world.commit_error(1)
    index = world.groups.partition_for("g")

    def append(batch: bytes | bytearray) -> None:
        world.log.append_internal(GROUP_TOPIC, index, bytes(batch), lambda *_: None)

    key, value = offset_record("g", "t", 0, OffsetAndMetadata(9))
    batch = build_batch(
        [SimpleRecord(key, value, 1)], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    append(batch)
    world.restart()
    assert world.committed(stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert world.committed(stable=True).offset == -1
    assert world.committed(stable=False).offset == 1
    world.commit_error(3)
    append(build_marker_batch(TransactionMarker(True, 0), timestamp_ms=1, producer_id=5, producer_epoch=0))
    world.restart()
    # The plain commit came after what the transaction wrote.
    assert world.committed(stable=True).offset == 3


def test_a_committed_transaction_counts_from_where_it_was_written() -> None:
    world = GroupWorld()
    world.commit_error(1)
    index = world.groups.partition_for("g")
    key, value = offset_record("g", "t", 0, OffsetAndMetadata(9))
    for batch in (
        build_batch(
            [SimpleRecord(key, value, 1)],
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        ),
        build_marker_batch(TransactionMarker(True, 0), timestamp_ms=1, producer_id=5, producer_epoch=0),
    ):
        world.log.append_internal(GROUP_TOPIC, index, bytes(batch), lambda *_: None)
    world.restart()
    assert world.committed(stable=True).offset == 9


def write_in_a_transaction(world: GroupWorld, producer_id: int, offset: int) -> None:
    """A producer commits an offset of group g in t-0 in its transaction, which stays open."""
    result = CoordinatorResult(ErrorCode.NONE)
    result.records.append(offset_record("g", "t", 0, OffsetAndMetadata(offset)))
    write_for(world, producer_id, result)


def commit_transaction(world: GroupWorld, producer_id: int) -> None:
    write_for(world, producer_id, CoordinatorResult(ErrorCode.NONE), TransactionMarker(True, 0))


def write_for(
    world: GroupWorld,
    producer_id: int,
    result: CoordinatorResult[ErrorCode],
    marker: TransactionMarker | None = None,
) -> None:
    partition, producer = world.groups.partition_for("g"), Transaction(producer_id, 0, marker)
    answer = world.groups._runtime.write(
        partition, lambda shard, now: result, lambda error: error, transaction=producer
    )
    assert now(answer) is ErrorCode.NONE


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("first", [1, 2])
def test_of_two_open_transactions_the_one_that_wrote_last_wins(first: int, is_loaded: bool) -> None:
    """In whatever order they are committed."""
    world = GroupWorld()
    write_in_a_transaction(world, 1, 100)
    write_in_a_transaction(world, 2, 150)
    commit_transaction(world, first)
    if is_loaded:
        world.restart()
    assert world.committed().offset == (100 if first == 1 else 150)
    assert world.committed(stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    commit_transaction(world, 3 - first)
    for _ in range(2):
        assert world.committed(stable=True).offset == 150
        world.restart()


def test_an_offset_that_was_deleted_is_unstable_for_later_transactions_alone() -> None:
    world = GroupWorld()
    write_in_a_transaction(world, 1, 100)
    deleted = OffsetDeleteRequest.OffsetDeleteRequestPartition(0)
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic("t", [deleted])
    assert now(world.groups.delete_offsets(OffsetDeleteRequest("g", [topic]))).error_code == ErrorCode.NONE
    assert world.committed(stable=True).error is ErrorCode.NONE
    write_in_a_transaction(world, 2, 150)
    assert world.committed(stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    commit_transaction(world, 2)
    for _ in range(2):
        assert world.committed(stable=True).offset == 150
        world.restart()
    commit_transaction(world, 1)
    assert world.committed(stable=True).offset == 150


# Expiry


def test_offsets_of_simple_consumers_go_a_week_after_the_commit_and_the_group_with_them() -> None:
    world = GroupWorld()
    world.commit_error(1, partition=0)
    world.timers.advance(DAY_MS)
    world.commit_error(1, partition=1)
    world.timers.advance(WEEK_MS - DAY_MS + TEN_MINUTES_MS)
    assert (world.committed(0).offset, world.committed(1).offset) == (-1, 1)
    assert world.state() == "Empty"
    world.timers.advance(DAY_MS + TEN_MINUTES_MS)
    assert world.committed(1).offset == -1
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_go_a_week_after_its_last_member() -> None:
    world = GroupWorld()
    a, b = world.stable_group(2)
    world.commit_error(1, member_id=a, generation=1)
    for _ in range(10):
        world.timers.advance(DAY_MS // 10_000)
        world.heartbeat(a, 1)
        world.heartbeat(b, 1)
    world.leave(a, b)
    world.timers.advance(WEEK_MS - TEN_MINUTES_MS)
    assert world.committed().offset == 1
    world.timers.advance(2 * TEN_MINUTES_MS)
    assert world.committed().offset == -1


def keep_alive(world: GroupWorld, member: str, duration_ms: int) -> None:
    for _ in range(duration_ms // 1_500_000):
        world.timers.advance(1_500_000)
        assert world.heartbeat(member, 1) is ErrorCode.NONE


def test_a_group_at_work_keeps_offsets_of_topics_that_it_subscribes() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(
        1, session_ms=1_800_000, protocols=(("range", subscription("mine", "ours")),)
    )
    for topic in ("mine", "formerly"):
        world.commit_error(1, topic=topic, member_id=member, generation=1)
    keep_alive(world, member, WEEK_MS + 2_000_000)
    assert world.committed(topic="mine").offset == 1
    assert world.committed(topic="formerly").offset == -1


def test_a_group_whose_subscription_cannot_be_read_keeps_all() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1, session_ms=1_800_000, protocols=(("range", b"\x00"),))
    world.commit_error(1, member_id=member, generation=1)
    keep_alive(world, member, WEEK_MS + 2_000_000)
    assert world.committed().offset == 1


def test_a_retention_of_its_own_goes_before_the_brokers() -> None:
    world = GroupWorld()
    world.commit_error(1, partition=0, retention_ms=TEN_MINUTES_MS, version=4)
    world.commit_error(1, partition=1, retention_ms=2 * WEEK_MS, version=4)
    world.restart()
    world.timers.advance(3 * TEN_MINUTES_MS)
    assert (world.committed(0).offset, world.committed(1).offset) == (-1, 1)
    world.timers.advance(WEEK_MS + TEN_MINUTES_MS)
    assert world.committed(1).offset == 1


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("retention_ms", "expires_after_ms"),
    [
        (0, 0),
        (1, 1),
        (-2, -2),
        (2**62, 2**62),
        (2**63 - 1, -(2**63) - 1),
        (2**63 - 2, -(2**63) - 2),
        (-(2**63), -(2**63)),
    ],
)
def test_a_retention_without_sense_is_stored_as_kafka_stores_it(
    version: int, retention_ms: int, expires_after_ms: int
) -> None:
    """The sum goes round in 64 bits: Kafka 4.3.1 wrote these numbers for these requests."""
    world = GroupWorld(GroupSettings(offsets_retention_check_interval_ms=TEN_MINUTES_MS))
    assert world.commit_error(5, retention_ms=retention_ms, version=version) is ErrorCode.NONE
    committed = world.shard("g").offset_metadata.committed.get("g", "t", 0)
    assert committed is not None
    expected = (committed.commit_timestamp_ms + expires_after_ms + 2**63) % 2**64 - 2**63
    assert committed.expire_timestamp_ms == expected
    world.restart()
    assert world.shard("g").offset_metadata.committed.get("g", "t", 0) == committed
    world.timers.advance(TEN_MINUTES_MS)
    assert world.committed().offset == (5 if expected > committed.commit_timestamp_ms + 1 else -1)


def test_an_offset_that_cannot_be_read_was_never_committed() -> None:
    world = GroupWorld()
    world.commit_error(1, partition=0)
    world.commit_error(2, partition=1)
    for value in (b"\x00\x63", b"\x00\x04\x00", b""):
        damaged = CoordinatorRecord(offset_key("g", "t", 0), value)
        world.log.append_internal(
            GROUP_TOPIC,
            world.groups.partition_for("g"),
            coordinator_batch([damaged], timestamp_ms=1),
            lambda *_: None,
        )
        world.restart()
        fetched = now(world.groups.fetch_offsets("g", None, require_stable=False))
        assert [(entry.partition, entry.offset) for entry in fetched.topics[0].partitions] == [(1, 2)]
        assert world.committed(0).offset == -1
        assert world.commit_error(3, partition=0) is ErrorCode.NONE
        assert world.committed(0).offset == 3
