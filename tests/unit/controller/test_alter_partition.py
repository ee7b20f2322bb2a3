"""AlterPartition at the controller: one test per rule of Kafka's, from the request to the image."""

from __future__ import annotations

from typing import Any, Final

import pytest

from controller.metadata.image.topics import PartitionRegistration
from controller.subjects.result import Decision
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.registry import ApiKey
from tests.support.rigs.controllers import ControllerFixture

Request = AlterPartitionRequest
Reassignments = AlterPartitionReassignmentsRequest
SHOWN: Final = "leader leader_epoch isr partition_epoch leader_recovery_state"


class World:
    """Brokers 1 to 4 are up; the only partition of `t` lies on 1, 2 and 3, and 1 leads it in epoch 0."""

    def __init__(self) -> None:
        self.fixture = ControllerFixture()
        self.epochs = {broker: self.fixture.bring_up(broker)[broker] for broker in (1, 2, 3, 4)}
        assigned = [CreateTopicsRequest.CreatableReplicaAssignment(0, [1, 2, 3])]
        topic = CreateTopicsRequest.CreatableTopic("t", -1, -1, assigned)
        self.fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic]))
        self.topic_id = self.fixture.controller.image.topics.by_name["t"].id

    @property
    def partition(self) -> PartitionRegistration:
        return self.fixture.controller.image.topics.by_id[self.topic_id].partitions[0]

    def ask(
        self,
        *isr: int,
        version: int = 3,
        broker: int = 1,
        broker_epoch: int | None = None,
        epochs: dict[int, int] | None = None,
        topic_id: bytes | None = None,
        **changes: Any,
    ) -> AlterPartitionResponse:
        """A request for this ISR in the partition's own epochs, but for the changes."""
        known = self.epochs | (epochs or {})
        now = self.partition
        wish = Request.PartitionData(
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            leader_recovery_state=now.leader_recovery_state,
        )
        if version >= 3:
            wish.new_isr_with_epochs = [Request.BrokerState(each, known.get(each, -1)) for each in isr]
        else:
            wish.new_isr = list(isr)
        for name, value in changes.items():
            setattr(wish, name, value)
        request = Request(
            broker,
            known.get(broker, -1) if broker_epoch is None else broker_epoch,
            [Request.TopicData(topic_id or self.topic_id, [wish])],
        )
        response: AlterPartitionResponse = self.fixture.call(ApiKey.ALTER_PARTITION, request, version)
        return response

    def altered(self, *isr: int, **changes: Any) -> AlterPartitionResponse.PartitionData:
        response = self.ask(*isr, **changes)
        assert response.error_code == 0
        ((answer,),) = [topic.partitions for topic in response.topics]
        return answer

    def refused(self, *isr: int, **changes: Any) -> ErrorCode:
        """The error code of the partition; nothing may have been written."""
        end = self.fixture.log.end_offset
        answer = self.altered(*isr, **changes)
        if answer.error_code:
            assert self.fixture.log.end_offset == end, "what is refused writes nothing"
            assert (answer.leader_id, answer.isr, answer.partition_epoch) == (0, [], 0)
        return ErrorCode(answer.error_code)

    def move(self, *replicas: int) -> None:
        target = Reassignments.ReassignablePartition(0, list(replicas))
        request = Reassignments(30_000, topics=[Reassignments.ReassignableTopic("t", [target])])
        assert not self.fixture.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request).error_code


@pytest.fixture
def world() -> World:
    return World()


def test_a_smaller_isr_raises_the_partition_epoch_and_not_the_leaders(world: World) -> None:
    answer = world.altered(1, 2)
    assert (answer.leader_id, answer.leader_epoch, answer.isr, answer.partition_epoch) == (1, 0, [1, 2], 1)
    assert (world.partition.isr, world.partition.leader_epoch, world.partition.partition_epoch) == (
        (1, 2),
        0,
        1,
    )


def test_a_replica_comes_back(world: World) -> None:
    world.altered(1)
    answer = world.altered(1, 3)
    assert (answer.isr, answer.partition_epoch) == ([1, 3], 2)
    assert world.partition.isr == (1, 3)


def test_version_2_names_no_epochs(world: World) -> None:
    assert world.altered(1, 2, version=2).isr == [1, 2]
    assert world.partition.isr == (1, 2)


def test_the_isr_that_is_in_force_writes_nothing(world: World) -> None:
    end = world.fixture.log.end_offset
    answer = world.altered(1, 2, 3)
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2, 3], 0)
    assert world.fixture.log.end_offset == end


@pytest.mark.parametrize(("broker", "epoch"), [(1, 1), (9, -1)])
def test_a_stale_broker_epoch_refuses_the_whole_request(world: World, broker: int, epoch: int) -> None:
    response = world.ask(1, 2, broker=broker, broker_epoch=epoch)
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert world.partition.isr == (1, 2, 3)


def test_what_is_not_there(world: World) -> None:
    assert world.refused(1, topic_id=b"?" * 16) == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.refused(1, topic_id=bytes(16)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.refused(1, partition_index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_knows_more_should_look_for_the_newest_controller(world: World) -> None:
    assert world.refused(1, leader_epoch=1) == ErrorCode.NOT_CONTROLLER
    assert world.refused(1, partition_epoch=1) == ErrorCode.NOT_CONTROLLER


def test_an_older_leader_epoch_is_fenced(world: World) -> None:
    world.fixture.heartbeat(1, world.epochs[1], want_fence=True)
    assert (world.partition.leader, world.partition.leader_epoch) == (2, 1)
    assert world.refused(1, 2, leader_epoch=0) == ErrorCode.FENCED_LEADER_EPOCH


def test_only_the_leader_may_ask(world: World) -> None:
    assert world.refused(1, 2, broker=2) == ErrorCode.INVALID_REQUEST


def test_an_older_partition_epoch_is_an_invalid_update(world: World) -> None:
    world.altered(1, 2)
    assert world.refused(1, 2, 3, partition_epoch=0) == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 4), (1, 2, 2)], ids=["empty", "no leader", "other", "twice"])
@pytest.mark.parametrize("version", [2, 3])
def test_an_isr_that_cannot_be(world: World, isr: tuple[int, ...], version: int) -> None:
    assert world.refused(*isr, version=version) == ErrorCode.INVALID_REQUEST


def test_a_replica_that_is_fenced_is_not_eligible(world: World) -> None:
    world.fixture.heartbeat(3, world.epochs[3], want_fence=True)
    assert world.partition.isr == (1, 2)
    assert world.refused(1, 2, 3) == ErrorCode.INELIGIBLE_REPLICA
    assert world.refused(1, 2, 3, version=2) == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_is_shutting_down_is_not_eligible(world: World) -> None:
    led = [CreateTopicsRequest.CreatableReplicaAssignment(0, [3])]
    world.fixture.call(
        ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("its", -1, -1, led)])
    )
    world.fixture.heartbeat(3, world.epochs[3], want_shut_down=True)
    registration = world.fixture.controller.image.brokers.by_id[3]
    assert (registration.fenced, registration.in_controlled_shutdown) == (False, True)
    assert world.refused(1, 2, 3) == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_of_an_earlier_life_of_its_broker_is_not_eligible(world: World) -> None:
    world.altered(1, 2)
    assert world.refused(1, 2, 3, epochs={3: world.epochs[3] - 1}) == ErrorCode.INELIGIBLE_REPLICA
    assert world.refused(1, 2, 3, epochs={3: -1}) == ErrorCode.NONE, (
        "an epoch that is not told is not checked"
    )


def test_a_replica_that_is_not_registered_is_not_eligible(world: World) -> None:
    world.move(1, 2, 3, 4)
    world.fixture.heartbeat(4, world.epochs[4], want_fence=True)
    assert not world.fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(4)).error_code
    assert world.refused(1, 2, 3, 4) == ErrorCode.INELIGIBLE_REPLICA


def test_the_change_that_brings_the_last_comer_in_ends_a_reassignment(world: World) -> None:
    world.move(1, 2, 4)
    assert (world.partition.adding, world.partition.removing) == ((4,), (3,))
    answer = world.altered(1, 2, 3, 4)
    assert (answer.error_code, answer.isr, answer.leader_epoch) == (0, [1, 2, 4], 1)
    now = world.partition
    assert (now.replicas, now.isr, now.adding, now.removing) == ((1, 2, 4), (1, 2, 4), (), ())


def test_a_reassignment_that_takes_the_leadership_away_is_told_and_done(world: World) -> None:
    world.move(2, 3, 4)
    answer = world.altered(1, 2, 3, 4)
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
    now = world.partition
    assert (now.replicas, now.isr, now.leader, now.leader_epoch) == ((2, 3, 4), (2, 3, 4), 2, 1)


class Recovering(World):
    """1 leads alone after an unclean election, and has not said yet that it has recovered."""

    def __init__(self) -> None:
        super().__init__()
        self.fixture.controller.decide(self._recover, lambda code: code)
        self.fixture.settle()

    def _recover(self, image: Any) -> Any:
        record = PartitionChangeRecord(0, self.topic_id, isr=[1], leader=1, leader_recovery_state=1)
        return Decision([record], ErrorCode.NONE)


def test_a_leader_that_recovers_stays_alone_until_it_has() -> None:
    world = Recovering()
    assert (world.partition.isr, world.partition.leader_recovery_state) == ((1,), 1)
    assert world.refused(1, 2) == ErrorCode.INVALID_REQUEST
    answer = world.altered(1, leader_recovery_state=0)
    assert (answer.error_code, answer.leader_recovery_state, answer.partition_epoch) == (0, 0, 2)
    assert world.partition.leader_recovery_state == 0
    assert world.altered(1, 2).isr == [1, 2]


def test_whoever_recovered_does_not_recover_again(world: World) -> None:
    assert world.refused(1, leader_recovery_state=1) == ErrorCode.INVALID_REQUEST


def test_a_recovery_state_that_does_not_exist_refuses_the_whole_request(world: World) -> None:
    assert world.ask(1, leader_recovery_state=7).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_controller_that_does_not_lead_decides_nothing(world: World) -> None:
    world.fixture.controller.shut_down()
    assert world.ask(1, 2).error_code == ErrorCode.NOT_CONTROLLER
