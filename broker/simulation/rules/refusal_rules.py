"""What a leader may not refuse to clients, since it has all that is committed.

    a leader knows what is committed       no position of a consumer within that is out of range or diverges,
                                           by Fetch or by OffsetForLeaderEpoch
    a producer's next batch is in order    the first that is open, when all before it were acknowledged and no
                                           try of it may have been written

Kafka's clients act on such answers: a consumer goes back to the first record or says that its log was
truncated, a producer begins anew in another epoch. The clients here do the same, and the history excuses what
they do then. A leader that was replaced and does not know it may lack what its successor has committed, so
it may answer so: only who was the leader of the newest epoch before it was asked, and still is when its
answer has come, is held to the rules. Where committed records were lost they say nothing.

A batch that was written already, as others behind it, may be out of order when it is sent again: a broker
that has started anew knows the last batch of each producer alone, by its snapshot, in Kafka as here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.simulation.cluster.cluster_world import ClusterWorld, RefusedPart
from broker.simulation.rules.seen_partitions import SeenCluster, SeenPartition, SeenReplica
from broker.simulation.verdict import Violation

__all__ = ["IN_ORDER", "KNOWS", "RefusalRules"]

KNOWS: Final = "a leader knows what is committed"
IN_ORDER: Final = "a producer's next batch is in order"


class _Leadership(NamedTuple):
    """since_ms: when the node was first seen to lead in this epoch."""

    epoch: int
    node_id: int
    since_ms: float


class RefusalRules:
    """`partition_watch.PartitionRule`, which learns who leads, and judge of what clients are refused."""

    def __init__(self, cluster: SeenCluster, world: ClusterWorld) -> None:
        self._cluster = cluster
        self._count = cluster.coverage.count
        self._world = world
        self._newest: dict[SeenPartition, _Leadership] = {}
        world.refusal_listeners.append(self.has_refused)

    def changed(self, replica: SeenReplica) -> None:
        """See `partition_watch.PartitionRule`."""
        partition, epoch = replica.partition, replica.now.leader_epoch
        if replica.leader is None or epoch < partition.latest_epoch:
            return
        known = self._newest.get(partition)
        if known is None or known.epoch < epoch:
            self._newest[partition] = _Leadership(epoch, replica.node_id, self._world.now_ms)

    def has_refused(self, refused: RefusedPart) -> None:
        """A client was told so. Raises Violation."""
        partition = self._cluster.partitions.get((refused.topic_id, refused.partition))
        if partition is None or partition.unclean_epoch >= 0:
            return
        replica = self._leader_all_the_time(partition, refused)
        if replica is None:
            self._count("refused by who may have been replaced")
            return
        start_offset, committed_end = replica.now.log_start_offset, partition.committed.end_offset
        epoch = replica.now.leader_epoch
        who = f"{refused.client} is told by {replica}, leader in epoch {epoch}: {refused.why}"
        if refused.offset is None:
            raise Violation(IN_ORDER, f"{who}; all before it was acknowledged")
        if start_offset <= refused.offset <= committed_end:
            raise Violation(
                KNOWS,
                f"{who}; it reads from {refused.offset}, the log begins at {start_offset}, and all below "
                f"{committed_end} is committed",
            )

    def _leader_all_the_time(self, partition: SeenPartition, refused: RefusedPart) -> SeenReplica | None:
        """Whoever has answered, if it was the newest leader from before it was asked until now."""
        newest = self._newest.get(partition)
        if newest is None or newest.epoch < partition.latest_epoch:
            return None
        if newest.node_id != refused.asked.node_id or newest.since_ms >= refused.asked.at_ms:
            return None
        replica = partition.replicas.get(newest.node_id)
        is_leader = replica is not None and replica.is_live and replica.leader is not None
        return replica if is_leader else None
