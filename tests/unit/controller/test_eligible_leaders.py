"""Eligible leader replicas (KIP-966): one story for each rule, as Kafka 4.3.1 decides it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS
from controller.metadata.image.topics import PartitionRegistration
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.registry import ApiKey
from tests.support.rigs.controllers import ControllerFixture, one_node_config

TOPIC, BROKER = 2, 4
UPGRADE, SAFE_DOWNGRADE = 1, 2
MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"

State = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
"""Leader, ISR, eligible replicas, last known leader, and whether the leader is recovering."""


class Cluster:
    """A controller, brokers 1 to 3, and topic `t` whose one partition lies on all of them."""

    def __init__(self, *, elr: bool = True, min_isr: str | None = "2", **settings: str) -> None:
        self.fixture = ControllerFixture(elr=elr, config=one_node_config(**settings))
        self.epochs = self.fixture.bring_up(1, 2, 3)
        config = CreateTopicsRequest.CreatableTopicConfig
        topic = CreateTopicsRequest.CreatableTopic("t", -1, -1)
        topic.assignments = [CreateTopicsRequest.CreatableReplicaAssignment(0, [1, 2, 3])]
        topic.configs = [] if min_isr is None else [config(MIN_ISR, min_isr)]
        made = self.fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic]))
        assert made.topics[0].error_code == 0

    @property
    def partition(self) -> PartitionRegistration:
        return self.fixture.controller.newest.topics.by_name["t"].partitions[0]

    def state(self) -> State:
        p = self.partition
        return p.leader, p.isr, p.elr, p.last_known_elr, p.leader_recovery_state

    def fence(self, *brokers: int) -> None:
        for broker in brokers:
            assert self.fixture.heartbeat(broker, self.epochs[broker], want_fence=True).is_fenced

    def unfence(self, *brokers: int) -> None:
        for broker in brokers:
            assert not self.fixture.heartbeat(broker, self.epochs[broker]).is_fenced

    def restart(self, broker: int, *, clean: bool) -> None:
        """A fenced broker registers again, and is fenced still."""
        previous = self.epochs[broker] if clean else -1
        for _ in range(2):
            self.fixture.timers.advance(5_000)
            for other in {1, 2, 3} - {broker}:
                self.fixture.heartbeat(other, self.epochs[other], want_fence=self.is_fenced(other))
        answer = self.fixture.register(
            broker, incarnation=b"%d" % broker * 16, previous_broker_epoch=previous
        )
        assert answer.error_code == 0
        self.epochs[broker] = answer.broker_epoch

    def is_fenced(self, broker: int) -> bool:
        return self.fixture.controller.newest.brokers.by_id[broker].fenced

    def set(self, kind: int, name: str, key: str, value: str | None) -> ErrorCode:
        cls = IncrementalAlterConfigsRequest
        change = cls.AlterableConfig(key, 0 if value is not None else 1, value)
        request = cls([cls.AlterConfigsResource(kind, name, [change])])
        response = self.fixture.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        return ErrorCode(response.responses[0].error_code)

    def in_sync(self, isr: Sequence[int], recovery: int = 0) -> None:
        """The leader asks for an ISR."""
        cls, p = AlterPartitionRequest, self.partition
        states = [cls.BrokerState(broker, self.epochs[broker]) for broker in isr]
        wish = cls.PartitionData(0, p.leader_epoch, [], states, recovery, p.partition_epoch)
        topic = cls.TopicData(self.fixture.controller.newest.topics.by_name["t"].id, [wish])
        answer = self.fixture.call(ApiKey.ALTER_PARTITION, cls(p.leader, self.epochs[p.leader], [topic]))
        assert answer.topics[0].partitions[0].error_code == 0


def test_who_leaves_an_isr_that_is_too_small_stays_eligible() -> None:
    cluster = Cluster()
    cluster.fence(3)
    assert cluster.state() == (1, (1, 2), (), (), 0), "the ISR is large enough without it"
    cluster.fence(2)
    assert cluster.state() == (1, (1,), (2,), (), 0)
    cluster.fence(1)
    assert cluster.state() == (-1, (), (1, 2), (1,), 0), "the ISR is empty, and the last leader is remembered"


def test_an_eligible_replica_leads_when_the_isr_is_empty() -> None:
    cluster = Cluster()
    cluster.fence(3, 2, 1)
    cluster.unfence(3)
    assert cluster.state() == (-1, (), (1, 2), (1,), 0), "it was not in sync to the end"
    epoch = cluster.partition.leader_epoch
    cluster.unfence(2)
    assert cluster.state() == (2, (2,), (1,), (), 0), (
        "a clean election: nothing that was acknowledged is lost"
    )
    assert cluster.partition.leader_epoch == epoch + 1


def test_the_list_is_emptied_when_the_isr_is_large_enough_again() -> None:
    cluster = Cluster()
    cluster.fence(3, 2)
    cluster.unfence(2, 3)
    assert cluster.state() == (1, (1,), (2,), (), 0)
    cluster.in_sync([1, 3])
    assert cluster.state() == (1, (1, 3), (), (), 0)


def test_a_broker_that_died_is_not_eligible() -> None:
    cluster = Cluster()
    cluster.fence(3, 2)
    cluster.restart(2, clean=False)
    assert cluster.state() == (1, (1,), (), (), 0), "what it had not flushed is lost"


def test_a_broker_that_was_stopped_in_order_is_eligible() -> None:
    cluster = Cluster()
    cluster.fence(3, 2)
    cluster.restart(2, clean=True)
    assert cluster.state() == (1, (1,), (2,), (), 0)


def test_a_dead_broker_loses_its_place_in_the_isr_too() -> None:
    cluster = Cluster(min_isr="1")
    cluster.fence(3, 2)
    cluster.fixture.timers.advance(20_000)
    assert cluster.state() == (-1, (), (1,), (1,), 0)
    cluster.restart(1, clean=False)
    assert cluster.state() == (-1, (), (), (1,), 0), "nobody is known to have all"
    cluster.unfence(2)
    assert cluster.state() == (-1, (), (), (1,), 0), "not even an unclean election is asked for"
    cluster.unfence(1)
    assert cluster.state() == (1, (1,), (), (), 1), "the last leader may lead again, and recovers"
    cluster.in_sync([1])
    assert cluster.state() == (1, (1,), (), (), 0)


@pytest.mark.parametrize("text", ["true", "\x1b True\0"])
def test_an_unclean_election_takes_anybody_and_forgets_the_eligible(text: str) -> None:
    cluster = Cluster()
    assert cluster.set(TOPIC, "t", UNCLEAN, text) == 0
    cluster.fence(3, 2, 1)
    cluster.unfence(3)
    assert cluster.state() == (3, (3,), (), (), 1)


def test_an_operator_may_ask_for_it() -> None:
    cluster = Cluster()
    cluster.fence(3, 2, 1)
    cluster.unfence(3)
    request = ElectLeadersRequest(1, [ElectLeadersRequest.TopicPartitions("t", [0])], 1000)
    response = cluster.fixture.call(ApiKey.ELECT_LEADERS, request)
    assert response.replica_election_results[0].partition_result[0].error_code == 0
    assert cluster.state() == (3, (3,), (), (), 1)


def test_the_controller_looks_by_itself_now_and_then() -> None:
    cluster = Cluster(unclean__leader__election__interval__ms="60000")
    cluster.fence(3, 2, 1)
    cluster.unfence(3)
    assert cluster.set(TOPIC, "t", UNCLEAN, "true") == 0
    assert cluster.state()[0] == -1
    for _ in range(15):
        cluster.fixture.timers.advance(4_000)
        cluster.unfence(3)
    assert cluster.state() == (3, (3,), (), (), 1)


@pytest.mark.parametrize("kind", ["topic", "cluster"])
def test_another_min_isr_makes_the_controller_forget(kind: str) -> None:
    cluster = Cluster(min_isr="2" if kind == "topic" else None, min__insync__replicas="2")
    cluster.fence(3, 2)
    assert cluster.state() == (1, (1,), (2,), (), 0)
    resource = (TOPIC, "t") if kind == "topic" else (BROKER, "")
    assert cluster.set(*resource, MIN_ISR, "3") == 0
    assert cluster.state() == (1, (1,), (), (), 0)


def test_a_min_isr_may_have_blanks_of_java_around_it() -> None:
    cluster = Cluster()
    assert cluster.set(TOPIC, "t", MIN_ISR, "\x1b1\0") == 0
    cluster.fence(3, 2)
    assert cluster.state() == (1, (1,), (), (), 0), "nobody is eligible beside an ISR that is large enough"


def test_what_is_set_without_a_change_forgets_nothing() -> None:
    cluster = Cluster()
    cluster.fence(3, 2)
    assert cluster.set(TOPIC, "t", MIN_ISR, "2") == 0
    assert cluster.set(TOPIC, "t", UNCLEAN, "false") == 0
    assert cluster.state() == (1, (1,), (2,), (), 0)


def test_more_than_there_are_replicas_counts_as_all_of_them() -> None:
    cluster = Cluster(min_isr="7")
    cluster.fence(3)
    assert cluster.state() == (1, (1, 2), (3,), (), 0)


def test_a_broker_that_is_forgotten_leaves_the_isr() -> None:
    cluster = Cluster()
    answer = cluster.fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(1))
    assert answer.error_code == 0
    assert cluster.state() == (2, (2, 3), (), (), 0)


def test_without_the_feature_the_last_in_sync_stays_in_the_isr() -> None:
    cluster = Cluster(elr=False)
    cluster.fence(3, 2, 1)
    assert cluster.state() == (-1, (1,), (), (), 0)
    cluster.restart(1, clean=False)
    cluster.unfence(1)
    assert cluster.state() == (1, (1,), (), (), 0)


def update(cluster: Cluster, level: int, kind: int) -> ErrorCode:
    wish = UpdateFeaturesRequest.FeatureUpdateKey(ELIGIBLE_LEADER_REPLICAS, level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[wish])
    return ErrorCode(cluster.fixture.call(ApiKey.UPDATE_FEATURES, request).error_code)


def test_a_new_cluster_has_one_min_isr_for_all() -> None:
    cluster = Cluster(min__insync__replicas="2", min_isr=None)
    configs = cluster.fixture.controller.image.configs
    assert configs.of(BROKER, "") == {MIN_ISR: "2"}
    assert cluster.set(BROKER, "1", MIN_ISR, "1") == ErrorCode.INVALID_CONFIG
    assert cluster.set(BROKER, "", MIN_ISR, None) == ErrorCode.INVALID_CONFIG
    assert Cluster(elr=False).fixture.controller.image.configs.of(BROKER, "") == {}


def test_switched_on_it_leaves_one_min_isr_for_all() -> None:
    cluster = Cluster(elr=False, min_isr=None, min__insync__replicas="2")
    assert cluster.set(BROKER, "2", MIN_ISR, "1") == 0
    cluster.fence(3, 2)
    assert cluster.state() == (1, (1,), (), (), 0)
    assert update(cluster, 1, UPGRADE) == 0
    configs = cluster.fixture.controller.image.configs
    assert configs.of(BROKER, "") == {MIN_ISR: "2"}
    assert configs.of(BROKER, "2") == {}
    cluster.fence(1)
    assert cluster.state() == (-1, (), (1,), (1,), 0)


def test_switched_off_it_is_forgotten_with_the_next_change() -> None:
    cluster = Cluster()
    cluster.fence(3, 2)
    assert update(cluster, 0, SAFE_DOWNGRADE) == 0
    assert cluster.state() == (1, (1,), (2,), (), 0)
    cluster.fence(1)
    assert cluster.state() == (-1, (1,), (), (), 0)


def test_elections_are_counted_and_unclean_ones_named(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    elections = cluster.fixture.controller.elections
    with caplog.at_level("INFO", "barnabas.controller"):
        cluster.fence(3, 1)
        assert (elections.unclean, elections.from_eligible) == (0, 0), "2 was in the ISR"
        assert "1 partition(s) have another leader now" in caplog.text
        cluster.fence(2)
        cluster.unfence(1)
        assert (elections.unclean, elections.from_eligible) == (0, 1)
        cluster.fence(1)
        assert cluster.set(TOPIC, "t", UNCLEAN, "true") == 0
        assert "Unclean election" not in caplog.text
        cluster.unfence(3)
    assert (elections.unclean, elections.from_eligible) == (1, 1)
    assert "Unclean election: t-0 is led by broker 3 in leader epoch" in caplog.text
    assert "neither in the ISR [] nor eligible [1, 2]" in caplog.text
    cluster.fixture.files.kill_process()
    again = cluster.fixture.restart().controller.elections
    assert (again.unclean, again.from_eligible) == (0, 0), "they count from the start"


def test_what_is_eligible_is_in_the_log_and_in_the_snapshot() -> None:
    cluster = Cluster()
    cluster.fence(3, 2, 1)
    cluster.fixture.log.write_snapshot(cluster.fixture.controller.image)
    cluster.fixture.settle()
    cluster.fixture.files.kill_process()
    again = cluster.fixture.restart()
    partition = again.controller.image.topics.by_name["t"].partitions[0]
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (1, 2), (1,))


def test_a_replica_in_a_directory_that_failed_does_not_lead() -> None:
    """It is eligible, and its broker is there, but nobody can read it (KIP-858)."""
    cluster = Cluster()
    fixture, lost = cluster.fixture, b"lost-directory-2"
    cluster.fence(2)
    for _ in range(2):
        fixture.timers.advance(5_000)
        for other in (1, 3):
            fixture.heartbeat(other, cluster.epochs[other])
    answer = fixture.register(
        2,
        incarnation=b"2" * 16,
        previous_broker_epoch=cluster.epochs[2],
        log_dirs=[lost, b"other-directory2"],
    )
    cluster.epochs[2] = answer.broker_epoch
    cluster.unfence(2)
    cls = AssignReplicasToDirsRequest
    topic_id = fixture.controller.newest.topics.by_name["t"].id
    directory = cls.DirectoryData(lost, [cls.TopicData(topic_id, [cls.PartitionData(0)])])
    fixture.call(ApiKey.ASSIGN_REPLICAS_TO_DIRS, cls(2, cluster.epochs[2], [directory]))
    assert cluster.partition.directories[1] == lost
    cluster.in_sync([1, 2])
    cluster.fence(2)
    assert cluster.state() == (1, (1,), (2,), (), 0)
    fixture.heartbeat(2, cluster.epochs[2], offline_log_dirs=[lost])
    cluster.fence(1)
    assert cluster.state() == (-1, (), (1, 2), (1,), 0)
    cluster.unfence(1)
    assert cluster.state() == (1, (1,), (2,), (), 0)
