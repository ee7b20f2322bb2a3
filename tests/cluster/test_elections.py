"""Leaders of three nodes: killed, shut down, given back, moved, and elected out of the eligible ones."""

from __future__ import annotations

from collections.abc import Callable

from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all
from tests.support.clients.wire_client import ConnectionEnded, WireClient

Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
PARTITIONS = 6


def partitions(cluster: Cluster, node_id: int) -> list[Partition]:
    """Those of topic `t` as a node describes them; nothing if it does not answer."""
    try:
        with WireClient(cluster.nodes[node_id].client_address) as client:
            request = DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequest.TopicRequest("t")])
            answer = client.ask_for(DescribeTopicPartitionsResponse, request, 0)
    except (OSError, ConnectionEnded):
        return []
    return answer.topics[0].partitions


def await_all(cluster: Cluster, node_id: int, what: str, holds: Callable[[Partition], bool]) -> None:
    def is_so() -> bool | None:
        found = partitions(cluster, node_id)
        return (bool(found) and all(holds(partition) for partition in found)) or None

    cluster.wait(is_so, what)


def three_nodes(new_cluster: NewCluster, placed: list[list[int]], **properties: str) -> Cluster:
    given = {key.replace(".", "_"): value for key, value in FAST.items()} | properties
    cluster = new_cluster(OURS, OURS, OURS, **given)
    create_placed(cluster.bootstrap, "t", placed)
    await_all(cluster, 1, "all replicas in sync", lambda p: len(p.isr_nodes) == len(p.replica_nodes))
    return cluster


def elect_preferred(cluster: Cluster, node_id: int) -> None:
    with WireClient(cluster.nodes[node_id].client_address) as client:
        client.ask_for(ElectLeadersResponse, ElectLeadersRequest(0, None, 30_000), 2)


def test_a_killed_leader_is_replaced_and_given_its_partitions_back(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster, [[3, 1, 2], [3, 2, 1], [1, 2, 3]])
    write_to_all(cluster.nodes[1].client_address, "t", partitions=3, count=10)
    cluster.nodes[3].kill()
    await_all(cluster, 1, "leaders without node 3", lambda p: p.leader_id in (1, 2) and 3 not in p.isr_nodes)
    assert [p.leader_id for p in partitions(cluster, 1)] == [1, 2, 1]
    assert all(p.offline_replicas == [3] for p in partitions(cluster, 1))
    write_to_all(cluster.nodes[1].client_address, "t", partitions=3, count=10, first=10)
    cluster.nodes[3].start()
    await_all(cluster, 1, "node 3 in sync again", lambda p: 3 in p.isr_nodes)
    elect_preferred(cluster, 1)
    await_all(cluster, 1, "preferred leaders", lambda p: p.leader_id == p.replica_nodes[0])
    assert read_all(cluster.bootstrap, "t", 3, 20) == numbered_values(3, 20)


def test_the_last_one_is_led_by_who_is_eligible(new_cluster: NewCluster) -> None:
    """Nodes 2 and 3 hold the data; node 1 is there to ask, and for the quorum with whoever is left."""
    cluster = three_nodes(new_cluster, [[2, 3]], min_insync_replicas="2")
    write_to_all(cluster.nodes[1].client_address, "t", partitions=1, count=10)
    cluster.nodes[2].stop()
    await_all(cluster, 1, "3 leads, 2 is eligible", lambda p: p.leader_id == 3 and p.isr_nodes == [3])
    (partition,) = partitions(cluster, 1)
    assert partition.eligible_leader_replicas == [2], "it was stopped in order and has all"
    cluster.nodes[2].start()
    await_all(cluster, 1, "2 is in sync again", lambda p: sorted(p.isr_nodes) == [2, 3])
    assert partitions(cluster, 1)[0].eligible_leader_replicas == []
    assert read_all(cluster.bootstrap, "t", 1, 10) == numbered_values(1, 10)


def test_a_node_shuts_down_when_its_leaders_are_elsewhere(new_cluster: NewCluster) -> None:
    """No session ends and nobody lags in this test: its leaders go because it shuts down."""
    patient = {"broker_session_timeout_ms": "600000", "replica_lag_time_max_ms": "600000"}
    cluster = three_nodes(new_cluster, [[3, 1, 2]] * PARTITIONS, **patient)
    write_to_all(cluster.nodes[1].client_address, "t", partitions=PARTITIONS, count=5)
    cluster.nodes[3].stop()
    await_all(cluster, 1, "leaders without node 3", lambda p: p.leader_id != 3)
    found = partitions(cluster, 1)
    assert {(p.leader_id, p.leader_epoch) for p in found} == {(1, 1)}
    write_to_all(cluster.nodes[1].client_address, "t", partitions=PARTITIONS, count=5, first=5)
    assert read_all(cluster.bootstrap, "t", PARTITIONS, 10) == numbered_values(PARTITIONS, 10)


def test_a_partition_moves_to_other_replicas(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster, [[1, 2], [2, 3]])
    write_to_all(cluster.nodes[1].client_address, "t", partitions=2, count=10)
    cls = AlterPartitionReassignmentsRequest
    moves = [cls.ReassignablePartition(0, [3]), cls.ReassignablePartition(1, [1, 2, 3])]
    with WireClient(cluster.nodes[1].client_address) as client:
        request = cls(30_000, True, [cls.ReassignableTopic("t", moves)])
        answer = client.ask_for(AlterPartitionReassignmentsResponse, request, 1)
    assert [each.error_code for each in answer.responses[0].partitions] == [0, 0]
    wanted = [[3], [1, 2, 3]]
    await_all(
        cluster,
        1,
        "the moves are done",
        lambda p: (
            p.replica_nodes == wanted[p.partition_index] and sorted(p.isr_nodes) == wanted[p.partition_index]
        ),
    )
    assert partitions(cluster, 1)[0].leader_id == 3
    write_to_all(cluster.nodes[1].client_address, "t", partitions=2, count=10, first=10)
    assert read_all(cluster.bootstrap, "t", 2, 20) == numbered_values(2, 20)
