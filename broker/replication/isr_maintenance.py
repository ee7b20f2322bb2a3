"""Expands and shrinks the ISRs of the partitions that this broker leads.

A fetch that shows that a follower has caught up expands the ISR. Twice in replica.lag.time.max.ms the leader
shrinks the ISRs by the followers that have not caught up for longer than that. Only the controller changes an
ISR: `AlterPartitionManager` sends the change, and until it is answered `Partition` counts with the ISR before
and the ISR that was asked for.

    answer                         what follows
    the partition's new state      it is in force
    INELIGIBLE_REPLICA,            the controller has changed nothing: the ISR from before the change is in
    OPERATION_NOT_ATTEMPTED        force again
    FENCED_LEADER_EPOCH,           the leader does not know the controller's state of the partition, and
    INVALID_UPDATE_VERSION,        changes nothing until the metadata log has told it
    INVALID_REQUEST,
    NEW_LEADER_ELECTED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION
    any other error                the change is sent again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Final, Protocol

from broker.replication.partition import Partition
from broker.replication.partition_state import (
    NO_BROKER_EPOCH,
    LeaderAndIsr,
    PendingExpandIsr,
    PendingPartitionChange,
    TopicIdPartition,
)
from broker.replication.roles import UNKNOWN_OFFSET, ReplicaState
from config.ports import Clock, Timer, Timers
from controller.metadata.image.brokers import BrokerRegistration
from protocol.errors import ErrorCode

__all__ = ["IsrMaintenance"]

_log = logging.getLogger("barnabas.replicas")

PARTITIONS_PER_TURN: Final = 500
RETRY_MS: Final = 50

_NOT_APPLIED: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
_WAIT_FOR_METADATA: Final = MappingProxyType(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the controller doesn't know about this topic or partition",
        ErrorCode.UNKNOWN_TOPIC_ID: "the controller doesn't know about this topic",
        ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch is old",
        ErrorCode.INVALID_UPDATE_VERSION: "the partition epoch is invalid",
        ErrorCode.INVALID_REQUEST: "the request is invalid",
        ErrorCode.NEW_LEADER_ELECTED: "the new leader is elected",
    }
)


class AlterPartitions(Protocol):
    """What this module uses of `broker.controller_channel.alter_partition_manager.AlterPartitionManager`."""

    def submit(
        self,
        partition: TopicIdPartition,
        wanted: LeaderAndIsr,
        on_answer: Callable[[LeaderAndIsr | ErrorCode], None],
    ) -> bool: ...


class IsrMaintenance:
    """Implements `broker.replication.partition_listeners.IsrKeeper` for all partitions of one broker.

    registration: the registration of a broker in the newest image. broker_epoch: that of this broker's own
    registration. max_lag_ms: replica.lag.time.max.ms.
    """

    def __init__(
        self,
        manager: AlterPartitions,
        *,
        registration: Callable[[int], BrokerRegistration | None],
        broker_epoch: Callable[[], int],
        clock: Clock,
        timers: Timers,
        max_lag_ms: int,
    ) -> None:
        self._manager = manager
        self._registration = registration
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._timers = timers
        self._max_lag_ms = max_lag_ms
        self._partitions: Callable[[], Iterable[Partition]] = tuple
        self._timer: Timer | None = None
        self._is_stopped = False
        self.expands = 0
        self.shrinks = 0
        self.failed_updates = 0
        """Kafka's IsrExpandsPerSec, IsrShrinksPerSec and FailedIsrUpdatesPerSec, counted since the start."""

    def start(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Begins to look for followers that lag behind. partitions: all that this broker hosts."""
        self._partitions = partitions
        self._arm()

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Which replicas may be in an ISR.

    def may_join(self, replica_id: int, replica: ReplicaState) -> bool:
        """Implements `IsrKeeper`. A replica whose fetches have no broker epoch (before version 15) may
        join."""
        broker = self._registration(replica_id)
        return (
            replica.log_end_offset != UNKNOWN_OFFSET
            and broker is not None
            and broker.active
            and replica.broker_epoch in (NO_BROKER_EPOCH, broker.epoch)
        )

    def is_joining(self, replica_id: int, replica: ReplicaState, leader_end_offset: int) -> bool:
        """Implements `IsrKeeper`."""
        now_ms = self._clock.monotonic_ms()
        return replica.is_caught_up(leader_end_offset, now_ms, self._max_lag_ms) and self.may_join(
            replica_id, replica
        )

    # Changes.

    def caught_up(self, partition: Partition, replica_id: int) -> None:
        """Implements `IsrKeeper`."""
        if not self._is_stopped:
            self._submit(partition, partition.prepare_isr_expand(replica_id, self._broker_epoch()))

    def _arm(self) -> None:
        if not self._is_stopped:
            due_ms = self._clock.monotonic_ms() + max(1, self._max_lag_ms // 2)
            self._timer = self._timers.call_at(due_ms, self._look)

    def _look(self) -> None:
        """Shrinks the ISRs of all led partitions, some of them in each turn of the loop."""
        self._look_on(iter(list(self._partitions())))

    def _look_on(self, rest: Iterator[Partition]) -> None:
        for _ in range(PARTITIONS_PER_TURN):
            partition = next(rest, None)
            if self._is_stopped:
                return
            if partition is None:
                self._arm()
                return
            if partition.is_leader and not partition.is_alone:
                self.shrink(partition)
        self._timers.call_soon(lambda: self._look_on(rest))

    def shrink(self, partition: Partition) -> None:
        """Asks the controller to take the followers that lag behind out of the ISR, if there are any.

        If there are none, the high watermark may still advance: it waits for a replica that is about to join
        the ISR, and that replica may have fallen behind again.
        """
        late = partition.out_of_sync_replicas(self._clock.monotonic_ms(), self._max_lag_ms)
        if not late:
            partition.advance_high_watermark()
            return
        told = " ".join(
            f"(brokerId: {replica_id}, endOffset: {_offset(replica.log_end_offset)}, "
            f"lastCaughtUpTimeMs: {replica.last_caught_up_time_ms})"
            for replica_id, replica in late.items()
        )
        _log.info(
            "[Partition %s-%d broker=%d] Shrinking ISR from %s to %s. Leader: (highWatermark: %d, endOffset: "
            "%d). Out of sync replicas: %s.",
            partition.topic,
            partition.index,
            partition.node_id,
            _listed(partition.isr),
            _listed(replica for replica in partition.isr if replica not in late),
            partition.log.high_watermark,
            partition.log.log_end_offset,
            told,
        )
        self._submit(partition, partition.prepare_isr_shrink(late, self._broker_epoch()))

    def _submit(self, partition: Partition, pending: PendingPartitionChange) -> None:
        _log.debug("%r: submitting ISR state change %s", partition, pending)
        taken = self._manager.submit(
            (partition.topic_id, partition.index),
            pending.sent_leader_and_isr,
            lambda outcome: self._told(partition, pending, outcome),
        )
        if not taken:
            self._failed(partition, pending, ErrorCode.OPERATION_NOT_ATTEMPTED)

    def _told(
        self, partition: Partition, pending: PendingPartitionChange, outcome: LeaderAndIsr | ErrorCode
    ) -> None:
        if not partition.awaits(pending):
            _log.debug("%r: ignoring the answer to %s, the state has changed since", partition, pending)
        elif isinstance(outcome, ErrorCode):
            self._failed(partition, pending, outcome)
        elif partition.isr_confirmed(pending, outcome):
            self._succeeded(partition, pending)
        else:
            self.failed_updates += 1

    def _succeeded(self, partition: Partition, pending: PendingPartitionChange) -> None:
        if isinstance(pending, PendingExpandIsr):
            self.expands += 1
        else:
            self.shrinks += 1
        _log.info(
            "[Partition %s-%d broker=%d] ISR updated to %s %sand version updated to %d",
            partition.topic,
            partition.index,
            partition.node_id,
            _listed(partition.isr),
            "(under-min-isr) " if partition.is_under_min_isr else "",
            partition.partition_epoch,
        )

    def _failed(self, partition: Partition, pending: PendingPartitionChange, error: ErrorCode) -> None:
        self.failed_updates += 1
        if error in _NOT_APPLIED:
            partition.isr_rejected(pending)
            _log.info(
                "%r: failed to alter partition to %s since the controller rejected the request with %s. "
                "Partition state has been reset to the latest committed state.",
                partition,
                _listed(pending.sent_leader_and_isr.isr),
                error.name,
            )
            return
        if error in _WAIT_FOR_METADATA:
            _log.debug(
                "%r: failed to alter partition to %s since %s. Partition state may be out of sync, awaiting "
                "new the latest metadata.",
                partition,
                _listed(pending.sent_leader_and_isr.isr),
                _WAIT_FOR_METADATA[error],
            )
            return
        _log.warning(
            "%r: failed to update ISR to %s due to unexpected %s. Retrying.",
            partition,
            _listed(pending.sent_leader_and_isr.isr),
            error.name,
        )
        due_ms = self._clock.monotonic_ms() + RETRY_MS
        self._timers.call_at(due_ms, lambda: self._submit_again(partition, pending))

    def _submit_again(self, partition: Partition, pending: PendingPartitionChange) -> None:
        if partition.awaits(pending) and not self._is_stopped:
            self._submit(partition, pending)


def _listed(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))


def _offset(offset: int) -> str:
    return "unknown" if offset == UNKNOWN_OFFSET else str(offset)
