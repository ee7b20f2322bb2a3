"""Nodes that must not join: each is refused with one line that names the reason."""

from __future__ import annotations

import shutil

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BROKER, CONTROLLER, FAST, OURS, Cluster, Node

A_CONTROLLER_AND_A_BROKER = [CONTROLLER, BROKER]
PATIENT = FAST | {"broker.session.timeout.ms": "600000"}
"""A broker whose session is over would leave its id to the newcomer."""
SHORT = {"initial.broker.registration.timeout.ms": "4000"}
"""Of the newcomer alone: the others have the time that they need."""


def refusal(node: Node) -> str:
    """What a node says that does not start; it must end by itself."""
    assert node.begin().ended() == 1
    return node.log_tail(1 << 20)


def another(cluster: Cluster, node_id: int, *, copy_of: int | None = None) -> Node:
    """A broker with this id beside the one that may have it already."""
    first = dict(cluster.nodes)
    cluster.folder /= "another"
    node = cluster.add(node_id, OURS, BROKER, properties=SHORT)
    if copy_of is None:
        cluster.format_node(node_id)
    else:
        shutil.copytree(first[copy_of].data, node.data, ignore=shutil.ignore_patterns(".lock"))
    return node


def test_a_second_broker_with_an_id_that_is_taken(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, roles=A_CONTROLLER_AND_A_BROKER, **PATIENT)
    first = cluster.nodes[2]
    try:
        told = refusal(another(cluster, 2))
        assert "Broker 2 could not register within 4000 ms" in told
        assert "DUPLICATE_BROKER_REGISTRATION" in told
        assert first.is_running
    finally:
        first.kill()


def test_a_directory_that_was_copied_from_another_node(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, roles=A_CONTROLLER_AND_A_BROKER, **PATIENT)
    node = another(cluster, 3, copy_of=2)
    told = refusal(node)
    assert "node.id" in told
    properties = node.data / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=2", "node.id=3"))
    told = refusal(node)
    assert "INVALID_REGISTRATION" in told
    assert "A log directory that was copied from another node is one reason" in told
    why = "Broker 3 is not registered: Broker 2 is already registered with a directory of this request"
    assert why in cluster.nodes[1].log_tail(1 << 20)
    assert cluster.alive_brokers(2) == [2]


def test_a_directory_of_another_cluster(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, roles=A_CONTROLLER_AND_A_BROKER, **PATIENT)
    cluster.cluster_id = "b3RoZXJjbHVzdGVyb3RoZQ"
    told = refusal(another(cluster, 3))
    assert "INCONSISTENT_CLUSTER_ID" in told


def test_a_broker_that_finds_no_controller(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, roles=A_CONTROLLER_AND_A_BROKER, start=False, **PATIENT | SHORT)
    told = refusal(cluster.nodes[2])
    assert "Broker 2 could not register within 4000 ms (initial.broker.registration.timeout.ms)" in told
