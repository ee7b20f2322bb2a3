"""A consumer that says where it is reads from the replica in its rack (KIP-392)."""

from __future__ import annotations

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


def test_a_consumer_is_sent_to_its_rack_and_reads_there(new_cluster: NewCluster) -> None:
    given = {key.replace(".", "_"): value for key, value in FAST.items()}
    cluster = new_cluster(OURS, OURS, start=False, replica_selector_class=RACK_AWARE, **given)
    for node_id, rack in RACKS.items():
        cluster.nodes[node_id].properties["broker.rack"] = rack
        cluster.nodes[node_id].write_properties()
    cluster.start()
    cluster.await_brokers()
    create_placed(cluster.bootstrap, "near", [[1, 2]])
    write_to_all(cluster.bootstrap, "near", partitions=1, count=10)
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
