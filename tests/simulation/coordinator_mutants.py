"""Rules of the coordinators of transactions and groups, each broken on purpose."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from broker.coordinator.classic import rebalance
from broker.coordinator.consumer import consumer_group_requests, heartbeat, reconciliation
from broker.coordinator.consumer.consumer_groups import ConsumerGroups
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets import commit
from broker.coordinator.runtime.coordinator_context import CoordinatorContext
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.partition_load import PartitionLoad
from broker.coordinator.transaction import (
    end_transaction,
    init_producer_id,
    partitions,
    transaction_markers,
    transaction_metadata,
)
from broker.coordinator.transaction.first_writes import FirstWrites
from broker.coordinator.transaction.transaction_markers import TransactionMarkers
from broker.coordinator.transaction.transaction_metadata import NO_EPOCH, TransactionMetadata
from broker.coordinator.transaction.transaction_shard import TransactionShard
from broker.coordinator.transaction.transaction_states import TransactionState
from broker.simulation.cluster import cluster_run
from protocol.errors import ErrorCode
from tests.simulation.cluster_mutant import ClusterMutant, Patch, everywhere, wrapped

__all__ = ["COORDINATOR_MUTANTS"]


# The runtime of both


def _stays_when_another_leads(patch: Patch) -> None:
    def resigned(genuine: Any, self: Any, partition: int, leader_epoch: int | None = None) -> None:
        if leader_epoch is None:
            genuine(self, partition)

    wrapped(patch, CoordinatorRuntime, "resigned", resigned)


def _answers_before_it_is_stored(patch: Patch) -> None:
    def settle(genuine: Any, self: Any, result: Any, pending: Any, *rest: Any) -> None:
        if pending is not None and result.response is not None and not result.refusal:
            pending.complete(result.response)
            pending = None
        genuine(self, result, pending, *rest)

    wrapped(patch, CoordinatorContext, "_settle", settle)


def _stops_loading_early(patch: Patch) -> None:
    """The last thing that lies in the log is left out."""

    def take(genuine: Any, self: PartitionLoad, batch: Any) -> None:
        kept, self.__dict__["_kept"] = self.__dict__.get("_kept"), batch
        if kept is not None:
            genuine(self, kept)
        self._next_offset = batch.next_offset

    wrapped(patch, PartitionLoad, "_take", take)


# Transactions


def _ends_before_it_is_stored(patch: Patch) -> None:
    """The producer is told that its transaction is committed, and the markers follow, before the record of
    that is replicated."""

    def settle(genuine: Any, self: Any, result: Any, pending: Any, *rest: Any) -> None:
        if isinstance(self.shard, TransactionShard) and pending is not None and result.response is not None:
            pending.complete(result.response)
            pending = None
        genuine(self, result, pending, *rest)

    wrapped(patch, CoordinatorContext, "_settle", settle)


def _forgets_the_fence(patch: Patch) -> None:
    """A new incarnation gets the epoch that the old one has."""

    def following(genuine: Any, metadata: TransactionMetadata, *rest: Any) -> Any:
        found = genuine(metadata, *rest)
        if isinstance(found, TransactionMetadata) and metadata.producer_epoch != NO_EPOCH:
            return msgspec.structs.replace(found, producer_epoch=metadata.producer_epoch)
        return found

    genuine = transaction_metadata.with_next_epoch
    everywhere(patch, genuine, partial(following, genuine))


def _leaves_transactions_open(patch: Patch) -> None:
    """A new incarnation does not end what the old one has begun."""

    def init(genuine: Any, transactions: Any, transactional_id: str, *rest: Any) -> Any:
        present = transactions.by_id.get(transactional_id)
        if present is not None and present.state is TransactionState.ONGOING:
            done = msgspec.structs.replace(present, state=TransactionState.COMPLETE_ABORT)
            transactions._by_id[transactional_id] = done
        return genuine(transactions, transactional_id, *rest)

    genuine = init_producer_id.init_producer_id
    everywhere(patch, genuine, partial(init, genuine))


def _ends_for_anybody(patch: Patch) -> None:
    """Whoever asks, in whatever epoch."""

    def verdict(genuine: Any, present: Any, request: Any) -> Any:
        epoch = present.producer_epoch
        return genuine(present, msgspec.structs.replace(request, producer_epoch=epoch))

    for name in ("_verdict_1", "_verdict_2"):
        patch.setattr(end_transaction, name, partial(verdict, getattr(end_transaction, name)))


def _writes_half_of_the_markers(patch: Patch) -> None:
    def send(genuine: Any, self: Any, partition: int, leader_epoch: int, ended: Any) -> None:
        half = frozenset(sorted(ended.partitions)[: max(1, len(ended.partitions) // 2)])
        genuine(self, partition, leader_epoch, ended._replace(partitions=half))

    wrapped(patch, TransactionMarkers, "send", send)


def _takes_no_answer_for_done(patch: Patch) -> None:
    def judge(genuine: Any, self: Any, marker: Any, error: ErrorCode) -> None:
        genuine(self, marker, ErrorCode.NONE)

    wrapped(patch, TransactionMarkers, "_judge", judge)


def _commits_what_is_aborted(patch: Patch) -> None:
    def written(genuine: Any, ending: Any, places: Any) -> Any:
        return msgspec.structs.replace(genuine(ending, places), transaction_result=True)

    genuine = transaction_markers._written
    patch.setattr(transaction_markers, "_written", partial(written, genuine))


def _forgets_what_is_decided(patch: Patch) -> None:
    """A new coordinator does not go on with what the one before has decided."""

    def loaded(genuine: Any, self: TransactionShard, now: Any) -> Any:
        result = genuine(self, now)
        for transactional_id, metadata in self._by_id.items():
            if metadata.state.is_prepared:
                done = transaction_metadata.completed(metadata, now.wall_ms)
                self._by_id[transactional_id] = done
        return result

    wrapped(patch, TransactionShard, "loaded", loaded)


def _adds_no_partitions(patch: Patch) -> None:
    """It says so, and forgets some."""

    def add(genuine: Any, metadata: Any, places: Any, *rest: Any) -> Any:
        first = sorted(places)[:1] if metadata.partitions else list(places)
        return genuine(metadata, first, *rest)

    genuine = transaction_metadata.with_partitions
    everywhere(patch, genuine, partial(add, genuine))
    assert partitions


def _asks_nobody_before_it_writes(patch: Patch) -> None:
    patch.setattr(FirstWrites, "must_wait", lambda *_: False)
    patch.setattr(FirstWrites, "_begin", lambda *_: {})


def _takes_offsets_of_aborted_transactions(patch: Patch) -> None:
    def end(genuine: Any, self: GroupShard, producer_id: int, committed: bool, undo: Any) -> None:
        genuine(self, producer_id, True, undo)

    wrapped(patch, GroupShard, "replay_end_transaction_marker", end)


def _drops_offsets_of_transactions(patch: Patch) -> None:
    def end(genuine: Any, self: GroupShard, producer_id: int, committed: bool, undo: Any) -> None:
        genuine(self, producer_id, False, undo)

    wrapped(patch, GroupShard, "replay_end_transaction_marker", end)


# Groups


def _takes_commits_of_old_generations(patch: Patch) -> None:
    everywhere(patch, commit.commit_error, lambda group, request, version: ErrorCode.NONE)
    everywhere(patch, consumer_group_requests.commit_refusal, lambda *_: ErrorCode.NONE)
    patch.setattr(commit, "GroupState", _NO_STATES)


class _NoStates:
    """Sessions are not looked at: the committing member may be none."""

    STABLE = PREPARING_REBALANCE = None


_NO_STATES = _NoStates()


def _hands_on_at_once(patch: Patch) -> None:
    """A partition goes to its next owner before the old one has given it up."""

    def reconcile(genuine: Any, member: Any, around: Any) -> Any:
        return genuine(member, around._replace(owner_of=lambda topic_id, index: None))

    genuine = reconciliation.reconcile
    everywhere(patch, genuine, partial(reconcile, genuine))


def _waits_for_no_revocation(patch: Patch) -> None:
    patch.setattr(reconciliation, "_holds_any", lambda owned, revoked: False)


def _keeps_the_members_epoch(patch: Patch) -> None:
    """With another assignment."""

    def moved(genuine: Any, member: Any, state: Any, epoch: int, *rest: Any) -> Any:
        return genuine(member, state, member.member_epoch or epoch, *rest)

    patch.setattr(reconciliation, "_moved", partial(moved, reconciliation._moved))


def _believes_members_of_any_epoch(patch: Patch) -> None:
    patch.setattr(heartbeat, "_check_epoch", lambda *_: None)


def _fences_nobody(patch: Patch) -> None:
    """Of those who are silent."""
    patch.setattr(ConsumerGroups, "session_is_due", lambda *_: None)


def _keeps_dead_members(patch: Patch) -> None:
    patch.setattr(rebalance, "session_due", lambda *_: None)


def _keeps_the_generation(patch: Patch) -> None:
    from broker.coordinator.classic.classic_group import ClassicGroup

    def following(genuine: Any, self: ClassicGroup, now_ms: int) -> None:
        before = self.generation
        genuine(self, now_ms)
        self.generation = max(1, before)

    wrapped(patch, ClassicGroup, "next_generation", following)


_PROMISES = cluster_run.PROMISES
_WELL = cluster_run.BECOMES_WELL
_FINISH = cluster_run.CLIENTS_FINISH
_REFUSED = "a fenced producer is refused"
_SETTLE = "a group settles when the trouble is over"
_ONE_OWNER = "a partition has one owner in a generation"
_GIVEN_UP = "a partition is given up before it is handed on"
_ONE_MEMBER = "a partition belongs to one member"
_EPOCHS = "epochs of a group are in order"
_STALE = "nobody commits in a generation that has passed"
_BACK = "committed offsets never go back"
_REMEMBERED = "what was committed is found later"
_KNOWN = "the coordinator knows what was committed"

COORDINATOR_MUTANTS = (
    ClusterMutant(
        "coordinates what another broker leads", (_WELL,), _stays_when_another_leads, "transactions", 1
    ),
    ClusterMutant(
        "answers before it is stored",
        (_PROMISES, _KNOWN, _REMEMBERED, _BACK),
        _answers_before_it_is_stored,
        "groups",
        1,
    ),
    ClusterMutant(
        "leaves out the end of what it loads",
        (_PROMISES, _KNOWN, _REMEMBERED, _BACK, _REFUSED),
        _stops_loading_early,
        "groups",
        1,
    ),
    ClusterMutant(
        "ends a transaction before that is stored",
        (_PROMISES, _REFUSED),
        _ends_before_it_is_stored,
        "transactions",
        1,
    ),
    ClusterMutant("forgets the fence", (_REFUSED, _PROMISES), _forgets_the_fence, "transactions", 1),
    ClusterMutant(
        "leaves another's transaction open",
        (_PROMISES, _WELL, _REFUSED),
        _leaves_transactions_open,
        "transactions",
        1,
    ),
    ClusterMutant(
        "ends a transaction for anybody", (_REFUSED, _PROMISES), _ends_for_anybody, "transactions", 1
    ),
    ClusterMutant(
        "writes half of the markers", (_WELL, _PROMISES), _writes_half_of_the_markers, "transactions", 1
    ),
    ClusterMutant(
        "takes a refused marker for written",
        (_WELL, _PROMISES),
        _takes_no_answer_for_done,
        "transactions",
        1,
    ),
    ClusterMutant("commits what is aborted", (_PROMISES,), _commits_what_is_aborted, "transactions", 1),
    ClusterMutant("forgets what is decided", (_WELL, _PROMISES), _forgets_what_is_decided, "transactions", 1),
    ClusterMutant(
        "forgets partitions of a transaction",
        (_WELL, _PROMISES),
        _adds_no_partitions,
        "transactions",
        1,
    ),
    ClusterMutant(
        "asks nobody before it writes", (_WELL, _PROMISES), _asks_nobody_before_it_writes, "transactions", 1
    ),
    ClusterMutant(
        "commits offsets of aborted transactions",
        (_PROMISES,),
        _takes_offsets_of_aborted_transactions,
        "transactions",
        1,
    ),
    ClusterMutant(
        "drops offsets of transactions", (_PROMISES,), _drops_offsets_of_transactions, "transactions", 1
    ),
    ClusterMutant(
        "takes commits of old generations",
        (_STALE, _BACK),
        _takes_commits_of_old_generations,
        "groups",
        1,
    ),
    ClusterMutant(
        "hands partitions on at once", (_GIVEN_UP, _ONE_MEMBER, _ONE_OWNER), _hands_on_at_once, "groups", 1
    ),
    ClusterMutant(
        "waits for no revocation", (_GIVEN_UP, _ONE_MEMBER, _ONE_OWNER), _waits_for_no_revocation, "groups", 1
    ),
    ClusterMutant(
        "keeps a member's epoch", (_ONE_OWNER, _SETTLE, _FINISH), _keeps_the_members_epoch, "groups", 1
    ),
    ClusterMutant(
        "believes members of any epoch",
        (_GIVEN_UP, _ONE_OWNER, _SETTLE),
        _believes_members_of_any_epoch,
        "groups",
        1,
    ),
    ClusterMutant("fences no silent member", (_SETTLE,), _fences_nobody, "groups", 1),
    ClusterMutant("keeps dead members", (_SETTLE,), _keeps_dead_members, "groups", 1),
    ClusterMutant("keeps the generation", (_ONE_OWNER,), _keeps_the_generation, "groups", 1),
)
