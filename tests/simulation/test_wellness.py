"""What must come to pass when the trouble is over, and by when: each look finds what it is there for."""

from __future__ import annotations

import msgspec
import pytest

from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.rules import wellness
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration
from protocol.values import ZERO_UUID

GONE = 9
"""A broker that has left the cluster."""


def without_leader(**holders: tuple[int, ...]) -> PartitionRegistration:
    replicas = (1, 2, 3)
    partition = PartitionRegistration(replicas, (ZERO_UUID,) * 3, (), leader=NO_LEADER)
    return msgspec.structs.replace(partition, **holders)


@pytest.mark.parametrize(
    ("partition", "may_lose", "reason"),
    [
        (without_leader(isr=(2,)), False, "has no leader"),
        (without_leader(elr=(2, GONE)), False, "has no leader"),
        (without_leader(), False, "has no leader"),
        (without_leader(), True, None),
        (without_leader(isr=(GONE,)), False, None),
        (without_leader(elr=(GONE,)), False, None),
    ],
)
def test_a_partition_that_nobody_leads(
    partition: PartitionRegistration, may_lose: bool, reason: str | None
) -> None:
    """It is excused where those who could lead it have left. Where nobody could, the cluster has forgotten
    who has what is committed."""
    places = tuple(NodePlace(number, True, True) for number in (1, 2, 3))
    world = ClusterWorld(1, places, may_lose_records=may_lose)
    assert wellness._reason_of(partition, world) == reason
