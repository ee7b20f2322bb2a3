"""Replay makes images, and an image written as records replays into itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
import pytest

from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, image_records, replay
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.partition_index import Group, PartitionIndex
from controller.metadata.image.reload import reload
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch
from controller.metadata.image.topics import TopicImage, TopicsDelta, TopicsImage
from protocol.errors import InvariantViolated
from protocol.metadata_log.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from protocol.metadata_log.registrations import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from protocol.metadata_log.security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from protocol.metadata_log.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.values import ZERO_UUID

K = TypeVar("K")

TOPIC_ID = b"t" * 16
DIRECTORY, OTHER_DIRECTORY = b"d" * 16, b"e" * 16


def broker(broker_id: int, epoch: int, **changes: object) -> RegisterBrokerRecord:
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=bytes([broker_id]) * 16,
        end_points=[RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
        features=[
            RegisterBrokerRecord.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack=None,
        log_dirs=[DIRECTORY],
    )
    return msgspec.structs.replace(record, **changes)


def topic(name: str, partitions: int, topic_id: bytes = TOPIC_ID) -> list[TopicRecord | PartitionRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY, DIRECTORY],
            )
            for index in range(partitions)
        ),
    ]


def after(*records: object, image: ClusterImage = EMPTY_IMAGE) -> ClusterImage:
    return replay(image, records, offset=image.offset + len(records), epoch=1)[0]  # type: ignore[arg-type]


def test_a_topic_is_found_by_both_of_its_names() -> None:
    image = after(*topic("orders", 3))
    assert image.topics.by_name["orders"] is image.topics.by_id[TOPIC_ID]
    assert list(image.topics.by_name["orders"].partitions) == [0, 1, 2]
    assert image.topics.partition("orders", 2) is not None
    assert image.topics.partition("orders", 3) is None


def test_a_change_of_leader_raises_the_leader_epoch_and_any_change_the_partition_epoch() -> None:
    image = after(
        *topic("orders", 1), PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2], leader=2)
    )
    partition = image.topics.by_name["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 1, 1)
    image = after(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2, 1]), image=image)
    partition = image.topics.by_name["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 1, 2)
    assert partition.isr == (2, 1)


@pytest.mark.parametrize(
    ("replicas", "directories", "after_it"),
    [
        ([3, 1], None, [DIRECTORY, OTHER_DIRECTORY]),
        ([3, 1, 2], None, [ZERO_UUID] * 3),
        ([3], None, [ZERO_UUID]),
        ([3, 1], [], [ZERO_UUID] * 2),
        (None, [], [ZERO_UUID] * 2),
        ([3, 1], [OTHER_DIRECTORY, DIRECTORY], [OTHER_DIRECTORY, DIRECTORY]),
        (None, [OTHER_DIRECTORY, DIRECTORY], [OTHER_DIRECTORY, DIRECTORY]),
        (None, None, [DIRECTORY, OTHER_DIRECTORY]),
    ],
)
def test_directories_that_a_change_leaves_out_stay_in_their_places(
    replicas: list[int] | None, directories: list[bytes] | None, after_it: list[bytes]
) -> None:
    """As in Apache Kafka: whoever writes a change names them, unless the list would be the same."""
    placed = PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2], directories=[DIRECTORY, OTHER_DIRECTORY]
    )
    change = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=replicas, directories=directories
    )
    image = after(TopicRecord(name="orders", topic_id=TOPIC_ID), placed, change)
    assert image.topics.by_name["orders"].partitions[0].directories == tuple(after_it)


class CountedTopics(Mapping[K, TopicImage]):
    """Topics that count how often one of them is looked at."""

    def __init__(self, topics: Mapping[K, TopicImage]) -> None:
        self._topics = topics
        self.looks = 0

    def __getitem__(self, key: K) -> TopicImage:
        self.looks += 1
        return self._topics[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


def eligible(name: str, topic_id: bytes) -> list[TopicRecord | PartitionRecord | PartitionChangeRecord]:
    """A topic with a partition that has eligible leaders, and one that has none."""
    elr = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, eligible_leader_replicas=[2], last_known_elr=[1]
    )
    return [*topic(name, 2, topic_id), elr]


def test_eligible_leaders_are_forgotten_without_a_look_at_other_topics() -> None:
    names = [f"t{number}" for number in range(100)]
    image = after(*(record for name in names for record in eligible(name, name.encode().ljust(16))))
    by_name, by_id = CountedTopics(image.topics.by_name), CountedTopics(image.topics.by_id)
    delta = TopicsDelta(TopicsImage(by_name, by_id))
    for name in names:
        delta.clear_elr(ClearElrRecord(topic_name=name))
    assert by_name.looks + by_id.looks == 3 * len(names)
    assert [list(each.partitions) for each in delta.changed.values()] == [[0]] * len(names)
    partitions = [t.partitions[0] for t in delta.apply().by_name.values()]
    assert {(each.elr, each.last_known_elr) for each in partitions} == {((), ())}


@pytest.mark.parametrize(
    ("name", "kept"),
    [("old", ["changed", "new"]), ("changed", ["new", "old"]), ("new", ["changed", "old"]), ("", [])],
)
def test_eligible_leaders_are_forgotten_of_the_topics_that_are_there_now(name: str, kept: list[str]) -> None:
    old, changed, again = b"o" * 16, b"c" * 16, b"a" * 16
    image = after(*eligible("old", old), *eligible("changed", changed), *eligible("new", b"b" * 16))
    image = after(
        PartitionChangeRecord(partition_id=0, topic_id=changed, eligible_leader_replicas=[1]),
        RemoveTopicRecord(topic_id=b"b" * 16),
        *eligible("new", again),
        ClearElrRecord(topic_name="gone"),
        ClearElrRecord(topic_name=name),
        image=image,
    )
    topics = image.topics.by_name
    assert sorted(topics) == ["changed", "new", "old"]
    assert sorted(each for each in topics if topics[each].partitions[0].elr) == kept


def test_a_deleted_topic_takes_its_configs_along() -> None:
    image = after(
        *topic("orders", 1),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="7"),
        ConfigRecord(resource_type=2, resource_name="other", name="retention.ms", value="8"),
    )
    assert image.configs.of(ConfigResourceType.TOPIC, "orders") == {"retention.ms": "7"}
    image, delta = replay(image, [RemoveTopicRecord(topic_id=TOPIC_ID)], offset=10, epoch=1)
    assert not image.topics.by_name
    assert image.configs.of(ConfigResourceType.TOPIC, "orders") == {}
    assert image.configs.of(ConfigResourceType.TOPIC, "other") == {"retention.ms": "8"}
    assert delta.topics is not None
    assert [gone.name for gone in delta.topics.deleted.values()] == ["orders"]


def test_a_topic_created_again_under_its_name_is_the_new_one() -> None:
    image = after(*topic("orders", 1))
    image, delta = replay(
        image, [RemoveTopicRecord(topic_id=TOPIC_ID), *topic("orders", 2, b"u" * 16)], offset=9, epoch=1
    )
    assert image.topics.by_name["orders"].id == b"u" * 16
    assert TOPIC_ID not in image.topics.by_id
    assert delta.topics is not None
    assert list(delta.topics.deleted) == [TOPIC_ID]
    assert list(delta.topics.changed) == [b"u" * 16]


def test_a_topic_that_lives_only_within_a_batch_was_never_there() -> None:
    image, delta = replay(
        EMPTY_IMAGE, [*topic("orders", 1), RemoveTopicRecord(topic_id=TOPIC_ID)], offset=2, epoch=1
    )
    assert not image.topics.by_id
    assert delta.topics is not None
    assert not delta.topics.deleted
    assert not delta.topics.changed


def test_equal_images_are_not_different() -> None:
    one, other = after(*topic("orders", 3)), after(*topic("orders", 3))
    assert one.topics == other.topics
    assert not one.topics != other.topics  # noqa: SIM202
    assert one.topics != after(*topic("orders", 2)).topics


def test_subjects_that_did_not_change_are_shared() -> None:
    before = after(broker(1, 0), *topic("orders", 100))
    image, delta = replay(
        before, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1)], offset=200, epoch=1
    )
    assert image.topics is before.topics
    assert delta.topics is None
    assert not image.brokers.by_id[1].fenced
    assert before.brokers.by_id[1].fenced


def test_registration_changes_are_three_valued() -> None:
    image = after(broker(1, 0))
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0)
    for fenced, expected in ((0, True), (-1, False), (0, False), (1, True)):
        image = after(msgspec.structs.replace(change, fenced=fenced), image=image)
        assert image.brokers.by_id[1].fenced is expected
    image = after(msgspec.structs.replace(change, in_controlled_shutdown=1, fenced=-1), image=image)
    assert image.brokers.by_id[1].in_controlled_shutdown
    assert not image.brokers.by_id[1].active


def test_a_change_that_names_another_epoch_is_our_bug() -> None:
    image = after(broker(1, 5))
    with pytest.raises(InvariantViolated, match="epoch=6"):
        after(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6, fenced=-1), image=image)
    assert 1 not in after(UnregisterBrokerRecord(broker_id=1, broker_epoch=5), image=image).brokers.by_id


def everything() -> ClusterImage:
    return after(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="a.feature", feature_level=2),
        broker(1, 2),
        broker(2, 3, rack="r", fenced=False, cordoned_log_dirs=[DIRECTORY]),
        *topic("orders", 3),
        *topic("a.b", 1, b"u" * 16),
        ConfigRecord(resource_type=4, resource_name="", name="log.segment.bytes", value="1048577"),
        ClientQuotaRecord(
            entity=[ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            value=10.0,
        ),
        UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"e"),
        NoOpRecord(),
    )


def test_an_image_written_as_records_replays_into_itself() -> None:
    image = everything()
    again = replay(EMPTY_IMAGE, image_records(image), offset=image.offset, epoch=image.epoch)[0]
    assert again == image


def test_what_is_removed_is_not_written() -> None:
    image = after(
        RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        ClientQuotaRecord(
            entity=[ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            remove=True,
        ),
        FeatureLevelRecord(name="a.feature", feature_level=0),
        image=everything(),
    )
    kinds = {type(record).__name__ for record in image_records(image)}
    assert "UserScramCredentialRecord" not in kinds
    assert "ClientQuotaRecord" not in kinds
    assert dict(image.features.levels) == {"metadata.version": 30}


def test_a_snapshot_that_tells_of_known_topics_creates_none_and_keeps_the_index_right() -> None:
    """The next leader of the controllers asks the index who has lost what: a partition that it names too much
    would be taken from a broker that does not have it."""
    image = after(*topic("kept", 2), *topic("gone", 1, b"g" * 16))
    assert image.topics.index.count(Group.IN_ISR, 1) == 3
    changed = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, isr=[2], leader=2)
    later = after(*topic("kept", 2), changed, *topic("new", 1, b"n" * 16))
    snapshot = list(image_records(later))
    loaded, delta = reload(image, snapshot, offset=9, epoch=1, timestamp_ms=0)
    assert loaded.topics.known_index is not None
    fresh = msgspec.structs.replace(loaded.topics, known_index=None)
    assert _members(loaded.topics.index) == _members(fresh.index)
    assert delta.topics is not None
    assert delta.topics.created == {b"n" * 16: "new"}


def test_the_image_before_any_record_keeps_no_index() -> None:
    """It is one object for all nodes of a process. With an index that a controller has asked for, images of
    brokers would have one as well."""
    assert EMPTY_IMAGE.topics.index.count(Group.LED_BY, 1) == 0
    assert EMPTY_IMAGE.topics.known_index is None
    assert after(*topic("one", 2)).topics.known_index is None


def _members(index: PartitionIndex) -> dict[object, dict[bytes, tuple[int, ...]]]:
    return {group: dict(members) for group, members in index.groups.items()}


def batch(base: int, *records: object) -> MetadataBatch:
    return MetadataBatch(base, base + max(len(records), 1) - 1, 1, 5, records)  # type: ignore[arg-type]


def test_a_transaction_over_two_batches_becomes_visible_at_its_end() -> None:
    replayer = ImageReplayer()
    steps = replayer.replay_batch(
        batch(
            0,
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            BeginTransactionRecord(),
            *topic("orders", 1),
        )
    )
    assert [step.image.features.metadata_version for step in steps] == [30]
    assert not replayer.image.topics.by_name
    assert replayer.in_transaction
    steps = replayer.replay_batch(batch(4, *topic("more", 1, b"u" * 16), EndTransactionRecord()))
    assert len(steps) == 1
    assert sorted(steps[0].image.topics.by_name) == ["more", "orders"]
    assert replayer.image.offset == 6


def test_an_aborted_transaction_never_happened() -> None:
    replayer = ImageReplayer()
    replayer.replay_batch(batch(0, BeginTransactionRecord(name="x"), *topic("orders", 1)))
    assert replayer.replay_batch(batch(3, AbortTransactionRecord(reason="no"), *topic("kept", 1))) != []
    assert list(replayer.image.topics.by_name) == ["kept"]


def test_a_control_batch_moves_the_offset_alone() -> None:
    replayer = ImageReplayer(everything())
    steps = replayer.replay_batch(MetadataBatch(50, 52, 3, 9, ()))
    assert steps == []
    assert (replayer.image.offset, replayer.image.epoch, replayer.image.timestamp_ms) == (52, 3, 9)
