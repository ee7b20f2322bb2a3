"""Brokers and controllers of both kinds in one cluster: Barnabas beside Apache Kafka 4.3.1."""

from __future__ import annotations

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BOTH, BROKER, CONTROLLER, FAST, KAFKAS, OURS
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all


def test_a_broker_of_ours_joins_controllers_of_kafkas(new_cluster: NewCluster) -> None:
    cluster = new_cluster(KAFKAS, KAFKAS, OURS, roles=[CONTROLLER, BROKER, BROKER], **FAST)
    create_placed(cluster.bootstrap, "spread", [[2], [3]])
    write_to_all(cluster.bootstrap, "spread", partitions=2, count=50)
    assert read_all(cluster.bootstrap, "spread", partitions=2, count=50) == numbered_values(2, 50)
    assert cluster.nodes[3].stop() == 0
    cluster.await_brokers(2)
    cluster.nodes[3].start()
    cluster.await_brokers(2, 3)
    assert read_all(cluster.bootstrap, "spread", partitions=2, count=50) == numbered_values(2, 50)


def test_a_broker_of_kafkas_joins_a_quorum_of_ours(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, KAFKAS, roles=[CONTROLLER, BROKER, BROKER], **FAST)
    create_placed(cluster.bootstrap, "spread", [[2], [3]])
    write_to_all(cluster.bootstrap, "spread", partitions=2, count=50)
    assert read_all(cluster.bootstrap, "spread", partitions=2, count=50) == numbered_values(2, 50)
    cluster.nodes[3].stop()
    cluster.await_brokers(2)
    cluster.nodes[3].start()
    cluster.await_brokers(2, 3)
    assert read_all(cluster.bootstrap, "spread", partitions=2, count=50) == numbered_values(2, 50)


def test_nodes_with_both_roles_of_both_kinds(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, KAFKAS, OURS, roles=[BOTH] * 3, **FAST)
    create_placed(cluster.bootstrap, "spread", [[1], [2], [3]])
    write_to_all(cluster.bootstrap, "spread", partitions=3, count=50)
    assert read_all(cluster.bootstrap, "spread", partitions=3, count=50) == numbered_values(3, 50)
