"""Brokers that are brokers alone, beside controllers that are controllers alone."""

from __future__ import annotations

import time

import pytest

from protocol.messages.describe_quorum import DescribeQuorumResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BROKER, CONTROLLER, DYNAMIC, FAST, OURS, STATIC, Cluster
from tests.support.brokers.quorum import ABOUT_METADATA
from tests.support.brokers.replica_logs import await_same_logs
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all
from tests.support.clients.wire_client import WireClient

TWO_BROKERS = [CONTROLLER, BROKER, BROKER]
SHORT_SESSION = {"broker.session.timeout.ms": "3500", "replica.lag.time.max.ms": "2500"}
GONE_SECONDS = 4.0


def observers(cluster: Cluster, controller_id: int) -> list[int]:
    """As the leader of the quorum lists them."""
    with WireClient(cluster.nodes[controller_id].address) as client:
        answer = client.ask_for(DescribeQuorumResponse, ABOUT_METADATA, 2)
    return sorted(each.replica_id for each in answer.topics[0].partitions[0].observers)


@pytest.mark.parametrize("voters", [DYNAMIC, STATIC])
def test_two_brokers_beside_a_controller_serve_clients(new_cluster: NewCluster, voters: str) -> None:
    cluster = new_cluster(OURS, OURS, OURS, roles=TWO_BROKERS, voters=voters)
    create_placed(cluster.bootstrap, "spread", [[2], [3]])
    write_to_all(cluster.bootstrap, "spread", partitions=2, count=50)
    assert read_all(cluster.bootstrap, "spread", partitions=2, count=50) == numbered_values(2, 50)
    assert observers(cluster, 1) == [2, 3]


def test_a_broker_finds_the_next_leader_of_the_quorum(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, OURS, roles=[CONTROLLER] * 3 + [BROKER], **FAST)
    create_placed(cluster.bootstrap, "before", [[4]])
    for controller in (1, 2, 3):
        cluster.nodes[controller].kill()
        create_placed(cluster.bootstrap, f"without-{controller}", [[4]])
        cluster.nodes[controller].start()
    write_to_all(cluster.bootstrap, "without-3", partitions=1, count=20)
    assert read_all(cluster.bootstrap, "without-3", partitions=1, count=20) == numbered_values(1, 20)


def test_reads_and_writes_go_on_while_the_quorum_is_gone(new_cluster: NewCluster) -> None:
    """For longer than sessions last and followers may lag: nobody is fenced, since
    nobody is there to do it, and nobody leaves an ISR."""
    cluster = new_cluster(OURS, OURS, OURS, roles=TWO_BROKERS, **FAST | SHORT_SESSION)
    create_placed(cluster.bootstrap, "spread", [[2, 3], [3, 2]])
    write_to_all(cluster.bootstrap, "spread", partitions=2, count=1)
    read_all(cluster.bootstrap, "spread", partitions=2, count=1)  # a consumer looks for its coordinator
    cluster.nodes[1].kill()
    gone_at = time.monotonic()
    written = 1
    while time.monotonic() < gone_at + GONE_SECONDS:
        write_to_all(cluster.bootstrap, "spread", partitions=2, count=50, first=written)
        written += 50
        time.sleep(0.1)
    assert read_all(cluster.bootstrap, "spread", partitions=2, count=written) == numbered_values(2, written)
    await_same_logs(cluster, "spread", [0, 1], written, 2, 3)
    for node_id in (2, 3):
        found = cluster.metadata(node_id, "spread")
        assert found is not None
        assert [(p.leader_epoch, sorted(p.isr_nodes)) for p in found.topics[0].partitions] == [
            (0, [2, 3])
        ] * 2
    cluster.nodes[1].start()
    cluster.await_brokers(2, 3)
    create_placed(cluster.bootstrap, "after", [[2], [3]])
    for node_id in (2, 3):
        assert "Shrinking ISR" not in cluster.nodes[node_id].log_tail(1 << 20)


def test_a_broker_starts_again_from_its_own_replica(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, roles=TWO_BROKERS, **FAST)
    create_placed(cluster.bootstrap, "kept", [[2], [3]])
    write_to_all(cluster.bootstrap, "kept", partitions=2, count=50)
    assert cluster.nodes[2].stop() == 0
    cluster.await_brokers(3)
    assert list(cluster.nodes[2].metadata_log.glob("*.log"))
    cluster.nodes[2].start()
    cluster.nodes[3].kill()
    cluster.nodes[3].start()
    cluster.await_brokers(2, 3)
    assert read_all(cluster.bootstrap, "kept", partitions=2, count=50) == numbered_values(2, 50)
    assert not list(cluster.nodes[3].data.glob("*stray*"))
