"""Rules of the coordinators of transactions and groups, each broken on purpose."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from broker.coordinator.classic import rebalance
from broker.coordinator.consumer import consumer_group_requests, reconciliation
from broker.coordinator.consumer.consumer_group_requests import ConsumerGroupRequests
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets import commit, deletion, fetch, offset_records, transactional_commit
from broker.coordinator.runtime.coordinator_context import CoordinatorContext
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.partition_load import PartitionLoad
from broker.coordinator.transaction import (
    end_transaction,
    init_producer_id,
    transaction_markers,
    transaction_metadata,
)
from broker.coordinator.transaction.first_writes import FirstWrites
from broker.coordinator.transaction.transaction_markers import TransactionMarkers
from broker.coordinator.transaction.transaction_metadata import NO_EPOCH, TransactionMetadata
from broker.coordinator.transaction.transaction_shard import TransactionShard
from broker.coordinator.transaction.transaction_states import TransactionState
from broker.simulation.clients.transactional_producers import REFUSED
from broker.simulation.cluster import cluster_run, operator_looks
from broker.simulation.rules import fault_rules, group_claims, group_rules, offset_registers
from broker.simulation.rules.group_claims import GroupClaims
from broker.simulation.verdict import Violation
from protocol.errors import ErrorCode
from storage.transactions import Verifications
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


def _never_records_an_end(patch: Patch) -> None:
    """All markers are written, and the transaction stays decided for ever."""
    everywhere(patch, end_transaction.markers_written, lambda *_: None)


def _gives_one_epoch_alone(patch: Patch) -> None:
    """Whoever has a transactional id that is known is told to ask again."""

    def init(genuine: Any, transactions: Any, transactional_id: str, *rest: Any) -> Any:
        if transactional_id in transactions.by_id:
            return init_producer_id.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        return genuine(transactions, transactional_id, *rest)

    genuine = init_producer_id.init_producer_id
    everywhere(patch, genuine, partial(init, genuine))


def _adds_no_partitions(patch: Patch) -> None:
    """But the first; it says that it does."""

    def add(genuine: Any, metadata: Any, places: Any, *rest: Any) -> Any:
        return genuine(metadata, metadata.partitions or sorted(places)[:1], *rest)

    genuine = transaction_metadata.with_partitions
    everywhere(patch, genuine, partial(add, genuine))


def _asks_nobody_before_it_writes(patch: Patch) -> None:
    patch.setattr(FirstWrites, "must_wait", lambda *_: False)
    patch.setattr(FirstWrites, "_begin", lambda *_: {})
    patch.setattr(Verifications, "check", lambda *_: None)


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


def _shows_unstable_offsets(patch: Patch) -> None:
    """Whoever gets a partition next begins before what an open transaction has taken in."""
    genuine = fetch._fetch_one
    patch.setattr(
        fetch, "_fetch_one", lambda offsets, place, topic_id, _: genuine(offsets, place, topic_id, False)
    )


def _takes_transactions_of_former_members(patch: Patch) -> None:
    for name in ("_classic_error", "_consumer_error"):
        patch.setattr(transactional_commit, name, lambda *_: ErrorCode.NONE)


def _takes_commits_of_old_generations_unseen(patch: Patch) -> None:
    """Nobody looks at generations, but at what is committed."""
    _takes_commits_of_old_generations(patch)
    patch.setattr(GroupClaims, "why_stale", lambda *_: None)


def _tells_an_older_offset(patch: Patch) -> None:
    """Than what is committed."""

    def fetch_one(genuine: Any, *arguments: Any) -> Any:
        found = genuine(*arguments)
        return msgspec.structs.replace(found, offset=found.offset - 1) if found.offset > 0 else found

    patch.setattr(fetch, "_fetch_one", partial(fetch_one, fetch._fetch_one))


def _deletes_other_offsets(patch: Patch) -> None:
    """Than those that it was asked to delete: those of the next partition."""
    genuine = offset_records.offset_tombstone
    patch.setattr(
        deletion, "offset_tombstone", lambda group_id, topic, index: genuine(group_id, topic, index + 1)
    )


def _advances_members_beyond_the_group(patch: Patch) -> None:
    def moved(genuine: Any, member: Any, state: Any, epoch: int, *rest: Any) -> Any:
        return genuine(member, state, epoch + 2, *rest)

    patch.setattr(reconciliation, "_moved", partial(moved, reconciliation._moved))


def _hands_on_unseen(patch: Patch) -> None:
    """Nobody looks at what members are told, but at what the coordinator knows and they do not."""

    def takes(genuine: Any, self: GroupClaims, event: Any) -> None:
        with suppress(Violation):
            genuine(self, event)

    wrapped(patch, GroupClaims, "takes", takes)
    patch.setattr(group_rules, "check_members", lambda group: None)
    _hands_on_at_once(patch)


def _takes_silence_for_giving_up(patch: Patch) -> None:
    def holds_any(genuine: Any, owned: Any, revoked: Any) -> bool:
        return owned is not None and bool(genuine(owned, revoked))

    patch.setattr(reconciliation, "_holds_any", partial(holds_any, reconciliation._holds_any))


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


def _fences_nobody(patch: Patch) -> None:
    """Of those who are silent."""
    patch.setattr(ConsumerGroupRequests, "session_is_due", lambda *_: None)


def _stumbles_over_silent_members(patch: Patch) -> None:
    """Of classic groups; the next look at them goes well."""
    silent: set[str] = set()

    def due(genuine: Any, group: Any, member_id: str, operation: Any) -> None:
        if member_id not in silent:
            silent.add(member_id)
            raise KeyError(member_id)
        genuine(group, member_id, operation)

    wrapped(patch, rebalance, "session_due", due)


def _keeps_dead_members(patch: Patch) -> None:
    patch.setattr(rebalance, "session_due", lambda *_: None)


def _keeps_the_generation(patch: Patch) -> None:
    from broker.coordinator.classic.classic_group import ClassicGroup

    def following(genuine: Any, self: ClassicGroup, now_ms: int) -> None:
        before = self.generation
        genuine(self, now_ms)
        self.generation = max(1, before)

    wrapped(patch, ClassicGroup, "next_generation", following)


COORDINATOR_MUTANTS = (
    ClusterMutant(
        "coordinates what another broker leads",
        cluster_run.BECOMES_WELL,
        _stays_when_another_leads,
        "transactions",
        6,
    ),
    ClusterMutant(
        "answers before it is stored",
        group_rules.KNOWN,
        _answers_before_it_is_stored,
        "coordinator of a classic group fails",
        1,
    ),
    ClusterMutant(
        "leaves out the end of what it loads",
        group_rules.KNOWN,
        _stops_loading_early,
        "coordinator of a classic group fails",
        1,
    ),
    ClusterMutant(
        "ends a transaction before that is stored",
        cluster_run.PROMISES,
        _ends_before_it_is_stored,
        "transactions",
        2,
    ),
    ClusterMutant(
        "forgets the fence",
        REFUSED,
        _forgets_the_fence,
        "zombie wakes",
        1,
    ),
    ClusterMutant(
        "leaves another's transaction open",
        cluster_run.BECOMES_WELL,
        _leaves_transactions_open,
        "transactions",
        11,
    ),
    ClusterMutant(
        "ends a transaction for anybody",
        REFUSED,
        _ends_for_anybody,
        "zombie goes on",
        1,
    ),
    ClusterMutant(
        "writes half of the markers",
        cluster_run.BECOMES_WELL,
        _writes_half_of_the_markers,
        "transactions",
        2,
    ),
    ClusterMutant(
        "takes a refused marker for written",
        cluster_run.PROMISES,
        _takes_no_answer_for_done,
        "transactions",
        1,
    ),
    ClusterMutant(
        "commits what is aborted",
        cluster_run.PROMISES,
        _commits_what_is_aborted,
        "write arrives late",
        1,
    ),
    ClusterMutant(
        "forgets what is decided",
        cluster_run.PROMISES,
        _forgets_what_is_decided,
        "old marker arrives",
        1,
    ),
    ClusterMutant(
        "never records the end of a transaction",
        cluster_run.BECOMES_WELL,
        _never_records_an_end,
        "transaction ends",
        1,
    ),
    ClusterMutant(
        "gives an epoch to the first one alone",
        cluster_run.CLIENTS_FINISH,
        _gives_one_epoch_alone,
        "transaction ends",
        1,
    ),
    ClusterMutant(
        "forgets partitions of a transaction",
        cluster_run.BECOMES_WELL,
        _adds_no_partitions,
        "transactions",
        1,
    ),
    ClusterMutant(
        "asks nobody before it writes",
        cluster_run.BECOMES_WELL,
        _asks_nobody_before_it_writes,
        "write arrives late",
        1,
    ),
    ClusterMutant(
        "commits offsets of aborted transactions",
        cluster_run.PROMISES,
        _takes_offsets_of_aborted_transactions,
        "transactions",
        3,
    ),
    ClusterMutant(
        "drops offsets of transactions",
        cluster_run.PROMISES,
        _drops_offsets_of_transactions,
        "transactions",
        2,
    ),
    ClusterMutant(
        "takes commits of old generations",
        offset_registers.STALE,
        _takes_commits_of_old_generations,
        "groups",
        10,
    ),
    ClusterMutant(
        "shows unstable offsets",
        cluster_run.PROMISES,
        _shows_unstable_offsets,
        "classic transformers",
        5,
    ),
    ClusterMutant(
        "takes transactions of former members",
        cluster_run.PROMISES,
        _takes_transactions_of_former_members,
        "classic transformers",
        5,
    ),
    ClusterMutant(
        "hands partitions on at once",
        group_rules.ONE_MEMBER,
        _hands_on_at_once,
        "member of a consumer group dies",
        1,
    ),
    ClusterMutant(
        "waits for no revocation",
        group_claims.ONE_OWNER,
        _waits_for_no_revocation,
        "member of a consumer group dies",
        1,
    ),
    ClusterMutant(
        "keeps a member's epoch",
        group_claims.ONE_OWNER,
        _keeps_the_members_epoch,
        "member of a consumer group dies",
        1,
    ),
    ClusterMutant(
        "fences no silent member",
        group_rules.GROUPS_SETTLE,
        _fences_nobody,
        "member of a consumer group dies",
        1,
    ),
    ClusterMutant(
        "stumbles over silent members",
        fault_rules.CONTAINED,
        _stumbles_over_silent_members,
        "groups",
        1,
    ),
    ClusterMutant(
        "keeps dead members",
        group_rules.GROUPS_SETTLE,
        _keeps_dead_members,
        "member of a classic group dies",
        1,
    ),
    ClusterMutant(
        "keeps the generation",
        group_claims.ONE_OWNER,
        _keeps_the_generation,
        "member of a classic group dies",
        1,
    ),
    ClusterMutant(
        "lets commits of old generations pass",
        offset_registers.GOES_BACK,
        _takes_commits_of_old_generations_unseen,
        "member stands still",
        1,
    ),
    ClusterMutant(
        "tells an older offset",
        offset_registers.REMEMBERED,
        _tells_an_older_offset,
        "member of a classic group dies",
        1,
    ),
    ClusterMutant(
        "deletes other offsets",
        operator_looks.BY_HAND,
        _deletes_other_offsets,
        "operator uses a group",
        1,
    ),
    ClusterMutant(
        "advances members beyond the group",
        group_rules.EPOCHS,
        _advances_members_beyond_the_group,
        "member of a consumer group dies",
        1,
    ),
    ClusterMutant(
        "takes silence for giving up",
        group_claims.ONE_OWNER,
        _takes_silence_for_giving_up,
        "member of a consumer group dies",
        1,
    ),
    ClusterMutant(
        "hands on what is in use",
        group_rules.GIVEN_UP,
        _hands_on_unseen,
        "member of a consumer group dies",
        1,
    ),
)
