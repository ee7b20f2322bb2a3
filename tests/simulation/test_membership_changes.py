"""Nodes join a calm cluster and leave it, voters change, and all restart one after the other."""

from __future__ import annotations

import pytest

from broker.simulation.cluster.simulated_node import SimulatedNode
from controller.raft.identity import ReplicaKey
from tests.simulation.changing_cluster import ChangingCluster


def voters(node: SimulatedNode) -> list[int]:
    assert node.controller is not None
    return sorted(node.controller.log.quorum(0).endpoints)


def test_a_broker_joins_gets_replicas_and_leaves() -> None:
    cluster = ChangingCluster()
    world = cluster.run.world
    cluster.play("add a broker")
    assert 5 in world.nodes
    cluster.until(lambda image: 5 in image.brokers.by_id and not image.brokers.by_id[5].fenced)
    cluster.until(
        lambda image: any(5 in each.isr for each in image.topics.by_name["flights"].partitions.values())
    )
    while "node-5" not in cluster.play("remove a broker", len(cluster.told)):
        pass
    cluster.until(lambda image: 5 in world.former_nodes and 5 not in image.brokers.by_id)
    assert not world.former_nodes[5].is_up
    for topic in cluster.image.topics.by_name.values():
        assert not any(5 in each.replicas for each in topic.partitions.values())


def test_no_broker_leaves_that_is_needed() -> None:
    cluster = ChangingCluster(nodes=3)
    with pytest.raises(AssertionError, match="found nothing to do"):
        cluster.play("remove a broker")


def test_nodes_restart_one_after_the_other() -> None:
    cluster = ChangingCluster()
    nodes = list(cluster.run.world.nodes.values())
    told = cluster.play("rolling restart")
    while "with" not in told:
        cluster.until(lambda _: "rolling restart" not in cluster.run.admin.under_way, 120_000)
        told = cluster.play("rolling restart", len(cluster.told))
    least = [node.lives for node in nodes]
    most_down = 0

    def is_over(_: object) -> bool:
        nonlocal most_down
        most_down = max(most_down, sum(not node.is_up for node in nodes))
        return "rolling restart" not in cluster.run.admin.under_way

    cluster.until(is_over, 120_000)
    assert most_down == 1
    assert [node.lives for node in nodes] == [lives + 1 for lives in least]
    name, _, value = told.rpartition(" with ")[2].partition("=")
    assert all(node.place.properties[name] == value for node in nodes)


def test_voters_come_and_go() -> None:
    cluster = ChangingCluster(nodes=4, is_dynamic=True)
    world = cluster.run.world
    cluster.play("add a voter")
    cluster.until(lambda _: 5 in world.nodes and world.nodes[5].is_ready)
    cluster.until(lambda _: voters(world.nodes[1]) == [1, 2, 3, 5])
    cluster.pass_by(1_000)
    cluster.play("remove a voter")
    cluster.until(lambda _: len(voters(world.nodes[1])) == 3)
    cluster.pass_by(1_000)
    cluster.play("remove a voter")
    cluster.pass_by(2_000)
    assert len(voters(world.nodes[1])) == 3


def test_a_voter_that_has_lost_its_disk_is_replaced() -> None:
    """By the same node with another directory."""
    cluster = ChangingCluster(is_dynamic=True)
    world = cluster.run.world
    before = {number: key(world.nodes[number]) for number in (1, 2, 3)}
    for _ in before:
        cluster.play("lose a controller's disk")
        cluster.until(lambda _: "voters" not in cluster.run.admin.under_way)
        cluster.until(lambda _: not cluster.run.budget.has_lost)
    assert world.coverage.counts["voters replaced after their disk was lost"] == 3
    assert voters(world.nodes[1]) == [1, 2, 3]
    assert all(key(world.nodes[number]) != before[number] for number in before)


def key(node: SimulatedNode) -> ReplicaKey:
    assert node.quorum_replica is not None
    return node.quorum_replica.key


def test_a_log_directory_is_lost_and_copied_anew() -> None:
    cluster = ChangingCluster(directories="/data,/data-2")
    assert cluster.play("lose a log directory", whom=1).startswith("node-2 loses /data-2")
    assert cluster.run.budget.has_lost
    cluster.until(lambda _: not cluster.run.budget.has_lost)
    cluster.until(lambda _: all(len(cluster.partition(index).isr) == 3 for index in (0, 1)))


def test_a_voter_becomes_a_broker_alone() -> None:
    cluster = ChangingCluster(nodes=4, is_dynamic=True)
    world = cluster.run.world
    for _ in range(3):
        cluster.play("add a voter", len(cluster.told))
        cluster.until(lambda _: not cluster.run.admin.under_way)
    assert len(voters(world.nodes[1])) == 5
    plain = world.coverage.counts
    while "combined nodes that became plain" not in plain:
        cluster.play("make a node plain", len(cluster.told))
        cluster.until(lambda _: not cluster.run.admin.under_way)
    cluster.until(lambda _: all(node.is_ready for node in world.nodes.values()))
    changed = [node for node in world.nodes.values() if node.node_id > 4 and not node.place.is_controller]
    assert changed
    cluster.until(lambda image: not image.brokers.by_id[changed[0].node_id].fenced)


def test_the_same_seed_is_the_same_run() -> None:
    def changed() -> tuple[str, list[str]]:
        cluster = ChangingCluster(is_dynamic=True)
        for verb in ("add a broker", "add a voter", "rolling restart", "remove a broker"):
            cluster.play(verb)
            cluster.pass_by(8_000)
        return cluster.digest, cluster.told

    assert changed() == changed()
