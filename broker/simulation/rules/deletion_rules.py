"""What must hold of the beginnings of logs: no record goes unless somebody has had it deleted.

    nothing is deleted unasked      the log of a client's topic, or of an internal one, begins at offset 0, on
                                    every replica; and the files of any log reach down to its log start

What lies below a log start is looked at by no other rule, and no reader asks for it again: a retention that
comes too early, a follower that begins anew at a wrong offset and then leads, a DeleteRecords of another
partition would each take records away that were acknowledged, and all logs would be equal.

Topics of the administrator alone (`EXTRA_PREFIX`) are emptied and expire. Where a run may lose committed
records others do so, too, and only the files are looked at.
"""

from __future__ import annotations

from typing import Final

from broker.simulation.cluster.cluster_changes import EXTRA_PREFIX
from broker.simulation.rules.seen_partitions import SeenCluster, SeenReplica
from broker.simulation.verdict import Violation

__all__ = ["UNASKED", "DeletionRules"]

UNASKED: Final = "nothing is deleted unasked"


class DeletionRules:
    """Each replica by itself."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._allows_unclean = cluster.allows_unclean
        self._count = cluster.coverage.count

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
        if not self._allows_unclean and not replica.partition.topic.startswith(EXTRA_PREFIX):
            raise Violation(
                UNASKED,
                f"{replica} begins at {start_offset} in epoch {replica.now.leader_epoch}, and nobody has "
                f"asked for that; all below {replica.partition.committed.end_offset} is committed",
            )
