"""Where a broker's replicas lie, as it tells the controller, and what follows when a directory fails."""

from __future__ import annotations

from typing import Final

from controller.metadata.image.brokers import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from tests.support.rigs.controllers import ControllerFixture

FIRST, SECOND, UNKNOWN = b"1" * 16, b"2" * 16, b"u" * 16
NOWHERE: Final = UNASSIGNED_DIRECTORY


class World:
    """One broker with two directories; topic `orders` has three partitions."""

    def __init__(self) -> None:
        self.fixture = ControllerFixture()
        self.epoch = self.fixture.bring_up(1, log_dirs=[FIRST, SECOND])[1]
        topic = CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
        self.fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
        self.topic_id = self.fixture.controller.image.topics.by_name["orders"].id

    def assign(
        self, places: dict[bytes, list[int]], topic_id: bytes | None = None, epoch: int | None = None
    ) -> AssignReplicasToDirsResponse:
        cls = AssignReplicasToDirsRequest
        request = cls(1, self.epoch if epoch is None else epoch)
        for directory, indexes in places.items():
            topic = cls.TopicData(topic_id or self.topic_id, [cls.PartitionData(index) for index in indexes])
            request.directories.append(cls.DirectoryData(directory, [topic]))
        response = self.fixture.call(ApiKey.ASSIGN_REPLICAS_TO_DIRS, request)
        assert isinstance(response, AssignReplicasToDirsResponse)
        return response

    def places(self) -> list[bytes]:
        partitions = self.fixture.controller.image.topics.by_name["orders"].partitions
        return [partitions[index].directories[0] for index in range(3)]

    def leaders(self) -> list[int]:
        partitions = self.fixture.controller.image.topics.by_name["orders"].partitions
        return [partitions[index].leader for index in range(3)]


def errors(response: AssignReplicasToDirsResponse) -> list[int]:
    return [
        partition.error_code
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def test_replicas_are_assigned_once() -> None:
    world = World()
    assert world.places() == [NOWHERE] * 3
    assert errors(world.assign({FIRST: [0, 2], SECOND: [1]})) == [0, 0, 0]
    assert world.places() == [FIRST, SECOND, FIRST]
    end = world.fixture.log.end_offset
    assert errors(world.assign({FIRST: [0, 2]})) == [0, 0]
    assert world.fixture.log.end_offset == end, "nothing new, nothing written"


def test_a_directory_that_fails_takes_its_leaderships_along_and_brings_them_back() -> None:
    world = World()
    world.assign({FIRST: [0, 2], SECOND: [1]})
    world.fixture.heartbeat(1, world.epoch, offline_log_dirs=[FIRST])
    assert world.leaders() == [-1, 1, -1]
    assert world.fixture.controller.image.brokers.by_id[1].log_dirs == (SECOND,)


def test_an_assignment_to_a_directory_that_has_failed_already() -> None:
    world = World()
    world.fixture.heartbeat(1, world.epoch, offline_log_dirs=[FIRST])
    assert world.leaders() == [1, 1, 1], "nobody knew what lay there"
    assert errors(world.assign({FIRST: [0], SECOND: [1]})) == [0, 0]
    assert world.leaders() == [-1, 1, 1]


def test_a_replica_that_its_broker_has_lost_leads_again_when_it_is_back() -> None:
    world = World()
    world.assign({FIRST: [0, 2], SECOND: [1]})
    assert errors(world.assign({LOST_DIRECTORY: [0]})) == [0]
    assert (world.places(), world.leaders()) == ([LOST_DIRECTORY, SECOND, FIRST], [-1, 1, 1])
    assert errors(world.assign({FIRST: [0]})) == [0]
    assert (world.places(), world.leaders()) == ([FIRST, SECOND, FIRST], [1, 1, 1])


def test_a_replica_that_is_back_on_a_fenced_broker_leads_when_the_broker_is_unfenced() -> None:
    world = World()
    world.assign({LOST_DIRECTORY: [0]})
    world.fixture.heartbeat(1, world.epoch, want_fence=True)
    world.assign({FIRST: [0]})
    assert (world.places()[0], world.leaders()[0]) == (FIRST, -1)
    world.fixture.heartbeat(1, world.epoch)
    assert world.leaders()[0] == 1


def test_what_is_not_there_is_said_for_each() -> None:
    world = World()
    assert errors(world.assign({FIRST: [0, 9]})) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert errors(world.assign({FIRST: [0]}, topic_id=UNKNOWN)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert world.assign({FIRST: [1]}, epoch=world.epoch + 7).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world.places() == [FIRST, NOWHERE, NOWHERE]
