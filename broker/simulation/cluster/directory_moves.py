"""Replicas that an operator moves between the log directories of a broker, while it goes on writing them.

    a move begins     the broker copies the log beside the present one, and takes the copy in the end
    back again        a move to where the replica lies ends the one that is under way
    away first        a move of a partition that is not there yet, or not any more, says where it shall lie

Each broker is told by itself (AlterReplicaLogDirs, KIP-113), as `kafka-reassign-partitions` does it. Only
nodes with several log directories have such moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.cluster_changes import newest_image
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.partition_changes import some_of
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.seeded_random import SeededRandom
from controller.metadata.image.cluster_image import ClusterImage
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["DIRECTORY_MOVE_VERBS"]

MOST_AT_ONCE: Final = 3
LONGEST_UNTIL_BACK_MS: Final = 2_000


def _move(run: ClusterRun, step: ClusterStep) -> str | None:
    nodes = [node for node in run.world.brokers if node.is_up and len(node.directories) > 1]
    image = newest_image(run.world)
    if not nodes or image is None:
        return None
    node, random = nodes[step.whom % len(nodes)], step.random()
    moving = some_of(random, _partitions(image, node, random), random.between(1, MOST_AT_ONCE))
    if not moving:
        return None
    directory = random.one_of(node.directories)
    run.admin.carry_out(_moved(run, random, node, moving, directory))
    names = ", ".join(f"{topic}-{index}" for topic, index in moving)
    return f"{names} of {node} shall lie in {directory}"


def _partitions(image: ClusterImage, node: SimulatedNode, random: SeededRandom) -> list[tuple[str, int]]:
    """Those of which the broker has a replica; sometimes all, whoever has them."""
    takes_all = random.below(8) == 0
    return [
        (name, index)
        for name in sorted(image.topics.by_name)
        for index, partition in image.topics.by_name[name].partitions.items()
        if takes_all or node.node_id in partition.replicas
    ]


async def _moved(
    run: ClusterRun,
    random: SeededRandom,
    node: SimulatedNode,
    moving: list[tuple[str, int]],
    directory: str,
) -> None:
    await run.admin.ask_node(node.node_id, _request(moving, directory))
    if random.below(3) == 0:
        await run.admin.sleep_ms(random.below(LONGEST_UNTIL_BACK_MS))
        others = [each for each in node.directories if each != directory]
        await run.admin.ask_node(node.node_id, _request(moving, random.one_of(others)))


def _request(moving: list[tuple[str, int]], directory: str) -> AlterReplicaLogDirsRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in moving:
        topics.setdefault(topic, []).append(index)
    named = [
        AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(topic, indexes)
        for topic, indexes in topics.items()
    ]
    return AlterReplicaLogDirsRequest([AlterReplicaLogDirsRequest.AlterReplicaLogDir(directory, named)])


DIRECTORY_MOVE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {"move to another log directory": Verb(_move, 4)}
)
