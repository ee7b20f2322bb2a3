"""Quotas of clients in a cluster of both kinds: decided by one node, held by each broker for itself."""

from __future__ import annotations

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BROKER, CONTROLLER, FAST, KAFKAS, OURS, Cluster
from tests.support.clients.spread import create_placed
from tests.support.clients.wire_client import WireClient

RATE = 50_000
"""Bytes a second, of all users together that are not told apart: so of the brokers too."""


def alter(cluster: Cluster, node_id: int, **quotas: float) -> None:
    """Sets quotas of the default user through a broker, and waits until each broker knows of them."""
    entity = [AlterClientQuotasRequest.EntityData("user", None)]
    changes = [AlterClientQuotasRequest.OpData(key, value) for key, value in quotas.items()]
    request = AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData(entity, changes)])
    with WireClient(cluster.nodes[node_id].client_address) as client:
        answer = client.ask_for(AlterClientQuotasResponse, request, 1)
        assert [(each.error_code, each.error_message) for each in answer.entries] == [(0, None)]
    for broker_id in (2, 3):

        def is_known(broker_id: int = broker_id) -> bool:
            with WireClient(cluster.nodes[broker_id].client_address) as client:
                shown = client.ask_for(DescribeClientQuotasResponse, DescribeClientQuotasRequest(), 1)
            return any({v.key: v.value for v in each.values} == quotas for each in shown.entries or ())

        cluster.wait(is_known, f"broker {broker_id} knows of {quotas}")


def produced(cluster: Cluster, partition: int, size_bytes: int) -> int:
    """The throttle time of a batch that both replicas have. Partition 0 is led by broker 2, 1 by broker 3."""
    batch = build_batch([SimpleRecord(None, b"v" * size_bytes, 1_700_000_000_000)])
    part = ProduceRequest.PartitionProduceData(partition, batch)
    request = ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData("t", partition_data=[part])])
    with WireClient(cluster.nodes[2 + partition].client_address, client_id="one") as client:
        answer = client.ask_for(ProduceResponse, request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return answer.throttle_time_ms


def test_each_broker_holds_clients_to_what_another_one_was_told(new_cluster: NewCluster) -> None:
    """A broker of Apache Kafka asks our controller; followers copy as if there were no quota."""
    few = {"quota_window_num": "3"}
    cluster = new_cluster(OURS, KAFKAS, OURS, roles=[CONTROLLER, BROKER, BROKER], **FAST, **few)
    create_placed(cluster.bootstrap, "t", [[2, 3], [3, 2]])
    alter(cluster, 2, producer_byte_rate=RATE, consumer_byte_rate=1, controller_mutation_rate=1)
    assert 0 < produced(cluster, 1, 4 * RATE) <= 2_100
    cluster.wait(lambda: produced(cluster, 0, 4 * RATE) > 0, "Kafka holds the quota that it shows")
    for node_id in (2, 3):
        with WireClient(cluster.nodes[node_id].client_address) as client:
            topic = CreateTopicsRequest.CreatableTopic(f"by-{node_id}", 60, 1)
            answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 5000), 7)
        refused = node_id == 3
        assert answer.topics[0].error_code == (89 if refused else 0)
        assert (answer.throttle_time_ms > 0) == refused
