"""Fates of consumer groups and of their coordinators, told step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.replication.partition import Partition
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.cluster_steps import ClusterStep
from broker.simulation.cluster.operator_looks import OPERATOR_VERBS, OPERATORS_GROUP
from broker.simulation.cluster.simulated_node import SimulatedNode
from tests.simulation.cluster_by_hand import PRODUCER, TOPIC, ClusterByHand

__all__ = ["GROUP_FATES"]

LATE: Final = MappingProxyType(
    {
        "offsets.topic.num.partitions": "1",
        "replica.fetch.wait.max.ms": "400",
        "replica.fetch.min.bytes": "100000",
    }
)
GROUP: Final = "group-of-consumers"
USES: Final = 12


def _members(kind: str, count: int) -> tuple[ClientPlan, ...]:
    options = {"assignor": "range"} if kind == "classic_consumer" else {}
    return tuple(
        ClientPlan(kind, f"{kind}-{number}", (TOPIC,), GROUP, options) for number in range(1, count + 1)
    )


def _coordinator(cluster: ClusterByHand) -> tuple[SimulatedNode, Partition]:
    """With its partition of `__consumer_offsets`."""
    found = [
        (node, each)
        for node in cluster.world.brokers
        for each in node.partitions
        if each.topic == GROUP_TOPIC and each.is_leader
    ]
    return max(found, key=lambda pair: pair[1].leader_epoch)


def _coordinator_fails(seed: int, kind: str) -> None:
    """Right after it has written something that no replica has yet; twice."""
    cluster = ClusterByHand(seed, clients=(PRODUCER, *_members(kind, 2)), properties=LATE)
    cluster.wait_ms(8_000)
    _fail_coordinator(cluster)
    _fail_coordinator(cluster)
    cluster.end()


def _fail_coordinator(cluster: ClusterByHand) -> None:
    node, partition = _coordinator(cluster)
    log = partition.log
    end = log.log_end_offset
    cluster.wait_until(lambda: log.high_watermark < log.log_end_offset > end)
    cluster.wait_ms(4)
    node.machine.kill()
    cluster.wait_ms(4_500)
    with cluster.quiet():
        node.start()
    cluster.wait_ms(4_000)


def classic_coordinator_fails(seed: int) -> None:
    _coordinator_fails(seed, "classic_consumer")


def consumer_coordinator_fails(seed: int) -> None:
    _coordinator_fails(seed, "consumer")


def _member_dies(seed: int, kind: str) -> None:
    """And does not come back."""
    cluster = ClusterByHand(seed, clients=(PRODUCER, *_members(kind, 2)), topic_partitions=2)
    cluster.wait_ms(8_000)
    dead = cluster.run.clients.pop()
    dead.kill()
    cluster.wait_ms(1_000)
    cluster.end()


def member_stands_still(seed: int) -> None:
    """With records that it has read and not committed, until its session is long over."""
    cluster = ClusterByHand(seed, clients=(PRODUCER, *_members("classic_consumer", 2)), topic_partitions=2)
    cluster.wait_ms(6_000)
    member, history = cluster.run.clients[1], cluster.world.history
    cluster.wait_until(
        lambda: history[-1].operation == "poll" and history[-1].process.startswith(member.name)
    )
    member.machine.stand_still(30_000_000_000)
    cluster.wait_ms(35_000)
    cluster.end()


def classic_member_dies(seed: int) -> None:
    _member_dies(seed, "classic_consumer")


def consumer_dies(seed: int) -> None:
    _member_dies(seed, "consumer")


def operator_uses_a_group(seed: int) -> None:
    """By hand: an offset is committed and stays, or is deleted, or goes with its group."""
    cluster = ClusterByHand(seed)
    admin, name = cluster.run.admin, "use a group by hand"
    for bits in range(USES):
        with cluster.quiet():
            assert OPERATOR_VERBS[name].play(cluster.run, ClusterStep(0, name, 0, bits)) is not None
        cluster.wait_until(lambda: OPERATORS_GROUP not in admin.under_way)
    for how in ("committed", "deleted", "deleted with its group"):
        assert cluster.world.coverage.counts.get(f"operator: an offset was {how}"), how
    cluster.end()


GROUP_FATES: Final[Mapping[str, Callable[[int], None]]] = MappingProxyType(
    {
        "member stands still": member_stands_still,
        "operator uses a group": operator_uses_a_group,
        "member of a classic group dies": classic_member_dies,
        "member of a consumer group dies": consumer_dies,
        "coordinator of a classic group fails": classic_coordinator_fails,
        "coordinator of a consumer group fails": consumer_coordinator_fails,
    }
)
