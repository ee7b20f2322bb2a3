"""One partition as this broker hosts it: its role, how far it is replicated, and who waits for it to change.

Nothing in here does input or output by itself: the log is an object that was given, and times are arguments,
in milliseconds of the broker's monotonic clock. What the partition remembers as a leader, as a follower or
with a failed disk is in `roles`; every change of role is in the table of `transitions`. A few facts of the
role are plain attributes as well (`is_leader`, `is_offline`, `is_alone`, `is_under_min_isr`,
`leader_epoch_start_offset`), because every request asks for them; only `_enter` and `_count_replicas` set
them.

::

    log start           last stable   high watermark        log end
        |--- readable by consumers ---------|--- not yet replicated ---|

The high watermark is the smallest log end among the replicas that are in sync, the leader's own included, and
among those that have caught up and may join them: a high watermark that ran ahead of these would keep them
out for ever. It never goes back while a leader leads, and it stands still while fewer replicas are in sync
than the topic asks for (KIP-966): what `acks=1` appends then is in the log, but no consumer sees it yet.

The leader epoch that a request names is checked before the role (KIP-320). A client that knows only an older
epoch is told FENCED_LEADER_EPOCH, one that knows a newer epoch than this broker UNKNOWN_LEADER_EPOCH. Only
then it matters whether this broker leads.

A watcher is told of one change: it is taken off the list, told, and may watch again. So an append to a
partition that nobody watches costs one look at an empty dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from broker.fast_lane.epoch import LaneEpoch
from broker.replication.partition_listeners import (
    ENOUGH_BYTES,
    NO_KEEPER,
    CommitWaiter,
    DeletionWaiter,
    IsrKeeper,
    Watched,
)
from broker.replication.partition_state import (
    NO_BROKER_EPOCH,
    CommittedPartitionState,
    LeaderAndIsr,
    PendingExpandIsr,
    PendingPartitionChange,
    PendingShrinkIsr,
)
from broker.replication.roles import (
    NO_EPOCH,
    NO_LEADER,
    UNKNOWN_OFFSET,
    Follower,
    Leader,
    Offline,
    PartitionFetchState,
    ReplicaState,
    RoleState,
)
from broker.replication.topic_settings import TopicCounters
from broker.replication.transitions import TRANSITIONS, Role, RoleCause
from protocol.errors import ErrorCode, InvariantViolated, invariant
from storage.errors import LogStorageError
from storage.partition_log import PartitionLog
from storage.retention import LEADER_INCREMENTS

_NONE: Final = int(ErrorCode.NONE)
_FENCED: Final = int(ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN: Final = int(ErrorCode.UNKNOWN_LEADER_EPOCH)
_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_STORAGE: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)


class Partition(Watched):
    """A hosted partition. The replica manager makes it. Differences between images and appends change it."""

    __slots__ = (
        "__weakref__",
        "_lane_epoch",
        "adding",
        "commit_waiters",
        "counters",
        "deletion_waiters",
        "index",
        "is_alone",
        "is_leader",
        "is_offline",
        "is_reassigning",
        "is_under_min_isr",
        "isr_keeper",
        "key",
        "leader_epoch",
        "leader_epoch_start_offset",
        "log",
        "min_insync_replicas",
        "node_id",
        "partition_epoch",
        "replicas",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: bytes,
        index: int,
        node_id: int,
        log: PartitionLog,
        counters: TopicCounters,
        lane_epoch: LaneEpoch | None = None,
        isr_keeper: IsrKeeper = NO_KEEPER,
    ) -> None:
        """lane_epoch: that of the node, which is bumped by every change that matters to the fast lane.
        isr_keeper: asks the controller for another ISR; without one the ISR stays as the metadata log tells
        it."""
        super().__init__()
        self._lane_epoch = lane_epoch or LaneEpoch()
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key = (topic_id, index)
        self.node_id = node_id
        self.log = log
        self.counters = counters
        self.isr_keeper = isr_keeper
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        """The replicas that a reassignment adds."""
        self.is_reassigning = False
        self.min_insync_replicas = 1
        """The `min.insync.replicas` of the topic, see `effective_min_isr`."""
        self.state: RoleState = Follower(
            NO_LEADER, PartitionFetchState(log.log_end_offset, NO_EPOCH, NO_EPOCH)
        )
        self.is_leader = False
        self.is_offline = False
        self.leader_epoch_start_offset = 0
        """The log's end when this broker began to lead in the current epoch; 0 if it does not lead."""
        self.is_under_min_isr = False
        """Whether this broker leads, and fewer replicas are in sync than acks=all needs."""
        self.is_alone = False
        """Whether this broker leads, there is no other replica, and one is enough for acks=all: then
        everything in the log counts as replicated."""
        self.commit_waiters: dict[CommitWaiter, int] = {}
        """The offset that the high watermark must reach for each waiter, in the order in which they came. The
        offsets need not ascend: a batch that is sent again waits for its first place."""
        self.deletion_waiters: list[DeletionWaiter] = []

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def role(self) -> Role:
        return self.state.role

    @property
    def leader_id(self) -> int:
        """The id of the leader that this broker knows; NO_LEADER if there is none or if the log has
        failed."""
        return self.state.leader_id

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR. It is empty unless this broker leads, because no other broker knows it for
        certain."""
        state = self.state
        return state.partition_state.isr if isinstance(state, Leader) else ()

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads, and not all replicas are in sync. Replicas that a reassignment adds do
        not count before it has ended."""
        return self.is_leader and len(self.isr) < len(self.replicas) - len(self.adding)

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this broker leads, and with one replica less in sync acks=all would fail."""
        return self.is_leader and len(self.isr) == self.effective_min_isr

    @property
    def effective_min_isr(self) -> int:
        """The number of replicas that must be in sync for acks=all; never more than there are replicas."""
        return min(self.min_insync_replicas, max(1, len(self.replicas)))

    def refusal(self, current_leader_epoch: int, *, leader_only: bool = True) -> int:
        """The error code for a request that names this leader epoch, 0 if it may go on.

        -1 names no epoch, so none is checked; a lower number is an epoch that was fenced long ago.
        leader_only: false for readers that any replica may serve.
        """
        if self.is_offline:
            return _STORAGE
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            return _FENCED if current_leader_epoch < self.leader_epoch else _UNKNOWN
        if leader_only and not self.is_leader:
            return _NOT_LEADER
        return _NONE

    # The role.

    def follow_image(
        self,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
        min_insync_replicas: int,
        now_ms: int,
    ) -> bool:
        """Takes over what the metadata log says about the partition. Returns whether the leader or its epoch
        has changed.

        Acknowledgements that wait in an epoch that this broker no longer leads fail, and watchers look again.
        An image that is older than an ISR which the controller has confirmed since changes nothing.
        """
        self.min_insync_replicas = min_insync_replicas
        if partition_epoch < self.partition_epoch:
            self._count_replicas()
            return False
        moved = leader_id != self.leader_id or leader_epoch != self.leader_epoch
        is_newer = partition_epoch > self.partition_epoch
        is_next_epoch = leader_epoch == self.leader_epoch + 1
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.adding = tuple(adding)
        self.is_reassigning = bool(adding or removing)
        if moved:
            self._change_leader(leader_id, tuple(isr), now_ms, is_next_epoch=is_next_epoch)
        elif isinstance(self.state, Leader):
            self.state.follow_image(replicas, tuple(isr), is_newer=is_newer)
        self._count_replicas()
        if moved:
            self.log.give_up_waiting_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.is_leader:
            self.fail_commit_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if moved:
            self.tell_changed()
        if self.is_leader:
            self.advance_high_watermark()
        if self.deletion_waiters:
            self._tell_deletion_waiters()
        return moved

    def _change_leader(
        self, leader_id: int, isr: tuple[int, ...], now_ms: int, *, is_next_epoch: bool
    ) -> None:
        """Begins a new epoch, in which this broker, another one or nobody leads. is_next_epoch: whether there
        was none between it and the one before. If there was, another broker may have led in it, to whose log
        the others have cut theirs."""
        if leader_id != self.node_id:
            self._enter(self._following(leader_id), RoleCause.LEADER_CHANGED)
            return
        log_end_offset = self.log.log_end_offset
        leader = Leader.elected(
            leader_id=leader_id,
            replicas=self.replicas,
            isr=isr,
            log_end_offset=log_end_offset,
            now_ms=now_ms,
            before=self.state if is_next_epoch and isinstance(self.state, Leader) else None,
        )
        self.log.leader_epochs.assign(self.leader_epoch, log_end_offset)
        self._enter(leader, RoleCause.ELECTED)

    def _following(self, leader_id: int) -> Follower:
        log = self.log
        end = log.log_end_offset
        return Follower(
            leader_id, PartitionFetchState(end, self.leader_epoch, log.leader_epochs.epoch_of(end))
        )

    def _enter(self, state: RoleState, cause: RoleCause) -> None:
        """Changes the role. This is the only place where it changes."""
        invariant(
            cause in TRANSITIONS.get((self.state.role, state.role), ()),
            "a partition changes its role as the table says",
            partition=self,
            old=self.state.role,
            new=state.role,
            cause=cause,
        )
        self.state = state
        self.is_leader = isinstance(state, Leader)
        self.leader_epoch_start_offset = state.epoch_start_offset if isinstance(state, Leader) else 0
        self.is_offline = isinstance(state, Offline)
        self._count_replicas()

    def require_insync(self, min_insync_replicas: int) -> None:
        """Takes over a change of the topic's `min.insync.replicas`."""
        self.min_insync_replicas = min_insync_replicas
        self._count_replicas()
        if self.is_leader:
            self.advance_high_watermark()

    def _count_replicas(self) -> None:
        """Computes the attributes that follow from the ISR. It is called with every change of the role, the
        leader epoch, the ISR and the required ISR, so it also makes the fast lane forget."""
        self._lane_epoch.bump()
        state = self.state
        if isinstance(state, Leader):
            self.is_under_min_isr = len(state.partition_state.isr) < self.effective_min_isr
            self.is_alone = not state.replicas and not self.is_under_min_isr
        else:
            self.is_under_min_isr = self.is_alone = False

    def retire(self) -> None:
        """Ends the partition, because it is not hosted here any more. All that wait for it are told."""
        self._enter(self._following(NO_LEADER), RoleCause.RETIRED)
        self.log.give_up_waiting_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.fail_commit_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.tell_changed()
        self._tell_deletion_waiters()
        self.tell_gone()

    def go_offline(self) -> None:
        """Takes the partition offline, because the disk has failed under its log. All that wait for it are
        told."""
        self._enter(Offline(), RoleCause.LOG_FAILED)
        self.fail_commit_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
        self.tell_changed()
        self._tell_deletion_waiters()
        self.tell_gone()

    # The other replicas, as the leader.

    def follower_fetched(
        self,
        replica_id: int,
        fetch_offset: int,
        log_start_offset: int = UNKNOWN_OFFSET,
        *,
        now_ms: int,
        broker_epoch: int = NO_BROKER_EPOCH,
        registered_epoch: int = NO_BROKER_EPOCH,
    ) -> int:
        """A follower asks for this offset, so it has everything before, from its log start on. The error code
        to answer, 0 if there is none.

        Call it for a fetch that has passed every check: neither its leader epoch is refused, nor does its log
        diverge from this one. What a diverging follower has is not what the leader has, and must not move
        the high watermark.

        log_start_offset: -1 where the follower does not tell it. broker_epoch: under which the follower's
        broker says that it is registered, -1 where it does not say. registered_epoch: under which it is, as
        far as this broker knows. A fetch of an earlier registration is refused with NOT_LEADER_OR_FOLLOWER
        (KIP-903): the broker has restarted since, and may have lost what it had.
        """
        state = self.state
        if not isinstance(state, Leader):
            return _NOT_LEADER
        replica = state.replicas.get(replica_id)
        if replica is None:
            return _NONE
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < max(replica.broker_epoch, registered_epoch):
            return _NOT_LEADER
        has_moved_start = replica.log_start_offset != log_start_offset
        replica.note_fetch(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            broker_epoch=broker_epoch,
        )
        if state.followers_outside:
            self._ask_to_take_in(state, replica_id, replica)
        if has_moved_start:
            self._tell_deletion_waiters()
        self.advance_high_watermark()
        return _NONE

    def follower_refusal(self, replica_id: int, current_leader_epoch: int) -> int:
        """The error code for a fetch of a broker that is no replica of this partition, 0 if it is one.

        A follower of a reassignment may know of it before this leader does. It is told that its picture of
        the leader epoch is not known here, so that it tries again.
        """
        state = self.state
        if not isinstance(state, Leader) or replica_id in state.replicas:
            return _NONE
        return _NOT_LEADER if current_leader_epoch == NO_EPOCH else _UNKNOWN

    def _ask_to_take_in(self, state: Leader, replica_id: int, replica: ReplicaState) -> None:
        """Asks for an ISR with this replica if it is outside and has everything that is committed. It must
        have that from this leader: what the leader had at the beginning of its epoch may be committed without
        its knowledge (KIP-497)."""
        offset = replica.log_end_offset
        if (
            isinstance(state.partition_state, CommittedPartitionState)
            and replica_id not in state.partition_state.isr
            and offset >= self.log.high_watermark
            and offset >= state.epoch_start_offset
            and self.isr_keeper.may_join(replica_id, replica)
        ):
            self.isr_keeper.caught_up(self, replica_id)

    def out_of_sync_replicas(self, now_ms: int, max_lag_ms: int) -> dict[int, ReplicaState]:
        """The followers in the ISR that have not caught up for longer than `max_lag_ms`, by broker id. None
        while another change of the ISR is under way."""
        state = self.state
        if not isinstance(state, Leader) or not isinstance(state.partition_state, CommittedPartitionState):
            return {}
        end = self.log.log_end_offset
        return {
            replica_id: state.replicas[replica_id]
            for replica_id in state.partition_state.isr
            if replica_id in state.replicas
            and not state.replicas[replica_id].is_caught_up(end, now_ms, max_lag_ms)
        }

    def prepare_isr_expand(self, replica_id: int, broker_epoch: int) -> PendingExpandIsr:
        """Begins to take a replica into the ISR. It counts for the high watermark at once. The caller sends
        what the returned state holds, and comes back with `isr_confirmed` or `isr_rejected`.

        broker_epoch: that of this broker's own registration, for this method and the next.
        """
        pending = self._leading().prepare_expand(
            replica_id,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            broker_epoch=broker_epoch,
        )
        self._count_replicas()
        return pending

    def prepare_isr_shrink(self, replica_ids: Iterable[int], broker_epoch: int) -> PendingShrinkIsr:
        """Begins to take replicas out of the ISR. They count for the high watermark until that is
        confirmed."""
        return self._leading().prepare_shrink(
            tuple(replica_ids),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            broker_epoch=broker_epoch,
        )

    def awaits(self, pending: PendingPartitionChange) -> bool:
        """Whether the answer to this change of the ISR still matters, because nothing has overtaken it."""
        return isinstance(self.state, Leader) and self.state.partition_state is pending

    def isr_confirmed(self, pending: PendingPartitionChange, answered: LeaderAndIsr) -> bool:
        """Takes in the controller's answer with the ISR in force. False if it is out of date: the metadata
        log has told more since, or another epoch has begun."""
        state = self.state
        if not isinstance(state, Leader) or state.partition_state is not pending:
            return False
        if answered.leader_epoch != self.leader_epoch or answered.partition_epoch < self.partition_epoch:
            return False
        state.confirm(CommittedPartitionState(answered.isr, answered.leader_recovery_state))
        self.partition_epoch = answered.partition_epoch
        self._count_replicas()
        self.advance_high_watermark()
        return True

    def isr_rejected(self, pending: PendingPartitionChange) -> bool:
        """Takes in the controller's answer that it has changed nothing and that the partition epoch is the
        one in force (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED). False if it is out of date.

        After any other error it is not known what the controller has done: the change stays pending, until
        the metadata log tells the ISR in force.
        """
        state = self.state
        if not isinstance(state, Leader) or state.partition_state is not pending:
            return False
        state.reject(pending)
        self._count_replicas()
        self.advance_high_watermark()
        return True

    def _leading(self) -> Leader:
        if not isinstance(self.state, Leader):
            raise InvariantViolated(f"{self!r} is asked for what only its leader knows, and is {self.role}")
        return self.state

    # The leader, as a follower.

    def follow_leader(self, high_watermark: int, log_start_offset: int) -> None:
        """The leader has told how far all is committed, and from where on it keeps records. Whoever reads
        from this replica is told.

        log_start_offset: at most the end of this replica's log.
        """
        log = self.log
        before = log.high_watermark
        if log.update_high_watermark(high_watermark) and self.watchers:
            self._tell_readers(before)
        if log.increase_log_start(log_start_offset, LEADER_INCREMENTS):
            self.tell_changed()

    # Deletion of records.

    def raise_log_start(self, offset: int) -> None:
        """As the leader, raises the log start to `offset`, which is at most the high watermark. Followers
        learn it with their next fetch; one that waits is answered now."""
        if self.log.increase_log_start(offset):
            self.tell_changed()

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """The smallest log start among the live replicas; -1 while one of them has told none."""
        state, start = self.state, self.log.log_start_offset
        if isinstance(state, Leader):
            for replica_id, replica in state.replicas.items():
                if replica.log_start_offset < start and is_alive(replica_id):
                    start = replica.log_start_offset
        return start

    def _tell_deletion_waiters(self) -> None:
        for waiter in tuple(self.deletion_waiters):
            waiter.low_watermark_moved(self)

    def appended(self, size_bytes: int) -> None:
        """Takes in that this broker has appended so many bytes to the log."""
        if not self.is_alone:
            if self.log_end_watchers:
                self.tell_log_end_moved(size_bytes)
            self.advance_high_watermark()
            return
        log = self.log
        log.update_high_watermark(log.segments.log_end_offset)
        if self.commit_waiters:
            self._acknowledge(log.high_watermark)
        if self.watchers:
            self.tell_grew(size_bytes)
        if self.log_end_watchers:
            self.tell_log_end_moved(size_bytes)

    def advance_high_watermark(self) -> None:
        """Moves the high watermark as far as the replicas in sync, and those about to be, allow. Tells those
        that wait for it."""
        state, log = self.state, self.log
        if self.is_under_min_isr or not isinstance(state, Leader):
            return
        before = log.high_watermark
        end = leader_end = log.log_end_offset
        for replica in state.in_sync_followers:
            if replica.log_end_offset < end:
                end = replica.log_end_offset
        if end <= before:
            return
        for replica_id, replica in state.followers_outside:
            if replica.log_end_offset < end and self.isr_keeper.is_joining(replica_id, replica, leader_end):
                end = replica.log_end_offset
        if end <= before:
            return
        log.update_high_watermark(end)
        if self.commit_waiters:
            self._acknowledge(end)
        if self.watchers:
            self._tell_readers(before)
        if self.log_end_watchers:
            self.tell_log_end_moved(0)

    def _tell_readers(self, before: int) -> None:
        """Tells those that read up to the high watermark how much more there is than when it was at `before`.
        The log is asked for that anew, because the high watermark moves by other steps than appends make."""
        log = self.log
        try:
            size_bytes = log.size_between(before, log.high_watermark)
        except LogStorageError:
            size_bytes = ENOUGH_BYTES  # whoever waits looks now, and meets the error
        self.tell_grew(size_bytes)

    def wait_for_commit(self, offset: int, waiter: CommitWaiter) -> None:
        """Has `waiter` told when the high watermark has reached `offset`, or cannot reach it any more. It
        waits for one offset of this partition at a time."""
        self.commit_waiters[waiter] = offset

    def forget_commit_waiter(self, waiter: CommitWaiter) -> None:
        self.commit_waiters.pop(waiter, None)

    def fail_commit_waiters(self, error: ErrorCode) -> None:
        waiters, self.commit_waiters = self.commit_waiters, {}
        for waiter in waiters:
            waiter.replicated(self, error)

    def _acknowledge(self, high_watermark: int) -> None:
        waiters = self.commit_waiters
        reached = [waiter for waiter, offset in waiters.items() if offset <= high_watermark]
        for waiter in reached:
            del waiters[waiter]
        error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self.is_under_min_isr else ErrorCode.NONE
        for waiter in reached:
            waiter.replicated(self, error)
