"""Rules of leaders and followers, each broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from broker.controller_channel.peer import tcp
from broker.handlers import offset_for_leader_epoch
from broker.replication import coordinator_log, reading
from broker.replication.delayed_produce import DelayedProduce
from broker.replication.fetcher import followed_log
from broker.replication.fetcher.followed_log import FollowedLog
from broker.replication.fetcher.partition_fetch import PartitionFetch
from broker.replication.isr_maintenance import IsrMaintenance
from broker.replication.partition import Partition
from broker.replication.partition_state import CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr
from broker.replication.reading import FetchParams, ReadRefused
from broker.replication.roles import NO_EPOCH, Leader, ReplicaState
from broker.simulation.cluster import cluster_run
from broker.simulation.rules import (
    fault_rules,
    fetch_rules,
    log_rules,
    offset_registers,
    partition_rules,
    refusal_rules,
)
from controller.metadata.topic_names import METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.framing import encode_request_frame
from protocol.messages.fetch import FetchRequest
from storage.append_queue import AppendQueue
from storage.leader_epochs import LeaderEpochs
from storage.partition_log import PartitionLog
from tests.simulation.cluster_mutant import ClusterMutant, Patch, everywhere, wrapped

__all__ = ["REPLICATION_MUTANTS"]

InSync = tuple[ReplicaState, ...]


def _counts(choose: Callable[[InSync], InSync]) -> Callable[[Patch], None]:
    """The high watermark counts other followers than those in sync."""

    def apply(patch: Patch) -> None:
        def advance(genuine: Any, self: Partition) -> None:
            state = self.state
            if not isinstance(state, Leader):
                return
            in_sync, outside = state.in_sync_followers, state.followers_outside
            state.in_sync_followers, state.followers_outside = choose(in_sync), ()
            genuine(self)
            state.in_sync_followers, state.followers_outside = in_sync, outside

        wrapped(patch, Partition, "advance_high_watermark", advance)

    return apply


def _foremost(in_sync: InSync) -> InSync:
    return (max(in_sync, key=lambda each: each.log_end_offset),) if in_sync else ()


def _commits_one_too_few(patch: Patch) -> None:
    def update(genuine: Any, self: PartitionLog, offset: int) -> bool:
        return bool(genuine(self, offset - 1))

    wrapped(patch, PartitionLog, "update_high_watermark", update)


def _lets_it_fall(patch: Patch) -> None:
    """Whoever follows it is waited for, also one that has lost its log and begins anew."""

    def fetched(genuine: Any, self: Partition, *arguments: Any, **named: Any) -> int:
        error = int(genuine(self, *arguments, **named))
        if not error and isinstance(self.state, Leader):
            ends = [each.log_end_offset for each in self.state.replicas.values() if each.log_end_offset >= 0]
            self.log.high_watermark = min(self.log.high_watermark, *ends)
        return error

    wrapped(patch, Partition, "follower_fetched", fetched)


def _ignores_who_joins(patch: Patch) -> None:
    patch.setattr(PendingExpandIsr, "maximal_isr", property(lambda self: self.isr))
    patch.setattr(IsrMaintenance, "is_joining", lambda *_: False)


def _drops_who_leaves(patch: Patch) -> None:
    def maximal(self: PendingShrinkIsr) -> tuple[int, ...]:
        return tuple(each for each in self.isr if each not in self.out_of_sync_replica_ids)

    patch.setattr(PendingShrinkIsr, "maximal_isr", property(maximal))


def _forgets_for_a_late_image(patch: Patch) -> None:
    """As Apache Kafka's `Partition.makeLeader`."""

    def follow(genuine: Any, self: Leader, replicas: Any, isr: tuple[int, ...], *, is_newer: bool) -> None:
        genuine(self, replicas, isr, is_newer=True)

    wrapped(patch, Leader, "follow_image", follow)


def _remembers_beyond_an_epoch(patch: Patch) -> None:
    """What a leader was told before an epoch that it has missed stays true. As Apache Kafka's
    `Partition.makeLeader`."""

    def change(genuine: Any, self: Partition, *arguments: Any, is_next_epoch: bool) -> None:
        genuine(self, *arguments, is_next_epoch=True)

    wrapped(patch, Partition, "_change_leader", change)


def _takes_anybody_in(patch: Patch) -> None:
    def ask(self: Partition, state: Leader, replica_id: int, replica: ReplicaState) -> None:
        is_settled = isinstance(state.partition_state, CommittedPartitionState)
        if is_settled and replica_id not in self.isr and self.isr_keeper.may_join(replica_id, replica):
            self.isr_keeper.caught_up(self, replica_id)

    patch.setattr(Partition, "_ask_to_take_in", ask)


def _forgets_its_beginning(patch: Patch) -> None:
    """What the leader had when its epoch began may be committed; it takes in whoever has its high
    watermark."""

    def ask(genuine: Any, self: Partition, state: Leader, replica_id: int, replica: ReplicaState) -> None:
        begin, state.epoch_start_offset = state.epoch_start_offset, 0
        genuine(self, state, replica_id, replica)
        state.epoch_start_offset = begin

    wrapped(patch, Partition, "_ask_to_take_in", ask)


def _notes_before_it_looks(patch: Patch) -> None:
    def fetch(genuine: Any, params: Any, partition: Partition, wanted: Any, *rest: Any) -> Any:
        if params.follower is not None:
            reading._note_follower(params.replica_id, params.follower, partition, wanted)
        return genuine(params, partition, wanted, *rest)

    genuine = reading.fetch_records
    everywhere(patch, genuine, lambda *arguments: fetch(genuine, *arguments))


def _sees_no_divergence(patch: Patch) -> None:
    """The end of every epoch is the log's end."""
    patch.setattr(LeaderEpochs, "end_offset_for", lambda self, epoch, end: (epoch, end))


def _does_not_say_its_last_epoch(patch: Patch) -> None:
    def asked(genuine: Any, self: PartitionFetch, max_bytes: int) -> FetchRequest.FetchPartition:
        wanted: FetchRequest.FetchPartition = genuine(self, max_bytes)
        return msgspec.structs.replace(wanted, last_fetched_epoch=NO_EPOCH)

    wrapped(patch, PartitionFetch, "asked", asked)


def truncates_to_its_high_watermark(patch: Patch) -> None:
    """As before KIP-101: whenever a follower has another leader."""

    def begin(genuine: Any, partition: Partition) -> PartitionFetch:
        log = partition.log
        if log.high_watermark < log.log_end_offset:
            log.truncate_to(log.high_watermark, now_ms=0)
        return genuine(partition)  # type: ignore[no-any-return]

    genuine = followed_log.begin_fetch
    everywhere(patch, genuine, lambda partition: begin(genuine, partition))


def _truncates_all(patch: Patch) -> None:
    everywhere(patch, followed_log.truncation_offset, lambda *_, **__: 0)


def _appends_across_a_gap(patch: Patch) -> None:
    """It leaves out the first of several batches."""

    def prepare(genuine: Any, self: AppendQueue, batches: Any, leader_epoch: int) -> Any:
        first_bytes = 12 + int.from_bytes(bytes(batches[8:12]), "big")
        is_whole = self._log.topic == METADATA_TOPIC or self.end_offset == 0
        return genuine(self, batches if is_whole else batches[first_bytes:] or batches, leader_epoch)

    wrapped(patch, AppendQueue, "prepare_copies", prepare)


def _believes_more_than_it_has(patch: Patch) -> None:
    def update(self: PartitionLog, offset: int) -> bool:
        has_moved = offset > self.high_watermark
        self.high_watermark = max(offset, self.high_watermark)
        return has_moved

    patch.setattr(PartitionLog, "update_high_watermark", update)


def _takes_all_for_committed(patch: Patch) -> None:
    def follow(genuine: Any, self: FollowedLog, high_watermark: int, start: int) -> None:
        genuine(self, self.log_end_offset, start)

    wrapped(patch, FollowedLog, "follow_leader", follow)


def _writes_in_the_epoch_before(patch: Patch) -> None:
    def append(genuine: Any, self: PartitionLog, *arguments: Any, leader_epoch: int, **named: Any) -> Any:
        return genuine(self, *arguments, leader_epoch=max(0, leader_epoch - 1), **named)

    wrapped(patch, PartitionLog, "append_as_leader", append)


def _writes_in_the_first_epoch(patch: Patch) -> None:
    """And lets its list of epochs alone."""

    def append(genuine: Any, self: PartitionLog, *arguments: Any, leader_epoch: int, **named: Any) -> Any:
        latest, self.leader_epochs.latest_epoch = self.leader_epochs.latest_epoch, 0
        try:
            return genuine(self, *arguments, leader_epoch=0, **named)
        finally:
            self.leader_epochs.latest_epoch = latest

    wrapped(patch, PartitionLog, "append_as_leader", append)


def _acknowledges_at_once(patch: Patch) -> None:
    """The leader has it."""

    def wait(genuine: Any, self: Any, partition: Partition, *rest: Any) -> None:
        genuine(self, partition, *rest)
        self._timers.call_soon(partial(self.replicated, partition, ErrorCode.NONE))

    wrapped(patch, DelayedProduce, "wait", wait)


def _needs_no_min_isr(patch: Patch) -> None:
    patch.setattr(Partition, "effective_min_isr", property(lambda self: 1))


def _knows_no_epoch_of_consumers(patch: Patch) -> None:
    """Who reads what is committed is told that the leader epoch is still to come."""
    genuine = reading.fetch_records

    def fetch_records(params: FetchParams, *rest: Any) -> Any:
        is_refused = params.replica_id < 0 and params.read_committed
        return ReadRefused(ErrorCode.UNKNOWN_LEADER_EPOCH) if is_refused else genuine(params, *rest)

    everywhere(patch, genuine, fetch_records)


def _acknowledges_what_it_lost(patch: Patch) -> None:
    def fail(genuine: Any, self: Partition, error: ErrorCode) -> None:
        genuine(self, ErrorCode.NONE)

    wrapped(patch, Partition, "fail_commit_waiters", fail)


def _coordinators_do_not_wait(patch: Patch) -> None:
    def answer(partition: Partition, on_result: Any, outcome: Any) -> None:
        on_result(outcome)

    patch.setattr(coordinator_log, "_answer_when_replicated", answer)


def _sends_a_byte_too_many(patch: Patch) -> None:
    """Behind a request to another node."""
    patch.setattr(tcp, "encode_request_frame", lambda *request: encode_request_frame(*request) + bytes(1))


# What readers are given by followers


def _shows_all_of_a_follower(patch: Patch) -> None:
    genuine = reading.fetch_records

    def fetch_records(params: Any, partition: Partition, wanted: Any, max_bytes: int, is_first: bool) -> Any:
        records = genuine(params, partition, wanted, max_bytes, is_first)
        log, offset = partition.log, wanted.fetch_offset
        if params.replica_id >= 0 or partition.is_leader or offset >= log.log_end_offset:
            return records
        return log.read(
            offset, max_bytes=max_bytes, up_to_offset=log.log_end_offset, at_least_one_batch=is_first
        )

    everywhere(patch, genuine, fetch_records)


def _refuses_committed_positions(patch: Patch) -> None:
    """Every fifth, of consumers. They begin with the first record again, and lose nothing."""
    genuine = reading.fetch_records

    def fetch_records(params: Any, partition: Partition, wanted: Any, max_bytes: int, is_first: bool) -> Any:
        if params.replica_id < 0 and wanted.fetch_offset % 5 == 4:
            return reading.ReadRefused(int(ErrorCode.OFFSET_OUT_OF_RANGE))
        return genuine(params, partition, wanted, max_bytes, is_first)

    everywhere(patch, genuine, fetch_records)


def _knows_no_epoch(patch: Patch) -> None:
    """When a consumer asks where it ends, it is told what is told of epochs that are newer than all."""

    def answer(genuine: Any, *arguments: Any) -> offset_for_leader_epoch.Answer:
        told: offset_for_leader_epoch.Answer = genuine(*arguments)
        return offset_for_leader_epoch.Answer(told.error_code, told.partition)

    wrapped(patch, offset_for_leader_epoch, "_answer", answer)


REPLICATION_MUTANTS = (
    ClusterMutant(
        "refuses positions below what is committed",
        refusal_rules.KNOWS,
        _refuses_committed_positions,
        "failures",
        1,
    ),
    ClusterMutant(
        "refuses positions of members of groups",
        refusal_rules.KNOWS,
        _refuses_committed_positions,
        "groups",
        10,
    ),
    ClusterMutant(
        "refuses positions of producers that take records in",
        refusal_rules.KNOWS,
        _refuses_committed_positions,
        "classic transformers",
        5,
    ),
    ClusterMutant(
        "knows no epoch of consumers",
        refusal_rules.KNOWS,
        _knows_no_epoch,
        "failures",
        1,
    ),
    ClusterMutant(
        "a follower shows readers all that it has",
        fetch_rules.GIVEN,
        _shows_all_of_a_follower,
        "nearby",
        1,
    ),
    ClusterMutant(
        "commits what only the leader has",
        partition_rules.NOT_HELD,
        _counts(lambda in_sync: ()),
        "leader fails",
        1,
    ),
    ClusterMutant(
        "commits what the foremost follower has",
        partition_rules.NOT_HELD,
        _counts(_foremost),
        "leader fails",
        1,
    ),
    ClusterMutant(
        "commits one record too few",
        log_rules.WRONG_END,
        _commits_one_too_few,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "lets the high watermark fall",
        partition_rules.HIGH_WATERMARK_FALLS,
        _lets_it_fall,
        "leader fails alone",
        1,
    ),
    ClusterMutant(
        "does not count who is about to join",
        partition_rules.NOT_HELD,
        _ignores_who_joins,
        "newcomer is late",
        1,
    ),
    ClusterMutant(
        "does not count who is about to leave",
        partition_rules.NOT_HELD,
        _drops_who_leaves,
        "leader is deposed",
        1,
    ),
    ClusterMutant(
        "forgets who is about to join for a late image",
        partition_rules.NOT_HELD,
        _forgets_for_a_late_image,
        "image is late",
        3,
    ),
    ClusterMutant(
        "remembers the followers beyond an epoch that it has missed",
        partition_rules.NOT_HELD,
        _remembers_beyond_an_epoch,
        "leader misses an epoch",
        1,
    ),
    ClusterMutant(
        "takes in who has not caught up",
        partition_rules.NOT_HELD,
        _takes_anybody_in,
        "leader fails alone",
        1,
    ),
    ClusterMutant(
        "takes in who lacks what an epoch began with",
        partition_rules.JOINS_BEHIND,
        _forgets_its_beginning,
        "follower returns to another leader",
        1,
    ),
    ClusterMutant(
        "notes a fetch before it looks where the logs part",
        log_rules.CHANGED,
        _notes_before_it_looks,
        "former leader returns",
        1,
    ),
    ClusterMutant(
        "sees no divergence",
        log_rules.CHANGED,
        _sees_no_divergence,
        "leader fails alone",
        1,
    ),
    ClusterMutant(
        "does not say the epoch of its last record",
        log_rules.CHANGED,
        _does_not_say_its_last_epoch,
        "leader fails alone",
        1,
    ),
    ClusterMutant(
        "truncates to its high watermark",
        log_rules.CUT_OFF,
        truncates_to_its_high_watermark,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "truncates all",
        log_rules.CUT_OFF,
        _truncates_all,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "appends across a gap",
        log_rules.GAP,
        _appends_across_a_gap,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "believes more to be committed than it has",
        partition_rules.HIGH_WATERMARK_OUTSIDE,
        _believes_more_than_it_has,
        "follower catches up in steps",
        1,
    ),
    ClusterMutant(
        "takes all that it has for committed",
        log_rules.AHEAD,
        _takes_all_for_committed,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "writes in the epoch before",
        log_rules.EPOCHS_DISAGREE,
        _writes_in_the_epoch_before,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "writes in the first epoch",
        log_rules.EPOCH_FALLS,
        _writes_in_the_first_epoch,
        "leader fails alone",
        1,
    ),
    ClusterMutant(
        "acknowledges at once",
        cluster_run.PROMISES,
        _acknowledges_at_once,
        "leader is deposed",
        1,
    ),
    ClusterMutant(
        "needs no min.insync.replicas",
        log_rules.LOST,
        _needs_no_min_isr,
        "all followers are behind",
        1,
    ),
    ClusterMutant(
        "knows no leader epoch of consumers",
        cluster_run.CLIENTS_FINISH,
        _knows_no_epoch_of_consumers,
        "leader fails",
        1,
    ),
    ClusterMutant(
        "acknowledges what it has lost",
        cluster_run.PROMISES,
        _acknowledges_what_it_lost,
        "leader is deposed",
        1,
    ),
    ClusterMutant(
        "coordinators do not wait for replicas",
        offset_registers.STALE,
        _coordinators_do_not_wait,
        "coordinator of a classic group fails",
        1,
    ),
    ClusterMutant(
        "sends a byte too many",
        fault_rules.MALFORMED,
        _sends_a_byte_too_many,
        "failures",
        1,
    ),
)
