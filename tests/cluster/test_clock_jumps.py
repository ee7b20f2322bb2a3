"""The wall clock of a node jumps: sessions, leaders and ISRs live by another one, and nobody notices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from protocol.records.header import headers
from tests.cluster.conftest import NewCluster
from tests.cluster.test_elections import await_all, partitions
from tests.support.brokers.cluster import FAST, OURS, Cluster, OurNode
from tests.support.brokers.jumping_clock import set_clock
from tests.support.brokers.replica_logs import await_same_logs, log_bytes
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all

NODES = (1, 2, 3)
PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
HOUR_MS = 3_600_000
COUNT = 100


PATIENT = FAST | {"broker.session.timeout.ms": "60000", "replica.lag.time.max.ms": "60000"}
"""Much less than a jump, and more than a node waits for processor time."""


def clocked_cluster(new_cluster: NewCluster, properties: Mapping[str, str]) -> Cluster:
    """Each node leads one partition of `t` and stamps its records; its clock may be set with `set_clock`."""
    given = {key.replace(".", "_"): value for key, value in properties.items()}
    given["log_message_timestamp_type"] = "LogAppendTime"
    cluster = new_cluster(OURS, OURS, OURS, start=False, **given)
    for node in cluster.nodes.values():
        assert isinstance(node, OurNode)
        node.module = "tests.support.brokers.jumping_clock"
    cluster.start()
    cluster.await_brokers()
    create_placed(cluster.bootstrap, "t", PLACES)
    await_all(cluster, 1, "all replicas in sync", lambda p: len(p.isr_nodes) == len(NODES))
    return cluster


@pytest.mark.parametrize("jump_ms", [10 * HOUR_MS, -HOUR_MS // 2])
def test_a_jump_fences_nobody_and_loses_nothing(new_cluster: NewCluster, jump_ms: int) -> None:
    """On one node after the other, so that all clocks differ, and then all are right again."""
    cluster = clocked_cluster(new_cluster, PATIENT)
    written = 0
    for wrong_by_ms in (jump_ms, 0):
        for node in cluster.nodes.values():
            set_clock(node.properties_file, wrong_by_ms)
            write_to_all(cluster.bootstrap, "t", len(PLACES), COUNT, first=written)
            written += COUNT
    for node_id in NODES:
        assert cluster.alive_brokers(node_id) == list(NODES)
        for found, replicas in zip(partitions(cluster, node_id), PLACES, strict=True):
            assert (found.leader_id, found.leader_epoch) == (replicas[0], 0), "no leader was replaced"
            assert sorted(found.isr_nodes) == list(NODES)
    await_same_logs(cluster, "t", range(len(PLACES)), written)
    for partition in range(len(PLACES)):
        batches = headers(log_bytes(cluster.nodes[1].data, "t", partition))
        stamps = [header.max_timestamp for _, header in batches]
        assert max(stamps) - min(stamps) >= abs(jump_ms) - HOUR_MS // 4, "its leader's clock has jumped"
    assert read_all(cluster.bootstrap, "t", len(PLACES), written) == numbered_values(len(PLACES), written)


def test_what_is_silent_is_noticed_after_a_jump_back(new_cluster: NewCluster) -> None:
    """Nobody waits half an hour longer for a follower that lags and a broker whose session is over."""
    cluster = clocked_cluster(new_cluster, FAST)
    for node in cluster.nodes.values():
        set_clock(node.properties_file, -HOUR_MS // 2)
    cluster.nodes[3].pause()
    await_all(cluster, 1, "all without node 3", lambda p: sorted(p.isr_nodes) == [1, 2] and p.leader_id < 3)
    cluster.nodes[3].resume()
    await_all(cluster, 1, "all in sync again", lambda p: sorted(p.isr_nodes) == list(NODES))
