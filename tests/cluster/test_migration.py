"""A cluster of Apache Kafka becomes one of Barnabas, and Apache Kafka's again, while clients go on working.

Nodes are added, join the quorum and take over the partitions; then the old ones stop, and are taken out of
the quorum and unregistered. Nobody restarts a client, nothing that was acknowledged is lost, and an
idempotent producer's records are there once. A transactional producer goes on in the epoch that it has, and
what it has committed is shown once and in order. It is done with the genuine tools, as an operator does it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, KAFKAS, OURS, Cluster
from tests.support.brokers.replica_logs import await_same_logs
from tests.support.brokers.voter_changes import change_voters
from tests.support.clients.checked_load import CheckedLoad
from tests.support.clients.ledger_load import LedgerLoad
from tests.support.clients.spread import create_placed
from tests.support.genuine.kafka_tools import ToolResult

pytestmark = [pytest.mark.java, pytest.mark.timeout(1800)]

TOPIC: Final = "moving"
LEDGER: Final = "ledger"
PLACES: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]
LEDGER_PLACES: Final = [[1, 2, 3], [2, 3, 1]]
PROPERTIES: Final = {
    **FAST,
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}
COUNTS: Final = {
    TOPIC: len(PLACES),
    LEDGER: len(LEDGER_PLACES),
    "__consumer_offsets": int(PROPERTIES["offsets.topic.num.partitions"]),
    "__transaction_state": int(PROPERTIES["transaction.state.log.num.partitions"]),
}


def run(cluster: Cluster, tool: str, *words: str) -> ToolResult:
    if cluster.tools is None:
        raise ValueError("a cluster without tools")
    done = cluster.tools.run(tool, *words)
    assert done.code == 0, done
    return done


def add_nodes(cluster: Cluster, kind: str, node_ids: Sequence[int]) -> None:
    """New nodes start, register and join the quorum."""
    for node_id in node_ids:
        known = {"controller.quorum.bootstrap.servers": cluster.bootstrap_controllers}
        cluster.add(node_id, kind, properties=known)
        cluster.format_node(node_id)
        cluster.start(node_id)
        cluster.await_brokers()
        config = ("--command-config", str(cluster.nodes[node_id].properties_file))
        change_voters(cluster, cluster.bootstrap_controllers, *config, "add-controller")


def move_partitions(cluster: Cluster, node_ids: Sequence[int]) -> None:
    """All partitions lie on these nodes from then on."""
    first, second, third = node_ids
    turns = [[first, second, third], [second, third, first], [third, first, second]]
    partitions = [
        {"topic": topic, "partition": index, "replicas": turns[index % 3]}
        for topic, count in COUNTS.items()
        for index in range(count)
    ]
    plan = cluster.folder / f"to-{first}.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    tool = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))
    run(cluster, "kafka-reassign-partitions", *tool, "--execute")

    def is_done() -> bool | None:
        told = run(cluster, "kafka-reassign-partitions", *tool, "--verify").out
        return told.count("is completed") == len(partitions) or None

    cluster.wait(is_done, f"end of the moves to {node_ids}")


def remove_nodes(cluster: Cluster, node_ids: Sequence[int]) -> None:
    """Nodes without partitions stop, leave the quorum and are forgotten.

    They stop first: a node that votes no longer finds the quorum by its bootstrap servers only, and those
    that its file names may all have gone.
    """
    for node_id in node_ids:
        node = cluster.nodes[node_id]
        node.stop()
        cluster.await_brokers()
        which = ("--controller-id", str(node_id), "--controller-directory-id", node.formatted_directory_id())
        change_voters(cluster, cluster.bootstrap_controllers, "remove-controller", *which)
        servers = ("--bootstrap-server", cluster.bootstrap)
        run(cluster, "kafka-cluster", "unregister", *servers, "--id", str(node_id))
        del cluster.nodes[node_id]


def test_a_cluster_of_kafkas_becomes_ours_and_kafkas_again(new_cluster: NewCluster) -> None:
    cluster = new_cluster(KAFKAS, KAFKAS, KAFKAS, **PROPERTIES)
    create_placed(cluster.bootstrap, TOPIC, PLACES)
    create_placed(cluster.bootstrap, LEDGER, LEDGER_PLACES)
    load = CheckedLoad(cluster.bootstrap, TOPIC, len(PLACES))
    ledger = LedgerLoad(cluster.bootstrap, LEDGER, len(LEDGER_PLACES))
    for kind, leaving, joining in ((OURS, (1, 2, 3), (4, 5, 6)), (KAFKAS, (4, 5, 6), (7, 8, 9))):
        add_nodes(cluster, kind, joining)
        move_partitions(cluster, joining)
        remove_nodes(cluster, leaving)
        assert sorted(cluster.brokers) == list(joining)
        ledger.await_more(60)
    load.end_writing()
    ledger.end()
    ledger.check(cluster.bootstrap)
    for partition, end in load.check(cluster.bootstrap).items():
        await_same_logs(cluster, TOPIC, [partition], end)
    assert load.refused == 0
    assert load.fewest_acknowledged > 1_000, "each producer has written all the time"
    assert len(ledger.committed) > 120, "so many were waited for"
    assert len(ledger.aborted) >= 60, "every third transaction is aborted"
