"""What a broker tells a controller in memory of the directories of its replicas."""

from __future__ import annotations

import errno

import pytest

from broker.controller_channel.directory_assignments import DirectoryAssignments
from broker.controller_channel.forwarding import ControllerChannel
from controller.metadata.image.brokers import LOST_DIRECTORY
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, image_records, replay
from controller.metadata.metadata_version import DIRECTORIES_LEVEL
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.metadata_log.cluster import FeatureLevelRecord
from protocol.registry import ApiKey
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.meta_properties import MetaProperties, encode_meta_properties
from tests.support.rigs.controllers import ControllerFixture
from tests.support.rigs.peer_channels import ControllerPeer
from tests.support.rigs.storage_world import NoRandomSource, RunsAtOnce

A, B = b"a" * 16, b"b" * 16
"""The ids of the directories /a and /b."""


class World:
    """Partition 0 of topic `t` is on brokers 1 and 2, and broker 1 leads it. This is broker 1."""

    def __init__(self) -> None:
        self.fixture = ControllerFixture()
        self.fixture.bring_up(2)
        self.epoch = self.fixture.bring_up(1, log_dirs=[A, B])[1]
        topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)
        topic.assignments = [CreateTopicsRequest.CreatableReplicaAssignment(0, [1, 2])]
        self.fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
        self.files = FaultyFiles(MemoryFiles())
        for path, directory_id in (("/a", A), ("/b", B)):
            properties = MetaProperties("cluster", 1, directory_id)
            self.files.makedirs(path)
            self.files.write_atomically(f"{path}/meta.properties", encode_meta_properties(properties, 0))
        self.peer = ControllerPeer(self.fixture)
        self.start()
        self.manager.create("t", 0, self.image.topics.by_name["t"].id, LogConfig())
        self.publish()

    def start(self) -> None:
        """Opens the logs, and knows no image yet."""
        clock, timers = self.fixture.clock, self.fixture.timers
        self.manager = LogManager(
            self.files, ["/a", "/b"], clock=clock, random_source=NoRandomSource(), offload=RunsAtOnce()
        )
        self.manager.start()
        channel = ControllerChannel(self.peer, clock=clock, timers=timers, request_timeout_ms=30_000)
        self.assignments = DirectoryAssignments(
            1, channel, clock, timers, broker_epoch=lambda: self.epoch, logs=self.manager
        )
        self.manager.watch(
            lambda key, _reason: self.assignments.changed(self.image, *key), lambda _failed, _keys: None
        )

    def start_again(self) -> None:
        self.manager.shut_down()
        self.start()
        self.publish()

    @property
    def image(self) -> ClusterImage:
        return self.fixture.controller.image

    def publish(self) -> None:
        """The newest image as the first of a life, so that all is compared."""
        _, delta = replay(EMPTY_IMAGE, image_records(self.image), offset=1, epoch=1)
        self.assignments.publish(delta, self.image)
        self.peer.advance(1)

    def fail_alone(self) -> None:
        """The directory of the log cannot be renamed, so its files are not as they should be."""
        self.files.faults = [Fault("rename", path_part="/t-0", error=errno.ENOSPC)]
        with pytest.raises(OSError, match="No space"):
            self.manager.delete_async("t", 0)
        self.peer.advance(1)

    def expect(self, directory_id: bytes, leader: int, isr: list[int]) -> None:
        """What the controller knows; to tell it again changes nothing."""
        found = self.image.topics.by_name["t"].partitions[0]
        assert (found.directories[0], found.leader, list(found.isr)) == (directory_id, leader, isr)
        sent = len(self.peer.sent)
        self.publish()
        assert len(self.peer.sent) == sent


def test_the_controller_is_told_where_a_replica_is() -> None:
    World().expect(A, leader=1, isr=[1, 2])


def test_a_log_that_fails_alone_leads_no_more() -> None:
    world = World()
    world.fail_alone()
    world.expect(LOST_DIRECTORY, leader=2, isr=[2])
    world.start_again()
    world.expect(A, leader=2, isr=[2])


def test_a_log_that_a_start_cannot_open_is_lost_until_one_can() -> None:
    world = World()
    world.files.faults = [Fault("read", path_part="partition.metadata")]
    world.start_again()
    world.expect(LOST_DIRECTORY, leader=2, isr=[2])
    world.start_again()
    world.expect(A, leader=2, isr=[2])


def test_the_logs_of_a_directory_that_fails_are_not_told_one_by_one() -> None:
    world = World()
    sent = len(world.peer.sent)
    world.manager.suspect("/a/t-0", OSError(errno.EIO, "broken"))
    world.manager.housekeeping()
    world.peer.advance(1)
    assert ("t", 0) in world.manager.offline
    assert len(world.peer.sent) == sent, "a heartbeat names the directory"
    world.expect(A, leader=1, isr=[1, 2])


def test_a_log_that_failed_alone_stays_lost_when_its_directory_fails() -> None:
    world = World()
    world.fail_alone()
    world.manager.suspect("/a/t-0", OSError(errno.EIO, "broken"))
    world.manager.housekeeping()
    world.expect(LOST_DIRECTORY, leader=2, isr=[2])


def test_a_level_without_directories_is_told_nothing() -> None:
    world = World()
    level = FeatureLevelRecord("metadata.version", DIRECTORIES_LEVEL - 1)
    image, _ = replay(world.image, [level], offset=world.image.offset + 1, epoch=1)
    world.manager.watch(lambda key, _reason: world.assignments.changed(image, *key), lambda *_: None)
    sent = len(world.peer.sent)
    world.fail_alone()
    assert len(world.peer.sent) == sent
