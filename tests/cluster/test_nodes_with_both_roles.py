"""Three nodes, each broker and controller: all are unfenced, and each leads partitions of its own."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, KAFKAS, OURS
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all


@pytest.mark.parametrize("kind", [OURS, KAFKAS])
def test_each_of_three_nodes_leads_a_partition_that_clients_use(new_cluster: NewCluster, kind: str) -> None:
    cluster = new_cluster(kind, kind, kind)
    create_placed(cluster.bootstrap, "spread", [[1], [2], [3]])
    write_to_all(cluster.bootstrap, "spread", partitions=3, count=50)
    assert read_all(cluster.bootstrap, "spread", partitions=3, count=50) == numbered_values(3, 50)


def test_a_node_that_was_killed_serves_what_it_had_when_it_is_back(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, **FAST)
    create_placed(cluster.bootstrap, "kept", [[1], [2], [3]])
    write_to_all(cluster.bootstrap, "kept", partitions=3, count=20)
    cluster.nodes[2].kill()
    cluster.await_brokers(1, 3)
    cluster.nodes[2].start()
    cluster.await_brokers(1, 2, 3)
    assert read_all(cluster.bootstrap, "kept", partitions=3, count=20) == numbered_values(3, 20)
