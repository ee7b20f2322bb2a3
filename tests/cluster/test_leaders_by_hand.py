"""Two brokers that the test plays over the wire, one of them a leader that asks for an ISR that cannot be."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import OURS
from tests.support.brokers.played_broker import PlayedBroker
from tests.support.clients.wire_client import WireClient

LEADER, FOLLOWER = 2, 3


class Stage:
    """Node 1 is the controller. Broker 2 leads `t`, and broker 3 has been fenced and so left the ISR."""

    def __init__(self, new_cluster: NewCluster) -> None:
        self.cluster = new_cluster(OURS, broker_session_timeout_ms="600000")
        self.address = self.cluster.nodes[1].address
        self.leader = PlayedBroker(LEADER, self.address, self.cluster.cluster_id)
        self.follower = PlayedBroker(FOLLOWER, self.address, self.cluster.cluster_id)
        self.cluster.await_brokers(1, LEADER, FOLLOWER)
        assigned = [CreateTopicsRequest.CreatableReplicaAssignment(0, [LEADER, FOLLOWER])]
        topic = CreateTopicsRequest.CreatableTopic("t", -1, -1, assigned)
        with WireClient(self.cluster.nodes[1].client_address) as client:
            made = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 30_000), 7)
        assert [each.error_code for each in made.topics] == [0]
        self.topic_id = made.topics[0].topic_id
        while not self.follower.heartbeat(want_fence=True).is_fenced:
            pass
        self.partition_epoch = 1

    def unfence(self) -> None:
        while self.follower.heartbeat().is_fenced:
            pass

    def ask_for_both(
        self, *, broker_id: int = LEADER, broker_epoch: int = -1, follower_epoch: int = -1
    ) -> AlterPartitionResponse:
        """AlterPartition of an ISR with both; the epochs are those of the registrations unless given."""
        isr = [
            AlterPartitionRequest.BrokerState(LEADER, self.leader.epoch),
            AlterPartitionRequest.BrokerState(
                FOLLOWER, self.follower.epoch if follower_epoch < 0 else follower_epoch
            ),
        ]
        wish = AlterPartitionRequest.PartitionData(
            new_isr_with_epochs=isr, partition_epoch=self.partition_epoch
        )
        own = self.leader.epoch if broker_epoch < 0 else broker_epoch
        topic = AlterPartitionRequest.TopicData(self.topic_id, [wish])
        with WireClient(self.address) as client:
            return client.ask_for(AlterPartitionResponse, AlterPartitionRequest(broker_id, own, [topic]), 3)


@pytest.fixture
def stage(new_cluster: NewCluster) -> Stage:
    return Stage(new_cluster)


def refusal(answer: AlterPartitionResponse) -> ErrorCode:
    assert answer.error_code == 0
    return ErrorCode.of(answer.topics[0].partitions[0].error_code)


def test_a_replica_that_is_fenced_does_not_join_until_it_is_unfenced(stage: Stage) -> None:
    assert refusal(stage.ask_for_both()) is ErrorCode.INELIGIBLE_REPLICA
    stage.unfence()
    answer = stage.ask_for_both()
    assert refusal(answer) is ErrorCode.NONE
    assert answer.topics[0].partitions[0].isr == [LEADER, FOLLOWER]


def test_a_replica_that_shuts_down_does_not_join(stage: Stage) -> None:
    stage.unfence()
    while not stage.follower.heartbeat(want_shut_down=True).should_shut_down:
        pass
    assert refusal(stage.ask_for_both()) is ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_of_an_earlier_life_of_its_broker_does_not_join(stage: Stage) -> None:
    stage.unfence()
    earlier = stage.ask_for_both(follower_epoch=stage.follower.epoch - 1)
    assert refusal(earlier) is ErrorCode.INELIGIBLE_REPLICA
    assert refusal(stage.ask_for_both()) is ErrorCode.NONE


def test_a_leader_of_an_earlier_life_of_its_broker_decides_nothing(stage: Stage) -> None:
    stage.unfence()
    former = stage.leader.epoch - 1
    assert stage.ask_for_both(broker_epoch=former).error_code == ErrorCode.STALE_BROKER_EPOCH
    beat = BrokerHeartbeatRequest(LEADER, former, 1 << 40)
    with WireClient(stage.address) as client:
        answer = client.ask_for(BrokerHeartbeatResponse, beat, 1)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert refusal(stage.ask_for_both()) is ErrorCode.NONE


def test_only_the_leader_decides(stage: Stage) -> None:
    stage.unfence()
    other = stage.ask_for_both(broker_id=FOLLOWER, broker_epoch=stage.follower.epoch)
    assert refusal(other) is ErrorCode.INVALID_REQUEST
    assert refusal(stage.ask_for_both()) is ErrorCode.NONE
