"""DescribeLogDirs, AlterReplicaLogDirs and DescribeProducers where one healthy broker cannot show them."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from broker.handlers import alter_replica_log_dirs, describe_log_dirs, describe_producers
from broker.metadata.publishers import BrokerConfigPublisher, CordonedDirectoriesPublisher
from broker.replication.replica_manager import ReplicaManager
from controller.metadata.image.brokers import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from controller.metadata.image.cluster_image import EMPTY_IMAGE, replay
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.metadata_log.cluster import ConfigRecord, FeatureLevelRecord
from protocol.metadata_log.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from protocol.serving.pending import AnswerTooLong
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import VOLUME_BYTES, MemoryFiles
from storage.meta_properties import MetaProperties, encode_meta_properties
from storage.partition_log import PartitionLog
from tests.support.rigs.controllers import one_node_config
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.support.rigs.storage_world import NoRandomSource, RunsAtOnce

A, B, C, NOBODYS = b"a" * 16, b"b" * 16, b"c" * 16, b"n" * 16
"""The ids of /a, /b, /c, and of a directory that is none of them."""


class Directories(HandlerRig):
    """The rig with a log manager on /a and /b, and a disk that may fail."""

    def __init__(self, disk: FaultyFiles | None = None, paths: Sequence[str] = ("/a", "/b")) -> None:
        super().__init__()
        if disk is None:
            disk = FaultyFiles(MemoryFiles())
            for path, directory_id in zip(("/a", "/b", "/c"), (A, B, C), strict=True):
                properties = MetaProperties("cluster", 1, directory_id)
                disk.makedirs(path)
                disk.write_atomically(f"{path}/meta.properties", encode_meta_properties(properties, 0))
        self.disk = disk
        self.manager = LogManager(
            disk, paths, clock=self.clock, random_source=NoRandomSource(), offload=RunsAtOnce()
        )
        self.manager.start()
        self.replicas = ReplicaManager(
            node_id=1, logs=self.manager, config=self.config, metadata=self.metadata, clock=self.clock
        )
        self.services.replicas = self.replicas
        self.services.logs = self.manager

    def log(self, name: str, index: int = 0) -> PartitionLog:
        return self.manager.logs[name, index]

    def described(self) -> DescribeLogDirsResponse:
        return describe_log_dirs.handle(self.services, self.context(35, 5), DescribeLogDirsRequest(None))

    def moved(self, path: str, topic: str, index: int = 0) -> int:
        cls = AlterReplicaLogDirsRequest
        request = cls([cls.AlterReplicaLogDir(path, [cls.AlterReplicaLogDirTopic(topic, [index])])])
        (result,) = alter_replica_log_dirs.handle(self.services, self.context(34, 2), request).results
        assert (result.topic_name, result.partitions[0].partition_index) == (topic, index)
        return result.partitions[0].error_code


@pytest.fixture
def rig() -> Directories:
    return Directories()


def test_sizes_room_and_lag(rig: Directories) -> None:
    rig.topic("t", 2)
    rig.write("t", 1, size_bytes=100)
    rig.manager.create("stray", 0, topic_id(9), LogConfig())
    first, second = rig.described().results
    lying = {
        (result.log_dir, topic.name, each.partition_index): (each.partition_size, each.offset_lag)
        for result in (first, second)
        for topic in result.topics
        for each in topic.partitions
    }
    size = rig.manager.logs["t", 1].size_bytes
    assert size > 100
    assert lying == {("/a", "t", 0): (0, 0), ("/b", "t", 1): (size, 0), ("/a", "stray", 0): (0, -1)}
    assert first.total_bytes == VOLUME_BYTES
    assert 0 < first.usable_bytes <= VOLUME_BYTES - size


def test_many_logs_are_looked_at_in_turns(rig: Directories, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.topic("t", 5)
    monkeypatch.setattr(describe_log_dirs, "_LOGS_AT_ONCE", 2)
    everything = DescribeLogDirsRequest(None)
    turns = describe_log_dirs.handle.turns(rig.services, rig.context(35, 5), everything)  # type: ignore[attr-defined]
    next(turns)
    rig.manager.create("new", 0, topic_id(9), LogConfig())
    assert list(turns) == [None]
    assert sum(len(topic.partitions) for each in rig.described().results for topic in each.topics) == 6


def test_a_disk_that_cannot_be_asked(rig: Directories) -> None:
    rig.topic("t", 2)
    rig.disk.faults.append(Fault("space", path_part="/a", error=errno.EIO))
    first, second = rig.described().results
    assert (first.error_code, first.log_dir, first.topics) == (ErrorCode.UNKNOWN_SERVER_ERROR, "/a", [])
    assert (first.total_bytes, first.usable_bytes) == (-1, -1)
    assert [topic.name for topic in second.topics] == ["t"]


def test_a_replica_of_another_broker_is_wished_here(rig: Directories) -> None:
    rig.topic("t", replicas=(2,), leader=2)
    assert rig.moved("/b", "t") == ErrorCode.REPLICA_NOT_AVAILABLE
    assert rig.moved("/b", "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.topic("none", number=3)
    home = rig.manager.directory_of("none", 0)
    assert home is not None
    assert home.path == "/b"


def test_cordoned_directories_follow_the_configs_and_the_metadata_version(rig: Directories) -> None:
    config = one_node_config(log__dirs="/a,/b/", cordoned__log__dirs="/b/")
    configs = BrokerConfigPublisher(config, node_id=1)
    told: list[list[bytes] | None] = []
    cordoned: CordonedDirectoriesPublisher = CordonedDirectoriesPublisher(
        configs, rig.manager, lambda: told.append(cordoned.directory_ids())
    )
    image = EMPTY_IMAGE
    assert cordoned.directory_ids() is None

    def follow(record: Message) -> list[str]:
        """The paths of the directories that are cordoned after this record."""
        nonlocal image
        image, delta = replay(image, [record], offset=image.offset + 1, epoch=1)
        configs.publish(delta, image)
        cordoned.publish(delta, image)
        return [result.log_dir for result in rig.described().results if result.is_cordoned]

    def setting(value: str | None) -> ConfigRecord:
        return ConfigRecord(4, "1", "cordoned.log.dirs", value)

    assert follow(FeatureLevelRecord("metadata.version", 29)) == []
    assert (cordoned.directory_ids(), told) == (None, [])
    assert follow(FeatureLevelRecord("metadata.version", 30)) == ["/b"]
    assert follow(setting("*")) == ["/a", "/b"]
    assert follow(setting("/a")) == ["/a"]
    assert follow(setting("/a")) == ["/a"]
    assert follow(setting("")) == []
    assert follow(setting(None)) == ["/b"]
    assert told == [[B], [A, B], [A], [], [B]]


def test_a_replica_does_not_move_to_a_cordoned_directory(rig: Directories) -> None:
    rig.topic("t")
    assert home_of(rig, "t") == "/a"
    rig.manager.cordon(["/b"])
    assert rig.moved("/b", "t") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert rig.moved("/b", "none") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    rig.topic("none", number=3)
    assert home_of(rig, "none") == "/a", "the wish was not kept"
    rig.manager.cordon([])
    assert rig.moved("/b", "t") == ErrorCode.NONE


def test_a_replica_whose_log_could_not_be_made(rig: Directories) -> None:
    rig.disk.faults.append(Fault("makedirs", path_part="/a/t-0", error=errno.EIO))
    rig.topic("t")
    assert rig.moved("/a", "t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.moved("/c", "t") == ErrorCode.LOG_DIR_NOT_FOUND


def test_any_replica_tells_of_its_producers(rig: Directories) -> None:
    rig.topic("t", replicas=(1, 2), leader=2, leader_epoch=4)
    batch = rig.batch(3, producer_id=8, producer_epoch=2, base_sequence=5, base_offset=0)
    rig.manager.logs["t", 0].append_as_follower(batch, rig.clock.wall_ms())
    request = DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", [0])])
    (topic,) = describe_producers.handle(rig.services, rig.context(61, 0), request).topics
    (told,) = topic.partitions
    assert (told.error_code, told.error_message) == (0, None)
    (producer,) = told.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (8, 2, 7)
    assert (producer.last_timestamp, producer.coordinator_epoch) == (rig.clock.wall_ms(), -1)
    assert producer.current_txn_start_offset == -1


def with_producers(rig: Directories, partitions: int, producers: int) -> None:
    """A topic "t", to each partition of which so many producers have written."""
    rig.topic("t", partitions, replicas=(1, 2), leader=2, leader_epoch=4)
    for index in range(partitions):
        for producer_id in range(producers):
            batch = rig.batch(
                1, producer_id=producer_id, producer_epoch=0, base_sequence=0, base_offset=producer_id
            )
            rig.manager.logs["t", index].append_as_follower(batch, rig.clock.wall_ms())


def test_a_partition_that_is_named_again_is_looked_at_once(rig: Directories) -> None:
    with_producers(rig, 1, 3)
    request = DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", [0, 7, 0, 7, 0])])
    (topic,) = describe_producers.handle(rig.services, rig.context(61, 0), request).topics
    assert [told.partition_index for told in topic.partitions] == [0, 7, 0, 7, 0]
    assert [len(told.active_producers) for told in topic.partitions] == [3, 0, 3, 0, 3]
    assert len({id(told) for told in topic.partitions}) == 2


def test_producers_of_many_partitions_are_bounded_together(
    rig: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_producers(rig, 4, 3)
    monkeypatch.setattr(describe_producers, "PRODUCERS_PER_ANSWER", 9)

    def asked(*indexes: list[int]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            [DescribeProducersRequest.TopicRequest("t", each) for each in indexes]
        )

    describe_producers.handle(rig.services, rig.context(61, 0), asked([0, 1, 2, 0, 1, 2]))
    for too_much in (asked([0, 1, 2, 3]), asked([0, 1], [2, 3])):
        with pytest.raises(AnswerTooLong, match="more than 9 producers"):
            describe_producers.handle(rig.services, rig.context(61, 0), too_much)


def test_producers_of_one_partition_are_told_of_in_turns(
    rig: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_producers(rig, 1, 5)
    monkeypatch.setattr(describe_producers, "_PRODUCERS_AT_ONCE", 2)
    request = DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", [0])])
    turns = describe_producers.handle.turns(rig.services, rig.context(61, 0), request)  # type: ignore[attr-defined]
    assert len(list(turns)) == 3 + 2, "two, two and one of its producers, the partition, the topic"


def fail(rig: Directories, path: str) -> None:
    """The directory's disk breaks, and housekeeping acts on it."""

    def offline(key: tuple[str, int], reason: str) -> None:
        rig.replicas.log_went_offline(*key)

    rig.manager.watch(offline, lambda failed, keys: None)
    rig.manager.suspect(f"{path}/x", OSError(errno.EIO, "broken"))
    rig.manager.housekeeping()


def home_of(rig: Directories, topic: str) -> str:
    home = rig.manager.directory_of(topic, 0)
    assert home is not None
    return home.path


def test_a_topic_made_anew_after_its_directory_failed_lies_in_the_other() -> None:
    rig = Directories()
    old = rig.topic("t")
    rig.write("t", count=3)
    failing = home_of(rig, "t")
    fail(rig, failing)
    assert rig.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    rig.remove_topic(old)
    rig.topic("t", number=2)
    assert rig.write("t") == 0
    assert home_of(rig, "t") != failing


def started_without_a(paths: Sequence[str] = ("/a", "/b")) -> Directories:
    """A broker that has written three records into t-0 in /a, stopped, and cannot use /a any more."""
    rig = Directories()
    rig.topic("t")
    rig.write("t", count=3)
    assert home_of(rig, "t") == "/a"
    rig.manager.shut_down()
    rig.disk.faults = [Fault("lock", count=10**9, path_part="/a/", error=errno.EROFS)]
    return Directories(rig.disk, paths)


def names_of(rig: Directories, topic: str) -> list[str]:
    """The partition's directories, on all disks."""
    return [
        f"{path}/{name}"
        for path in ("/a", "/b", "/c")
        for name in rig.disk.subdirectories(path)
        if name.startswith(f"{topic}-0")
    ]


@pytest.mark.parametrize("directory_id", [A, NOBODYS, MIGRATING_DIRECTORY, LOST_DIRECTORY])
def test_a_log_that_may_be_in_a_failed_directory_is_not_made_anew(directory_id: bytes) -> None:
    rig = started_without_a()
    made = rig.topic("t", directory_id=directory_id)
    changed = PartitionChangeRecord(partition_id=0, topic_id=made, leader=1)
    assert rig.apply(changed) == []
    assert rig.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (rig.replicas.offline_count, list(rig.replicas.without_space)) == (1, [])
    assert rig.moved("/b", "t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert (names_of(rig, "t"), rig.manager.directory_of("t", 0)) == (["/a/t-0"], None)
    rig.manager.shut_down()
    rig.disk.faults = []
    again = Directories(rig.disk)
    again.topic("t", directory_id=directory_id)
    assert (again.log("t").log_end_offset, home_of(again, "t")) == (3, "/a")
    assert names_of(again, "t") == ["/a/t-0"], "there were never two"


def test_a_log_that_may_be_in_a_failed_directory_is_not_made_anew_at_levels_without_directory_ids() -> None:
    rig = started_without_a()
    rig.apply(FeatureLevelRecord("metadata.version", 16), TopicRecord("t", topic_id(1)), led(topic_id(1)))
    assert rig.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert names_of(rig, "t") == ["/a/t-0"]


def test_beside_a_failed_directory_new_logs_are_made_where_the_controller_says() -> None:
    rig = started_without_a(("/a", "/b", "/c"))
    rig.topic("u", number=2)
    assert rig.write("u") == 0, "the controller leaves it to the broker"
    assert home_of(rig, "u") == "/b"
    rig.topic("v", number=3, directory_id=B)
    assert rig.write("v") == 0
    assert home_of(rig, "v") == "/b", "though /c has fewer logs"


def test_a_directory_that_the_operator_has_given_up_holds_up_nothing() -> None:
    rig = started_without_a(["/b"])
    rig.topic("t", directory_id=A)
    assert rig.write("t") == 0
    assert home_of(rig, "t") == "/b"


def test_a_replica_that_leaves_and_comes_again_is_not_looked_for_in_a_failed_directory() -> None:
    rig = started_without_a()
    made = rig.topic("t", replicas=(1, 2), directory_id=A)

    def move(replicas: list[int], directories: list[bytes]) -> None:
        change = PartitionChangeRecord(0, made, replicas=replicas, isr=[2], leader=2, directories=directories)
        rig.apply(change)

    move([2], [NOBODYS])
    assert rig.replicas.offline_count == 0
    move([2, 1], [NOBODYS, UNASSIGNED_DIRECTORY])
    assert (rig.log("t").log_end_offset, home_of(rig, "t")) == (0, "/b")


def test_a_log_that_a_start_could_not_open_goes_with_its_topic() -> None:
    rig = Directories()
    rig.topic("t")
    rig.write("t", count=3)
    home = home_of(rig, "t")
    rig.manager.shut_down()
    rig.disk.faults = [Fault("read", path_part="partition.metadata")]
    again = Directories(rig.disk)
    again.apply(TopicRecord("t", topic_id(1)), led(topic_id(1)))
    assert again.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    again.disk.faults = []
    again.remove_topic(topic_id(1))
    again.topic("t", number=2)
    assert again.write("t") == 0
    again.clock.move(100_000)
    again.manager.housekeeping()
    left = [name for name in again.disk.subdirectories(home) if name.startswith("t-0")]
    assert left == (["t-0"] if home_of(again, "t") == home else [])
    assert again.manager.offline == {}


@pytest.mark.parametrize("new_is_longer", [False, True])
def test_of_two_topics_of_a_name_the_one_that_is_in_the_metadata_is_opened(new_is_longer: bool) -> None:
    rig = Directories()
    old = rig.topic("t")
    rig.write("t", count=3)
    failing = home_of(rig, "t")
    fail(rig, failing)
    rig.remove_topic(old)
    rig.topic("t", number=2)
    rig.write("t", count=5 if new_is_longer else 1)
    rig.manager.shut_down()

    again = Directories(rig.disk)
    again.apply(TopicRecord("t", topic_id(2)), led(topic_id(2)))
    assert again.replicas.by_name["t", 0].topic_id == topic_id(2)
    assert again.log("t").log_end_offset == (5 if new_is_longer else 1)
    again.manager.set_rivals_aside()
    for log in again.manager.unclaimed():
        again.manager.set_aside(log.topic, log.partition)
    names = again.disk.subdirectories(failing)
    assert "t-0" not in names
    assert [name for name in names if name.startswith("t-0.")], "the earlier topic's log is still somewhere"


def led(made: bytes) -> PartitionRecord:
    return PartitionRecord(partition_id=0, topic_id=made, replicas=[1], isr=[1], leader=1, leader_epoch=0)
