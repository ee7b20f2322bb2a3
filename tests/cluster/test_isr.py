"""The ISR of a partition on three nodes: a follower that stands still leaves it, and comes back."""

from __future__ import annotations

from functools import partial

from protocol.errors import ErrorCode
from protocol.framing import decode_response
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.brokers.replica_logs import await_same_logs
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all
from tests.support.clients.wire_client import WireClient

PATIENT = FAST | {"broker.session.timeout.ms": "600000"}
"""The controller fences nobody: what happens to an ISR is the leader's doing."""


def three_nodes(new_cluster: NewCluster, **properties: str) -> Cluster:
    given = {key.replace(".", "_"): value for key, value in PATIENT.items()} | properties
    cluster = new_cluster(OURS, OURS, OURS, **given)
    create_placed(cluster.bootstrap, "t", [[1, 2, 3]])
    return cluster


def await_isr(cluster: Cluster, *wanted: int) -> None:
    def is_there() -> bool | None:
        metadata = cluster.metadata(1, "t")
        if metadata is None or not metadata.topics[0].partitions:
            return None
        return sorted(metadata.topics[0].partitions[0].isr_nodes) == sorted(wanted) or None

    cluster.wait(is_there, f"ISR of {wanted}")


def test_a_follower_that_stands_still_leaves_and_comes_back(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster)
    await_isr(cluster, 1, 2, 3)
    write_to_all(cluster.nodes[1].client_address, "t", partitions=1, count=10)
    cluster.nodes[3].pause()
    write_to_all(cluster.nodes[1].client_address, "t", partitions=1, count=10, first=10)
    await_isr(cluster, 1, 2)
    write_to_all(cluster.nodes[1].client_address, "t", partitions=1, count=10, first=20)
    assert "Shrinking ISR from 1,2,3 to 1,2." in cluster.nodes[1].log_tail(1 << 20)
    cluster.nodes[3].resume()
    await_isr(cluster, 1, 2, 3)
    assert read_all(cluster.bootstrap, "t", 1, 30) == numbered_values(1, 30)


def new_producer_id(client: WireClient) -> int | None:
    """None: the controller has no block for the broker at the moment."""
    answer = client.ask_for(InitProducerIdResponse, InitProducerIdRequest(None, 60_000), 4)
    return None if answer.error_code else answer.producer_id


def test_producer_ids_of_several_brokers_are_distinct(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster)
    given = []
    for _ in range(3):
        for node in cluster.nodes.values():
            with WireClient(node.client_address) as client:
                ask = partial(new_producer_id, client)
                given += [cluster.wait(ask, "producer id") for _ in range(400)]
    # More than one block of a thousand for each broker.
    assert len(given) == len(set(given)) == 3600


def test_a_leader_that_slept_through_its_succession_acknowledges_nothing(new_cluster: NewCluster) -> None:
    """It wakes up believing that it leads, and finds a request of a producer in its socket."""
    given = {key.replace(".", "_"): value for key, value in FAST.items()}
    cluster = new_cluster(OURS, OURS, OURS, **given)
    create_placed(cluster.bootstrap, "t", [[1, 2, 3]])
    write_to_all(cluster.bootstrap, "t", partitions=1, count=10)
    await_same_logs(cluster, "t", [0], 10)
    batch = ProduceRequest.PartitionProduceData(0, build_batch([SimpleRecord(None, b"late", 1)]))
    topic = ProduceRequest.TopicProduceData("t", partition_data=[batch])
    with WireClient(cluster.nodes[1].client_address, timeout_seconds=60) as client:
        cluster.nodes[1].pause()
        client.send(ProduceRequest(None, -1, 30_000, [topic]), 12)

        def is_succeeded() -> bool | None:
            found = cluster.metadata(2, "t")
            return (found is not None and found.topics[0].partitions[0].leader_id in (2, 3)) or None

        cluster.wait(is_succeeded, "leader after node 1")
        others = ",".join(cluster.nodes[each].client_address for each in (2, 3))
        write_to_all(others, "t", partitions=1, count=10, first=10)
        cluster.nodes[1].resume()
        _, response = decode_response(ProduceResponse, 12, client.receive())
    ((answer,),) = [each.partition_responses for each in response.responses]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await_same_logs(cluster, "t", [0], 20)
    assert read_all(others, "t", 1, 20) == numbered_values(1, 20)
