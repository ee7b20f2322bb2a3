"""Partitions as somebody sees them who looks at all nodes at once.

A `SeenReplica` is one partition on one node in one life of it. When the life ends it stays, with what its
disk held at that moment, until the node has the partition again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.replication.partition import Partition
from broker.replication.roles import Leader, RoleState
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.coverage import Coverage
from broker.simulation.rules.committed_logs import CommittedLog
from broker.simulation.rules.seen_logs import SeenLog
from controller.metadata.image.topics import PartitionRegistration
from storage.partition_log import PartitionLog

__all__ = ["SeenCluster", "SeenPartition", "SeenReplica", "Standing", "standings_of"]


class Standing(NamedTuple):
    """A hosted partition, as far as numbers say it."""

    state: RoleState
    leader_epoch: int
    partition_epoch: int
    log: PartitionLog
    high_watermark: int
    log_end_offset: int
    log_start_offset: int
    truncations: int


def standings_of(partitions: Iterable[Partition]) -> list[tuple[object, ...]]:
    """The fields of the standing of each, in order: plain tuples, because they are taken after each turn."""
    standings: list[tuple[object, ...]] = []
    for partition in partitions:
        log = partition.log
        segments = log.segments
        standings.append(
            (
                partition.state,
                partition.leader_epoch,
                partition.partition_epoch,
                log,
                log.high_watermark,
                segments.log_end_offset,
                log.log_start_offset,
                segments.truncations,
            )
        )
    return standings


class SeenPartition:
    """A partition of the cluster, whoever hosts it. replicas: by node id, of the last life that had it.

    newest: the registration with the highest partition epoch that any committed image has shown. leaders: by
    leader epoch, the node and its life. unclean_epoch: the leader epoch of the last election that lost
    committed records, where a run may have such.
    """

    def __init__(self, topic: str, topic_id: bytes, index: int) -> None:
        self.name = f"{topic}-{index}"
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.committed = CommittedLog()
        self.replicas: dict[int, SeenReplica] = {}
        self.newest: PartitionRegistration | None = None
        self.leaders: dict[int, tuple[int, int]] = {}
        self.unclean_epoch = -1

    def __str__(self) -> str:
        return self.name

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch that anybody has led in, or that an image has shown."""
        led = max(self.leaders, default=-1)
        return led if self.newest is None else max(led, self.newest.leader_epoch)


class SeenReplica:
    """A partition on a node in one of its lives. before: None if the partition has just come.

    judged: how many of the log's batches were there at the last look. held_end: up to where this node has
    held the log at any time, crashes or not; only cutting it off takes that back. verified_end: up to where
    its log is known to be what is committed. verified_before: the same before the last look. led_epoch: the
    last leader epoch in which it was seen to lead.
    """

    def __init__(
        self, partition: SeenPartition, node: SimulatedNode, hosted: Partition, old: SeenReplica | None
    ) -> None:
        self.partition = partition
        self.node = node
        self.node_id = node.node_id
        self.life = node.lives
        self.is_live = True
        self.hosted = hosted
        self.log = SeenLog(hosted.log, node.machine.files)
        self.now = Standing._make(*standings_of([hosted]))
        self.before: Standing | None = None
        self.judged = 0
        self.held_end: int = 0 if old is None else old.held_end
        self.verified_end = self.verified_before = 0
        self.led_epoch = -1

    def __str__(self) -> str:
        return f"{self.partition} on {self.node}"

    @property
    def leader(self) -> Leader | None:
        """What it remembers as the leader, if it is one."""
        state = self.now.state
        return state if isinstance(state, Leader) else None

    def look(self, standing: Standing) -> None:
        """Takes over what it is now, and reads its log on."""
        self.verified_before = self.verified_end
        if standing.log is not self.now.log:
            self.log = SeenLog(standing.log, self.node.machine.files)
            self.verified_end = self.verified_before = 0
        self.now = standing
        self.judged = self.log.look()
        if self.judged == 0:
            self.verified_end = 0
        if self.log.cut_offset is not None:
            self.held_end = min(self.held_end, self.log.cut_offset)
        self.held_end = max(self.held_end, standing.log_end_offset)
        committed = self.partition.committed
        committed.merged_end = max(committed.merged_end, self.log.merged_end)


class SeenCluster:
    """All partitions that any node or image has shown. allows_unclean: see `ClusterPlan`. losses: see
    `ClusterWorld`."""

    def __init__(
        self,
        coverage: Coverage,
        *,
        allows_unclean: bool = False,
        losses: dict[tuple[str, int], None] | None = None,
    ) -> None:
        self.coverage = coverage
        self.allows_unclean = allows_unclean
        self.losses = {} if losses is None else losses
        self.partitions: dict[tuple[bytes, int], SeenPartition] = {}

    def partition(self, topic: str, topic_id: bytes, index: int) -> SeenPartition:
        """The one with this topic id; a topic that is made anew has another."""
        found = self.partitions.get((topic_id, index))
        if found is None:
            found = self.partitions[topic_id, index] = SeenPartition(topic, topic_id, index)
        return found
