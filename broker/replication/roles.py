"""What a hosted partition remembers in each role. It is forgotten when the role ends.

A leader keeps a `ReplicaState` for every other replica, in the ISR or not: a replica outside the ISR must be
known to have caught up before the leader can ask to take it in. Times are milliseconds of the broker's
monotonic clock. The names are those of Kafka's `Replica.java` and `AbstractFetcherThread.scala`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, TypeAlias

import msgspec

from broker.replication.partition_state import (
    NO_BROKER_EPOCH,
    CommittedPartitionState,
    LeaderAndIsr,
    PartitionState,
    PendingExpandIsr,
    PendingPartitionChange,
    PendingShrinkIsr,
)
from broker.replication.transitions import ISR_TRANSITIONS, IsrCause, IsrState, Role
from protocol.errors import InvariantViolated, invariant

__all__ = [
    "NEVER",
    "NO_EPOCH",
    "NO_LEADER",
    "UNKNOWN_OFFSET",
    "Follower",
    "Leader",
    "Offline",
    "PartitionFetchState",
    "ReplicaState",
    "RoleState",
]

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1
NEVER: Final = -(1 << 62)
"""A time that is longer ago than every limit."""


class ReplicaState(msgspec.Struct, gc=False):
    """How far another replica is, as its fetches have told this leader.

    log_end_offset: the offset of its last fetch, so it has everything before. log_start_offset: where its log
    begins. last_caught_up_time_ms: when it last had everything that the leader had. broker_epoch: the epoch
    of the broker's registration, which every restart raises.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_caught_up_time_ms: int = NEVER
    broker_epoch: int = NO_BROKER_EPOCH
    last_fetch_time_ms: int = NEVER
    last_fetch_leader_log_end_offset: int = UNKNOWN_OFFSET
    """The leader's log end when the last fetch came: a fetch from there on shows that the replica had caught
    up at the time of the fetch before."""

    def begin_epoch(self, now_ms: int, leader_end_offset: int, *, is_in_sync: bool) -> None:
        """Begins a new epoch of the same leader. A replica in the ISR is taken to be caught up now, so that
        it has the full time to fetch; one outside must show it first."""
        self.last_fetch_leader_log_end_offset = leader_end_offset
        self.last_fetch_time_ms = self.last_caught_up_time_ms = now_ms if is_in_sync else NEVER

    def note_fetch(
        self,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int,
    ) -> None:
        """Notes that the replica has fetched from `fetch_offset` while the leader's log ended at
        `leader_end_offset`."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, self.last_fetch_time_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_log_end_offset = max(leader_end_offset, self.last_fetch_leader_log_end_offset)
        self.last_fetch_time_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has everything, or had at some time within the last `max_lag_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_time_ms <= max_lag_ms


class Leader:
    """This broker leads the partition in its current leader epoch."""

    role: ClassVar[Role] = Role.LEADER
    __slots__ = (
        "epoch_start_offset",
        "followers_outside",
        "in_sync_followers",
        "leader_id",
        "partition_state",
        "replicas",
    )

    def __init__(
        self,
        *,
        leader_id: int,
        epoch_start_offset: int,
        isr: tuple[int, ...],
        replicas: dict[int, ReplicaState],
    ) -> None:
        """leader_id: the id of this broker. epoch_start_offset: the log's end when it began to lead in this
        epoch. replicas: every other replica, by broker id."""
        self.leader_id = leader_id
        self.epoch_start_offset = epoch_start_offset
        self.partition_state: PartitionState = CommittedPartitionState(isr)
        self.replicas = replicas
        self.in_sync_followers: tuple[ReplicaState, ...] = ()
        """The other replicas of the maximal ISR: the high watermark does not pass any of them."""
        self.followers_outside: tuple[tuple[int, ReplicaState], ...] = ()
        """The other replicas that are not in the maximal ISR, with their broker ids."""
        self._count_in_sync()

    @classmethod
    def elected(
        cls,
        *,
        leader_id: int,
        replicas: Iterable[int],
        isr: tuple[int, ...],
        log_end_offset: int,
        now_ms: int,
        before: Leader | None,
    ) -> Leader:
        """The leader of a new epoch. before: its role in the epoch just before, if it led there too. What it
        knows of the other replicas stays true then, while a new leader knows nothing of them."""
        known = {} if before is None else before.replicas
        states = {}
        for replica in _others(leader_id, replicas, isr):
            state = states[replica] = known.get(replica) or ReplicaState()
            if before is None:
                state.last_caught_up_time_ms = now_ms if replica in isr else NEVER
            else:
                state.begin_epoch(now_ms, log_end_offset, is_in_sync=replica in isr)
        return cls(leader_id=leader_id, epoch_start_offset=log_end_offset, isr=isr, replicas=states)

    def follow_image(self, replicas: Iterable[int], isr: tuple[int, ...], *, is_newer: bool) -> None:
        """Takes over the replicas and the ISR from the metadata log, in the same leader epoch.

        is_newer: whether the log tells of a later partition epoch than the known one. What the controller has
        answered comes by the log once more, maybe late; a change that was asked for since then is still under
        way, and counts on. (Apache Kafka forgets it there, and counts without a replica that may be in the
        ISR already.)
        """
        state = self.partition_state
        if is_newer or state.state is IsrState.COMMITTED:
            state = CommittedPartitionState(isr)
        known = self.replicas
        self.replicas = {
            replica: known.get(replica) or ReplicaState()
            for replica in _others(self.leader_id, replicas, state.maximal_isr)
        }
        if state is self.partition_state:
            self._count_in_sync()
        else:
            self._change(state, IsrCause.IMAGE)

    def prepare_expand(
        self, replica_id: int, *, leader_epoch: int, partition_epoch: int, broker_epoch: int
    ) -> PendingExpandIsr:
        """Counts the replica as in sync from now on. The returned state holds what to ask of the controller.

        broker_epoch: that of this broker's own registration.
        """
        committed = self._committed()
        invariant(replica_id in self.replicas, "only a replica can join the ISR", replica=replica_id)
        invariant(replica_id not in committed.isr, "the replica is in the ISR already", replica=replica_id)
        sent = self._leader_and_isr(
            committed, (*committed.isr, replica_id), leader_epoch, partition_epoch, broker_epoch
        )
        pending = PendingExpandIsr(replica_id, sent, committed)
        self._change(pending, IsrCause.CAUGHT_UP)
        return pending

    def prepare_shrink(
        self, replica_ids: tuple[int, ...], *, leader_epoch: int, partition_epoch: int, broker_epoch: int
    ) -> PendingShrinkIsr:
        """Counts the replicas as in sync until the controller has confirmed that they are not."""
        committed = self._committed()
        invariant(self.leader_id not in replica_ids, "a leader stays in its own ISR", asked=replica_ids)
        isr = tuple(replica for replica in committed.isr if replica not in replica_ids)
        sent = self._leader_and_isr(committed, isr, leader_epoch, partition_epoch, broker_epoch)
        pending = PendingShrinkIsr(replica_ids, sent, committed)
        self._change(pending, IsrCause.FELL_BEHIND)
        return pending

    def confirm(self, committed: CommittedPartitionState) -> None:
        """Takes over the ISR in force from the controller's answer."""
        self._change(committed, IsrCause.CONFIRMED)

    def reject(self, pending: PendingPartitionChange) -> None:
        """Goes back to the ISR before, because the controller has not made the change."""
        self._change(pending.last_committed_state, IsrCause.REJECTED)

    def _committed(self) -> CommittedPartitionState:
        state = self.partition_state
        if not isinstance(state, CommittedPartitionState):
            raise InvariantViolated(
                f"a leader asks for one change of the ISR at a time, and waits for {state}"
            )
        return state

    def _leader_and_isr(
        self,
        committed: CommittedPartitionState,
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        broker_epoch: int,
    ) -> LeaderAndIsr:
        # An ISR is a set, but its order shows in Metadata and in tools. Kafka takes it from a hash table,
        # where small ids stand in ascending order.
        epochs = tuple(
            (each, broker_epoch if each == self.leader_id else self.replicas[each].broker_epoch)
            for each in sorted(isr)
        )
        return LeaderAndIsr(
            self.leader_id, leader_epoch, committed.leader_recovery_state, epochs, partition_epoch
        )

    def _change(self, new: PartitionState, cause: IsrCause) -> None:
        old = self.partition_state
        invariant(
            cause in ISR_TRANSITIONS.get((old.state, new.state), ()),
            "an ISR changes its state as the table says",
            old=old.state,
            new=new.state,
            cause=cause,
        )
        self.partition_state = new
        self._count_in_sync()

    def _count_in_sync(self) -> None:
        maximal_isr = self.partition_state.maximal_isr
        self.in_sync_followers = tuple(
            state for replica, state in self.replicas.items() if replica in maximal_isr
        )
        self.followers_outside = tuple(
            (replica, state) for replica, state in self.replicas.items() if replica not in maximal_isr
        )


class PartitionFetchState(msgspec.Struct, frozen=True, gc=False):
    """The offset from which a follower fetches, and what it tells the leader so that the leader can see a
    divergence.

    fetch_offset: the end of its log. last_fetched_epoch: the leader epoch of its last record, NO_EPOCH if the
    log is empty.
    """

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int


class Follower(msgspec.Struct, frozen=True):
    """Another broker leads the partition, or nobody does: then leader_id is NO_LEADER."""

    role: ClassVar[Role] = Role.FOLLOWER

    leader_id: int
    fetch_state: PartitionFetchState


class Offline(msgspec.Struct, frozen=True):
    """The log cannot be used any more. Every request is answered with KAFKA_STORAGE_ERROR."""

    role: ClassVar[Role] = Role.OFFLINE

    leader_id: int = NO_LEADER


RoleState: TypeAlias = Leader | Follower | Offline


def _others(leader_id: int, replicas: Iterable[int], isr: Iterable[int]) -> list[int]:
    """Every replica but the leader, once. The ISR is a part of the replicas; if it were not, its members
    would be counted all the same, because the high watermark must not pass them."""
    return [replica for replica in dict.fromkeys((*replicas, *isr)) if replica != leader_id]
