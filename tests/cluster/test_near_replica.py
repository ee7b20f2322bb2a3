"""A consumer that says where it is reads from the replica in its rack (KIP-392)."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from protocol.messages.fetch import FetchRequest, FetchResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.clients.spread import create_placed, write_to_all
from tests.support.clients.wire_client import WireClient

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = {1: "a", 2: "b"}


def read(cluster: Cluster, node_id: int, topic_id: bytes, rack: str) -> FetchResponse.PartitionData:
    wanted = FetchRequest.FetchPartition(0, -1, 0, -1, -1, 1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[wanted])],
        rack_id=rack,
    )
    with WireClient(cluster.nodes[node_id].client_address) as client:
        ((data,),) = [topic.partitions for topic in client.ask_for(FetchResponse, request, 17).responses]
    return data


def racks(new_cluster: NewCluster) -> Cluster:
    """Two nodes, a topic whose leader is the first one, and ten records in it."""
    given = {key.replace(".", "_"): value for key, value in FAST.items()}
    cluster = new_cluster(OURS, OURS, start=False, replica_selector_class=RACK_AWARE, **given)
    for node_id, rack in RACKS.items():
        cluster.nodes[node_id].properties["broker.rack"] = rack
        cluster.nodes[node_id].write_properties()
    cluster.start()
    cluster.await_brokers()
    create_placed(cluster.bootstrap, "near", [[1, 2]])
    write_to_all(cluster.bootstrap, "near", partitions=1, count=10)
    return cluster


def test_a_consumer_is_sent_to_its_rack_and_reads_there(new_cluster: NewCluster) -> None:
    cluster = racks(new_cluster)
    metadata = cluster.metadata(1, "near")
    assert metadata is not None
    topic_id = metadata.topics[0].topic_id

    def sent_away() -> bool | None:
        return read(cluster, 1, topic_id, "b").preferred_read_replica == 2 or None

    cluster.wait(sent_away, "replica in the consumer's rack")
    assert read(cluster, 1, topic_id, "a").records, "the leader serves its own rack"
    assert read(cluster, 1, topic_id, "").records

    def is_served() -> bool | None:
        data = read(cluster, 2, topic_id, "b")
        assert (data.error_code, data.preferred_read_replica) == (0, -1)
        return (data.high_watermark == 10 and bool(data.records)) or None

    cluster.wait(is_served, "records at the replica in the consumer's rack")


class Place:
    """What librdkafka's statistics tell of the one partition that a consumer reads."""

    def __init__(self) -> None:
        self.broker = self.leader = -1

    def __call__(self, statistics: str) -> None:
        told: dict[str, Any] = json.loads(statistics)["topics"].get("near", {}).get("partitions", {})
        if "0" in told:
            self.broker, self.leader = told["0"]["broker"], told["0"]["leader"]


def test_a_genuine_consumer_reads_from_the_replica_in_its_rack(new_cluster: NewCluster) -> None:
    cluster = racks(new_cluster)
    place = Place()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "client.rack": "b",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "statistics.interval.ms": 50,
            "stats_cb": place,
        }
    )
    consumer.assign([TopicPartition("near", 0, 0)])
    values: list[bytes | None] = []

    def read_there(count: int) -> bool | None:
        message = consumer.poll(0.05)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
        return (len(values) >= count and (place.broker, place.leader) == (2, 1)) or None

    cluster.wait(lambda: read_there(10), "ten records, and fetches from the replica in the consumer's rack")
    write_to_all(cluster.bootstrap, "near", partitions=1, count=10, first=10)
    cluster.wait(lambda: read_there(20), "ten more from there")
    consumer.close()
    assert values == [f"0:{number}".encode() for number in range(20)]
