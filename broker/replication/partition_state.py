"""The ISR as a leader sees it: the one in the metadata log, or another for which it has asked the controller.

The high watermark counts the *maximal* ISR: every replica that is in the ISR, or may be in it already without
the leader knowing. A leader that asks to take a replica in counts it from that moment on, because the
controller may elect it as soon as it has written the change. A leader that asks to take replicas out goes on
counting them until the controller has confirmed that they are out. acks=all and `min.insync.replicas` are
judged by the committed ISR (KIP-497).

The names are those of Kafka's `Partition.scala`. All values are immutable.
"""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

import msgspec

from broker.replication.transitions import IsrState

__all__ = [
    "NO_BROKER_EPOCH",
    "CommittedPartitionState",
    "LeaderAndIsr",
    "PartitionState",
    "PendingExpandIsr",
    "PendingPartitionChange",
    "PendingShrinkIsr",
    "TopicIdPartition",
]

TopicIdPartition: TypeAlias = tuple[bytes, int]
"""The id of a topic, and the index of one of its partitions."""

RECOVERED: Final = 0
"""The leader has nothing to recover; 1 is a leader after an unclean election (KIP-704)."""

NO_BROKER_EPOCH: Final = -1
"""The broker epoch of a replica that has not told it, or has not fetched yet."""


class LeaderAndIsr(msgspec.Struct, frozen=True):
    """The content of AlterPartition in both directions: an ISR with its leader epoch and partition epoch.

    isr_with_broker_epoch: the id and the broker epoch of each replica (KIP-903). In an answer the epochs are
    not told, and are NO_BROKER_EPOCH.
    """

    leader_id: int
    leader_epoch: int
    leader_recovery_state: int
    isr_with_broker_epoch: tuple[tuple[int, int], ...]
    partition_epoch: int

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr_with_broker_epoch)


class CommittedPartitionState(msgspec.Struct, frozen=True):
    """The ISR is the one in the metadata log, and the leader has not asked for another."""

    state: ClassVar[IsrState] = IsrState.COMMITTED

    isr: tuple[int, ...]
    leader_recovery_state: int = RECOVERED

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr


class PendingExpandIsr(msgspec.Struct, frozen=True):
    """The leader has asked for an ISR with one replica more."""

    state: ClassVar[IsrState] = IsrState.PENDING_EXPAND

    new_in_sync_replica_id: int
    sent_leader_and_isr: LeaderAndIsr
    last_committed_state: CommittedPartitionState

    @property
    def isr(self) -> tuple[int, ...]:
        return self.last_committed_state.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return (*self.isr, self.new_in_sync_replica_id)


class PendingShrinkIsr(msgspec.Struct, frozen=True):
    """The leader has asked for an ISR without some replicas."""

    state: ClassVar[IsrState] = IsrState.PENDING_SHRINK

    out_of_sync_replica_ids: tuple[int, ...]
    sent_leader_and_isr: LeaderAndIsr
    last_committed_state: CommittedPartitionState

    @property
    def isr(self) -> tuple[int, ...]:
        return self.last_committed_state.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr


PendingPartitionChange: TypeAlias = PendingExpandIsr | PendingShrinkIsr
PartitionState: TypeAlias = CommittedPartitionState | PendingPartitionChange
