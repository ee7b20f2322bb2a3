"""What must hold of the beginnings of logs: no record goes unless somebody has had it deleted.

    nothing is deleted unasked      the log of a client's topic, or of an internal one, begins at offset 0 or
                                    where somebody has asked that it begin, on every replica; and the files of
                                    any log reach down to its log start

What lies below a log start is looked at by no other rule, and no reader asks for it again: a retention that
comes too early, a follower that begins anew at a wrong offset and then leads, a DeleteRecords of another
partition would each take records away that were acknowledged, and all logs would be equal.

Who asks for it says so in the history. A log start may be lower again on another replica, or after a crash.
Topics of the administrator alone (`EXTRA_PREFIX`) are emptied and expire without a word. Where a run may lose
committed records others do so, too, and only the files are looked at.
"""

from __future__ import annotations

from typing import Final

from broker.simulation.cluster.cluster_changes import EXTRA_PREFIX
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from broker.simulation.rules.seen_partitions import SeenCluster, SeenReplica
from broker.simulation.verdict import Violation

__all__ = ["UNASKED", "DeletionRules"]

UNASKED: Final = "nothing is deleted unasked"


class DeletionRules:
    """`partition_watch.PartitionRule`: each replica by itself; and `cluster_world.Rule`, for the history."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._allows_unclean = cluster.allows_unclean
        self._count = cluster.coverage.count
        self._asked: dict[str, int] = {}
        """By partition, below which offset somebody has asked that all be deleted."""

    def after_turn(self, node: SimulatedNode) -> None:
        """What has changed is shown by the watch of partitions."""

    def has_ended(self, node: SimulatedNode) -> None:
        """What somebody has asked for is asked for in the next life, too."""

    def has_happened(self, event: Event) -> None:
        """See `cluster_world.Rule`."""
        if event.operation == "deleted":
            for partition, offset in event.positions.items():
                self._asked[partition] = max(offset, self._asked.get(partition, 0))

    def changed(self, replica: SeenReplica) -> None:
        """See `partition_watch.PartitionRule`."""
        start_offset = replica.now.log_start_offset
        first_offset = replica.hosted.log.segments[0].base_offset
        if first_offset > start_offset:
            raise Violation(
                UNASKED, f"{replica} begins at {start_offset}, and its first file at {first_offset}"
            )
        if start_offset == 0:
            return
        self._count("looked at: log that does not begin at 0")
        asked = self._asked.get(replica.partition.name, 0)
        is_free = self._allows_unclean or replica.partition.topic.startswith(EXTRA_PREFIX)
        if start_offset > asked and not is_free:
            raise Violation(
                UNASKED,
                f"{replica} begins at {start_offset} in epoch {replica.now.leader_epoch}, and nobody has "
                f"asked for more than that all below {asked} go; all below "
                f"{replica.partition.committed.end_offset} is committed",
            )
