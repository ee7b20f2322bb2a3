"""Replicas move between the log directories of a simulated broker, and back."""

from __future__ import annotations

import pytest

from broker.simulation.cluster.simulated_node import SimulatedNode
from tests.simulation.changing_cluster import TOPIC, ChangingCluster

DIRECTORIES = "/data,/data-2"


def directories_of(node: SimulatedNode) -> dict[int, str]:
    """Where each partition of the topic lies."""
    return {
        each.index: each.log.directory.rpartition("/")[0] for each in node.partitions if each.topic == TOPIC
    }


def moved_to(cluster: ChangingCluster, wanted: str, whom: int) -> None:
    """Asks for moves until all of the topic lies there; others than the topic's may be named, too."""
    node = cluster.run.world.nodes[1 + whom]
    for bits in range(0, 400, 7):
        if cluster.play("move to another log directory", bits, whom).endswith(f"shall lie in {wanted}"):
            cluster.pass_by(5_000)
        if set(directories_of(node).values()) == {wanted}:
            return
    raise AssertionError((directories_of(node), cluster.told))


def test_replicas_move_to_another_directory_and_back() -> None:
    cluster = ChangingCluster(directories=DIRECTORIES)
    node = cluster.run.world.nodes[2]
    before = directories_of(node)
    assert before
    for wanted in ("/data-2", "/data", "/data-2"):
        moved_to(cluster, wanted, whom=1)
    image = cluster.image
    for index in before:
        partition = image.topics.by_name[TOPIC].partitions[index]
        assert 2 in partition.isr


def test_brokers_with_one_directory_have_nothing_to_move() -> None:
    cluster = ChangingCluster()
    with pytest.raises(AssertionError, match="found nothing to do"):
        cluster.play("move to another log directory")
