"""Elections that nobody asks for, at the times that the configs name."""

from __future__ import annotations

import pytest

from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from tests.support.rigs.controllers import ControllerFixture, one_node_config

EVERY_TEN_SECONDS = {
    "leader__imbalance__check__interval__seconds": "10",
    "unclean__leader__election__interval__ms": "10000",
}


class Cluster:
    """Brokers 1 and 2, and topic `t` on [1, 2]."""

    def __init__(self, **settings: str) -> None:
        self.fixture = ControllerFixture(config=one_node_config(**EVERY_TEN_SECONDS, **settings))
        self.epochs = self.fixture.bring_up(1, 2)
        topic = CreateTopicsRequest.CreatableTopic("t", -1, -1)
        topic.assignments = [CreateTopicsRequest.CreatableReplicaAssignment(0, [1, 2])]
        made = self.fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic]))
        assert made.topics[0].error_code == 0

    def leader(self) -> int:
        return self.fixture.controller.newest.topics.by_name["t"].partitions[0].leader

    def lose_one(self) -> None:
        """Broker 1 goes and comes back, and 2 leads."""
        self.fixture.heartbeat(1, self.epochs[1], want_fence=True)
        self.fixture.heartbeat(1, self.epochs[1])
        assert self.leader() == 2

    def catch_up(self) -> None:
        """The leader has both in its ISR again."""
        cls = AlterPartitionRequest
        topic = self.fixture.controller.newest.topics.by_name["t"]
        partition = topic.partitions[0]
        states = [cls.BrokerState(broker, self.epochs[broker]) for broker in (2, 1)]
        wish = cls.PartitionData(0, partition.leader_epoch, [], states, 0, partition.partition_epoch)
        request = cls(2, self.epochs[2], [cls.TopicData(topic.id, [wish])])
        answer = self.fixture.call(ApiKey.ALTER_PARTITION, request)
        assert answer.topics[0].partitions[0].error_code == 0

    def pass_time(self, seconds: int, *alive: int) -> None:
        for _ in range(seconds):
            self.fixture.timers.advance(1_000)
            for broker in alive:
                self.fixture.heartbeat(broker, self.epochs[broker])
        self.fixture.settle()


def test_a_leadership_goes_back_to_the_preferred_leader() -> None:
    cluster = Cluster()
    cluster.lose_one()
    cluster.pass_time(11, 1, 2)
    assert cluster.leader() == 2, "the preferred one is not in sync"
    cluster.catch_up()
    cluster.pass_time(7, 1, 2)
    assert cluster.leader() == 2
    cluster.pass_time(3, 1, 2)
    assert cluster.leader() == 1


def test_unless_nobody_wants_that() -> None:
    cluster = Cluster(auto__leader__rebalance__enable="false")
    cluster.lose_one()
    cluster.catch_up()
    cluster.pass_time(25, 1, 2)
    assert cluster.leader() == 2


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_an_unclean_leader_is_looked_for_where_it_is_allowed(allowed: str) -> None:
    """Allowed for the whole cluster after the partition had lost its leader."""
    cluster = Cluster()
    cluster.lose_one()
    cluster.fixture.heartbeat(2, cluster.epochs[2], want_fence=True)
    assert cluster.leader() == -1
    again = Cluster.__new__(Cluster)
    cluster.fixture.files.kill_process()
    again.fixture = ControllerFixture(
        cluster.fixture.files,
        config=one_node_config(**EVERY_TEN_SECONDS, unclean__leader__election__enable=allowed),
    )
    again.fixture.settle()
    again.epochs = cluster.epochs
    again.pass_time(11, 1)
    assert again.leader() == (1 if allowed == "true" else -1)


def test_a_controller_that_has_resigned_looks_no_more() -> None:
    cluster = Cluster()
    cluster.lose_one()
    cluster.catch_up()
    cluster.fixture.controller.shut_down()
    cluster.fixture.timers.advance(30_000)
    cluster.fixture.settle()
    assert cluster.leader() == 2
