"""What a leader holds back from throttled replicas (KIP-73), while they are sent more than the rate allows.

Only a replica outside the ISR is held back: one that is in sync costs little more than what producers write,
and would leave the ISR without it. What both kinds read of throttled partitions is counted. A partition that
is held back is answered without records and without an error, and the others of the request go on. In Kafka
this is `ReplicaManager.shouldLeaderThrottle`.
"""

from __future__ import annotations

from broker.quotas.replication_quota import ReplicationQuota
from broker.replication.partition import Partition
from config.ports import Clock

__all__ = ["LeaderReplication", "ReplicaReader"]


class LeaderReplication:
    """What this broker sends to followers. quota: the quota for throttled replicas."""

    __slots__ = ("bytes_out", "clock", "quota", "reassignment_bytes_out")

    def __init__(self, quota: ReplicationQuota, clock: Clock) -> None:
        self.quota = quota
        self.clock = clock
        self.bytes_out = 0
        self.reassignment_bytes_out = 0
        """The part of them that was sent to replicas which reassignments add."""

    def reader(self, replica_id: int) -> ReplicaReader | None:
        """The replica that fetches with this replica id; None if it is a consumer."""
        return None if replica_id < 0 else ReplicaReader(self, replica_id)


class ReplicaReader:
    """A replica that fetches from partitions that this broker leads."""

    __slots__ = ("_replica_id", "_sent")

    def __init__(self, sent: LeaderReplication, replica_id: int) -> None:
        self._sent = sent
        self._replica_id = replica_id

    def is_held_back(self, partition: Partition) -> bool:
        """Whether the replica gets nothing of the partition now."""
        sent = self._sent
        return (
            sent.quota.is_throttled(partition.topic, partition.index)
            and self._replica_id not in partition.isr
            and sent.quota.is_exceeded(sent.clock.monotonic_ms())
        )

    def is_sent(self, partition: Partition, size_bytes: int) -> None:
        """Counts so many bytes of records that are sent to the replica."""
        sent = self._sent
        sent.bytes_out += size_bytes
        if self._replica_id in partition.adding:
            sent.reassignment_bytes_out += size_bytes
        if sent.quota.is_throttled(partition.topic, partition.index):
            sent.quota.record(size_bytes, sent.clock.monotonic_ms())
