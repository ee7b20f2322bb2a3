"""Disks that are lost for good, with the replicas and the votes on them.

    lose a controller's disk   of one voter of a dynamic quorum. It comes back as another replica, with
                               another directory id, which only observes; its operator takes the former voter
                               out of the quorum and lets the new one in (KIP-853)
    lose a log directory       of a broker with several, one that does not hold the metadata log. An empty one
                               is formatted in its place, and the broker copies what was in it

A voter that has forgotten its vote is no danger, as the quorum knows it by its directory: it is a voter that
never comes back. So a majority of the voters must be left, and nobody else may be taken out of the quorum
until it is replaced. In a static quorum a voter is known by its id alone, and could give its vote again:
there no controller's disk is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import end_with_a_disk, start_all_now
from broker.simulation.cluster.membership_changes import (
    LOOK_EVERY_MS,
    VOTERS,
    has_directory,
    may_change_voters,
    quorum_now,
    voters_now,
)
from broker.simulation.cluster.simulated_node import SimulatedNode
from controller.raft.identity import ReplicaKey

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["DISK_LOSS_VERBS"]

LEAST_VOTERS: Final = 3
LONGEST_DOWN_MS: Final = 10_000


def _lose_controllers_disk(run: ClusterRun, step: ClusterStep) -> str | None:
    world = run.world
    voters = [voter.key for voter in voters_now(run)]
    if not may_change_voters(run) or len(voters) < LEAST_VOTERS:
        return None
    if any(voter.id not in world.nodes for voter in voters):
        return None
    voter = voters[step.whom % len(voters)]
    node = world.nodes[voter.id]
    if not run.budget.may_lose(node):
        return None
    run.admin.under_way[VOTERS] = None
    end_with_a_disk(run, node, step, LONGEST_DOWN_MS)
    node.machine.lose_disk()
    node.format()
    run.admin.carry_out(_replaced(run, node, voter))
    return f"{node} loses its disk and its vote, and starts with an empty one"


async def _replaced(run: ClusterRun, node: SimulatedNode, lost: ReplicaKey) -> None:
    """Goes on when the trouble is over, too, until the node votes again."""
    admin = run.admin
    while not admin.is_finishing:
        quorum = await quorum_now(run)
        if quorum is not None:
            directories = [
                each.replica_directory_id for each in quorum.current_voters if each.replica_id == lost.id
            ]
            observer = next((each for each in quorum.observers if has_directory(node, each)), None)
            if lost.directory_id in directories:
                await admin.remove_voter(lost.id, lost.directory_id)
            elif directories:
                run.world.coverage.count("voters replaced after their disk was lost")
                break
            elif observer is not None:
                directory_id = observer.replica_directory_id
                await admin.add_voter(lost.id, directory_id, node.place.host, node.place.controller_port)
        await admin.sleep_ms(LOOK_EVERY_MS)
    del admin.under_way[VOTERS]


def _lose_directory(run: ClusterRun, step: ClusterStep) -> str | None:
    nodes = [node for node in run.world.brokers if len(node.directories) > 1]
    if not nodes:
        return None
    node = nodes[step.whom % len(nodes)]
    if not run.budget.may_lose(node):
        return None
    end_with_a_disk(run, node, step, LONGEST_DOWN_MS)
    directory = node.directories[-1]
    node.machine.lose_directory(directory)
    node.format()
    return f"{node} loses {directory}, and starts with an empty one"


DISK_LOSS_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "lose a controller's disk": Verb(_lose_controllers_disk, 3, start_all_now),
        "lose a log directory": Verb(_lose_directory, 3, start_all_now),
    }
)
