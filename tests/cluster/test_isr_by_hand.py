"""A leader in a process of its own and a follower that the test plays over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.framing import decode_response
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.metadata import MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import OURS, Cluster
from tests.support.brokers.played_broker import PlayedBroker
from tests.support.clients.wire_client import WireClient

PRODUCE_VERSION = 12


class Stage:
    """Node 1 leads `t` with the replicas 1 and 2, of which acks=all asks for both; broker 2 is played."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        node = cluster.nodes[1]
        self.follower = PlayedBroker(2, node.address, cluster.cluster_id)
        cluster.wait(lambda: len(cluster.alive_brokers(1) or ()) == 2 or None, "unfenced broker 2")
        self.leader = WireClient(node.client_address)
        self.producer = WireClient(node.client_address)
        assigned = [CreateTopicsRequest.CreatableReplicaAssignment(0, [1, 2])]
        configs = [CreateTopicsRequest.CreatableTopicConfig("min.insync.replicas", "2")]
        topic = CreateTopicsRequest.CreatableTopic("t", -1, -1, assigned, configs)
        made = self.leader.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 30_000), 7)
        assert [each.error_code for each in made.topics] == [0]
        self.topic_id = made.topics[0].topic_id
        self.await_isr(1, 2)

    def close(self) -> None:
        self.leader.close()
        self.producer.close()

    def isr(self) -> list[int]:
        metadata = self.cluster.metadata(1, "t")
        assert isinstance(metadata, MetadataResponse), self.cluster.nodes[1].log_tail(6000)
        partitions = metadata.topics[0].partitions
        return partitions[0].isr_nodes if partitions else []

    def await_isr(self, *wanted: int) -> None:
        self.cluster.wait(lambda: self.isr() == list(wanted) or None, f"ISR of {wanted}")

    def send(self, count: int, acks: int = -1) -> None:
        records = build_batch([SimpleRecord(None, b"%d" % number, 1) for number in range(count)])
        data = ProduceRequest.PartitionProduceData(0, records)
        topic = ProduceRequest.TopicProduceData("t", partition_data=[data])
        self.producer.send(ProduceRequest(None, acks, 30_000, [topic]), PRODUCE_VERSION)

    def acknowledged(self) -> tuple[ErrorCode, int]:
        _, response = decode_response(ProduceResponse, PRODUCE_VERSION, self.producer.receive())
        ((answer,),) = [topic.partition_responses for topic in response.responses]
        return ErrorCode.of(answer.error_code), answer.base_offset

    def fetch(self, offset: int, **options: Any) -> Any:
        return self.follower.fetch(self.leader, self.topic_id, offset, **options)


@pytest.fixture
def stage(new_cluster: NewCluster, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The follower may lag for as long as the test gets no processor time, unless the test asks for less."""
    lag_ms = getattr(request, "param", 600_000)
    times = {"broker_heartbeat_interval_ms": "300", "replica_lag_time_max_ms": str(lag_ms)}
    made = Stage(new_cluster(OURS, broker_session_timeout_ms="600000", **times))
    yield made
    made.close()


of_impatient_leader = pytest.mark.parametrize("stage", [1_500], indirect=True, ids=["1.5 s"])
"""For tests of a follower that lags."""


def test_an_acknowledgement_waits_for_the_follower(stage: Stage) -> None:
    stage.send(3)
    data = stage.fetch(0, max_wait_ms=10_000)
    assert (data.error_code, data.high_watermark, bool(data.records)) == (0, 0, True)
    data = stage.fetch(3)
    assert stage.acknowledged() == (ErrorCode.NONE, 0)
    assert (data.error_code, stage.fetch(3).high_watermark) == (0, 3)


@of_impatient_leader
def test_a_follower_that_lags_leaves_the_isr_and_comes_back(stage: Stage) -> None:
    stage.fetch(0)
    stage.send(2, acks=1)
    assert stage.acknowledged() == (ErrorCode.NONE, 0)
    stage.await_isr(1)
    stage.send(1)
    assert stage.acknowledged()[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    stage.fetch(0)
    stage.fetch(2)
    stage.await_isr(1, 2)
    stage.fetch(2)  # the time in which it may lag is that since it had all there was
    stage.send(1)
    stage.fetch(2)
    stage.fetch(3)
    assert stage.acknowledged() == (ErrorCode.NONE, 2)


@of_impatient_leader
def test_a_broker_that_registered_again_since_is_not_taken_in_by_its_former_epoch(stage: Stage) -> None:
    stage.send(1, acks=1)
    stage.acknowledged()
    stage.await_isr(1)
    former = stage.follower.epoch
    while not stage.follower.heartbeat(want_shut_down=True).should_shut_down:
        pass
    stage.follower = PlayedBroker(2, stage.cluster.nodes[1].address, stage.cluster.cluster_id)
    assert stage.follower.epoch > former
    stage.cluster.wait(lambda: len(stage.cluster.alive_brokers(1) or ()) == 2 or None, "unfenced broker 2")
    newest, stage.follower.epoch = stage.follower.epoch, former
    assert stage.fetch(1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.isr() == [1]
    stage.follower.epoch = newest
    assert stage.fetch(1).error_code == 0
    stage.await_isr(1, 2)


def test_a_broker_that_is_no_replica_is_told_to_try_again(stage: Stage) -> None:
    stage.follower.broker_id = 3
    assert stage.fetch(0).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("offset", [3, 1 << 62])
def test_a_follower_that_claims_what_was_never_written_raises_no_high_watermark(
    stage: Stage, offset: int
) -> None:
    stage.send(2)
    assert stage.fetch(offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = stage.fetch(0)
    assert (data.error_code, data.high_watermark) == (0, 0), "the claim counts for nothing"
    assert stage.fetch(2).error_code == 0
    assert stage.acknowledged() == (ErrorCode.NONE, 0)


def test_a_follower_of_a_later_leader_is_told_that_this_one_knows_of_none(stage: Stage) -> None:
    assert stage.fetch(0, leader_epoch=7).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert stage.fetch(0).error_code == 0
