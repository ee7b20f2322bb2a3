"""A follower whose disk takes no more: it leaves the ISR of what it cannot store, and comes back with room.

The limit on the size of files, which the system may set for a running process, stands for the full disk.
"""

from __future__ import annotations

import resource

from tests.cluster.conftest import NewCluster
from tests.cluster.test_elections import await_all, three_nodes
from tests.support.brokers.replica_logs import await_same_logs
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all

MANY = 20_000
ROOM_BYTES = 1_000


def test_a_follower_on_a_full_disk_leaves_and_comes_back(new_cluster: NewCluster) -> None:
    cluster = three_nodes(new_cluster, [[1, 2, 3], [1, 2, 3]])
    write_to_all(cluster.bootstrap, "t", partitions=1, count=MANY)
    await_same_logs(cluster, "t", [0], MANY)
    create_placed(cluster.bootstrap, "other", [[1, 2, 3]])
    node = cluster.nodes[3]
    size = (node.data / "t-0" / "00000000000000000000.log").stat().st_size
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size + ROOM_BYTES, resource.RLIM_INFINITY))
    write_to_all(cluster.bootstrap, "t", partitions=1, count=1_000, first=MANY)
    await_all(
        cluster,
        1,
        "ISR without the full follower, of that partition alone",
        lambda p: sorted(p.isr_nodes) == ([1, 2] if p.partition_index == 0 else [1, 2, 3]),
    )
    assert cluster.alive_brokers(1) == [1, 2, 3], "it is full, not dead"
    write_to_all(cluster.bootstrap, "other", partitions=1, count=100)
    await_same_logs(cluster, "other", [0], 100)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await_all(cluster, 1, "all in sync again", lambda p: sorted(p.isr_nodes) == [1, 2, 3])
    await_same_logs(cluster, "t", [0], MANY + 1_000)
    assert read_all(cluster.bootstrap, "t", 1, MANY + 1_000) == numbered_values(1, MANY + 1_000)
    assert "Traceback" not in node.log_tail(1 << 20)
