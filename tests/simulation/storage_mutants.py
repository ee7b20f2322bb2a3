"""Rules of logs, of their recovery and of their producers, each broken on purpose."""

from __future__ import annotations

import errno
from itertools import count
from typing import Any

from broker.replication.partition import Partition
from broker.simulation.cluster import cluster_run
from broker.simulation.rules import (
    deletion_rules,
    fault_rules,
    fetch_rules,
    log_rules,
    refusal_rules,
    transaction_rules,
)
from broker.simulation.verdict import THE_NODE_FAILS
from protocol.errors import ErrorCode
from storage import append, failures, lookup, producer_state, recovery, retention, truncation
from storage.errors import AppendRefused
from storage.leader_epochs import LeaderEpochs
from storage.log_durability import LogDurability
from storage.partition_log import PartitionLog
from storage.producer_state import ProducerEntry, ProducerState
from storage.segment import Segment
from storage.transaction_index import TransactionIndex
from storage.transactions import Verifications
from tests.simulation.cluster_fates import SECOND_DIRECTORY
from tests.simulation.cluster_mutant import ClusterMutant, Patch, everywhere, wrapped

__all__ = ["STORAGE_MUTANTS"]

WRONG_NOW_AND_THEN = 20
"""Of so many calls one goes wrong."""


# Recovery


def _keeps_torn_batches(patch: Patch) -> None:
    """What reads them then fails."""
    patch.setattr(recovery, "is_intact", lambda batch, position, header: True)


def _finds_no_producers(patch: Patch) -> None:
    """At a start."""
    patch.setattr(recovery, "load_producers", lambda *_: ProducerState())
    patch.setattr(recovery._Scan, "_note_producer", lambda *_: None)


def _keeps_producers_that_were_cut(patch: Patch) -> None:
    patch.setattr(ProducerState, "replace_by", lambda self, other: None)


def _forgets_producers_that_were_cut(patch: Patch) -> None:
    patch.setattr(truncation, "load_producers", lambda *_: ProducerState())


# What is on the disk


def _answers_before_it_has_synced(patch: Patch) -> None:
    """Though `flush.messages` says so."""
    patch.setattr(LogDurability, "is_flush_due", lambda *_: False)


def _knows_no_epochs_without_their_checkpoint(patch: Patch) -> None:
    patch.setattr(recovery, "_epochs_of_batches", lambda _: LeaderEpochs())


def _believes_a_torn_transaction_index(patch: Patch) -> None:
    patch.setattr(TransactionIndex, "is_sane", lambda *_: True)


# Producers


def _takes_any_sequence(patch: Patch) -> None:
    def check(entry: Any, producer_id: int, epoch: int, first: int, last: int) -> Any:
        return None if entry is None else entry.duplicate_of(epoch, first, last)

    everywhere(patch, producer_state.check_sequence, check)


def _refuses_the_next_sequence(patch: Patch) -> None:
    """Now and then. Producers begin anew in another epoch, and lose nothing."""
    genuine, calls = producer_state.check_sequence, count(1)

    def check(entry: Any, producer_id: int, epoch: int, first: int, last: int) -> Any:
        duplicate = genuine(entry, producer_id, epoch, first, last)
        if duplicate is None and entry is not None and next(calls) % WRONG_NOW_AND_THEN == 0:
            raise AppendRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the mutant wants it")
        return duplicate

    everywhere(patch, genuine, check)
    patch.setattr(ProducerEntry, "followed_by", lambda *_: None)
    patch.setattr(ProducerEntry, "sequence_after", lambda *_: -1)


def _appends_duplicates(patch: Patch) -> None:
    patch.setattr(ProducerEntry, "duplicate_of", lambda *_: None)
    _takes_any_sequence(patch)


def _answers_duplicates_with_the_last_place(patch: Patch) -> None:
    def duplicate_of(genuine: Any, self: ProducerEntry, *arguments: Any) -> Any:
        return None if genuine(self, *arguments) is None else self.batches[-1]

    wrapped(patch, ProducerEntry, "duplicate_of", duplicate_of)


def _takes_old_epochs(patch: Patch) -> None:
    """And does not ask whether their transaction goes on."""
    patch.setattr(Verifications, "check", lambda *_: None)
    everywhere(patch, producer_state.check_epoch, lambda entry, producer_id, epoch: None)


def _ends_by_any_marker(patch: Patch) -> None:
    """Of whatever epoch and coordinator."""
    everywhere(patch, producer_state.check_marker, lambda *_: None)


# Directories


def _takes_a_directory_for_gone(patch: Patch) -> None:
    """One that is there, beside another one."""

    def require(files: Any, path: str) -> None:
        if path == SECOND_DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "The log directory is not there any more", path)

    everywhere(patch, failures.require_directory, require)


# What readers may see


def _shows_open_transactions(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _shows_what_is_open_alone(patch: Patch) -> None:
    """A transaction beside which no other one is open. Nobody compares with the batches of the log."""

    def last_stable_offset(self: PartitionLog) -> int:
        is_alone = len(self.producer_state.transactions) < 2
        return self.high_watermark if is_alone else int(genuine.fget(self))  # type: ignore[misc]

    genuine: property = PartitionLog.last_stable_offset  # type: ignore[assignment]
    patch.setattr(PartitionLog, "last_stable_offset", property(last_stable_offset))
    patch.setattr(transaction_rules._Model, "first_undecided", lambda *_: (0, 1 << 62))
    patch.setattr(fetch_rules.FetchRules, "_judge_aborted", lambda *_: None)


def _lists_no_aborted_transactions(patch: Patch) -> None:
    everywhere(patch, lookup.aborted_transactions, lambda *_: [])


def _lists_aborted_transactions_from_the_fetch_offset_on(patch: Patch) -> None:
    genuine = lookup.aborted_transactions

    def aborted(log: PartitionLog, from_offset: int, found: Any) -> list[tuple[int, int]]:
        return [each for each in genuine(log, from_offset, found) if each[1] >= from_offset]

    everywhere(patch, genuine, aborted)


def _lists_aborted_transactions_that_are_over(patch: Patch) -> None:
    """No reader sees another record for it: they begin again with the next batch of their producer."""
    genuine = lookup.aborted_transactions

    def aborted(log: PartitionLog, from_offset: int, found: Any) -> list[tuple[int, int]]:
        return genuine(log, 0, found)

    everywhere(patch, genuine, aborted)


def _notes_no_aborted_transactions(patch: Patch) -> None:
    """When a log is recovered; what it has noted before stays."""
    patch.setattr(recovery._Scan, "_note_producer", _note_producer_only)


def _note_producer_only(self: Any, segment: Segment, header: Any, batch: Any) -> None:
    if self.producers is not None:
        self.producers.update(header, append.stored_marker_of(batch, header))


# Deletion


def _deletes_all_segments_but_the_active_one(patch: Patch) -> None:
    """As soon as they are committed, whatever the retention of their topic."""

    def deletable(log: PartitionLog, now_ms: int, at_most: int) -> list[str]:
        segments = log.segments
        return [
            "the mutant wants it"
            for number, segment in enumerate(segments[:at_most])
            if segment is not log.active and segments[number + 1].base_offset <= log.high_watermark
        ]

    patch.setattr(retention, "_deletable", deletable)


def _deletes_one_record_too_many(patch: Patch) -> None:
    """As long as it is committed."""

    def raise_log_start(genuine: Any, self: Partition, offset: int) -> None:
        genuine(self, min(offset + 1, self.log.high_watermark))

    wrapped(patch, Partition, "raise_log_start", raise_log_start)


STORAGE_MUTANTS = (
    ClusterMutant(
        "deletes one record too many",
        deletion_rules.UNASKED,
        _deletes_one_record_too_many,
        "deletions",
        1,
    ),
    ClusterMutant(
        "deletes all segments but the active one",
        deletion_rules.UNASKED,
        _deletes_all_segments_but_the_active_one,
        "small segments",
        1,
    ),
    ClusterMutant(
        "refuses the next sequence",
        refusal_rules.IN_ORDER,
        _refuses_the_next_sequence,
        "failures",
        1,
    ),
    ClusterMutant(
        "keeps torn batches",
        THE_NODE_FAILS,
        _keeps_torn_batches,
        "power fails within a write",
        1,
        says="CorruptRecord",
    ),
    ClusterMutant(
        "finds no producers at a start",
        transaction_rules.ABORTED_DIFFER,
        _finds_no_producers,
        "transactions",
        1,
    ),
    ClusterMutant(
        "keeps producers of what it has cut",
        transaction_rules.WRONG_LAST_STABLE,
        _keeps_producers_that_were_cut,
        "transactions",
        2,
    ),
    ClusterMutant(
        "forgets producers when it cuts",
        transaction_rules.WRONG_LAST_STABLE,
        _forgets_producers_that_were_cut,
        "transactions",
        1,
    ),
    ClusterMutant(
        "takes a directory for gone",
        fault_rules.DIRECTORY_FAILED,
        _takes_a_directory_for_gone,
        "brokers have two directories",
        1,
    ),
    ClusterMutant(
        "answers before it has synced",
        log_rules.LOST,
        _answers_before_it_has_synced,
        "power",
        1,
    ),
    ClusterMutant(
        "knows no leader epochs without their checkpoint",
        log_rules.EPOCHS_DISAGREE,
        _knows_no_epochs_without_their_checkpoint,
        "damage",
        1,
    ),
    ClusterMutant(
        "believes a torn index of aborted transactions",
        transaction_rules.ABORTED_DIFFER,
        _believes_a_torn_transaction_index,
        "damage",
        5,
    ),
    ClusterMutant(
        "appends duplicates",
        transaction_rules.SEQUENCES,
        _appends_duplicates,
        "failures",
        1,
    ),
    ClusterMutant(
        "answers duplicates with another place",
        cluster_run.PROMISES,
        _answers_duplicates_with_the_last_place,
        "failures",
        1,
    ),
    ClusterMutant(
        "takes batches of old producer epochs",
        transaction_rules.NOT_FENCED,
        _takes_old_epochs,
        "zombie of the first protocol goes on",
        1,
    ),
    ClusterMutant(
        "takes any marker",
        transaction_rules.COORDINATOR_BACK,
        _ends_by_any_marker,
        "old marker arrives",
        1,
    ),
    ClusterMutant(
        "shows open transactions",
        transaction_rules.WRONG_LAST_STABLE,
        _shows_open_transactions,
        "transactions",
        1,
    ),
    ClusterMutant(
        "lists no aborted transactions",
        fetch_rules.NAMED,
        _lists_no_aborted_transactions,
        "transactions",
        1,
    ),
    ClusterMutant(
        "lists no aborted transactions that begin before the fetch offset",
        fetch_rules.NAMED,
        _lists_aborted_transactions_from_the_fetch_offset_on,
        "transactions",
        1,
    ),
    ClusterMutant(
        "lists aborted transactions that are over",
        fetch_rules.NAMED,
        _lists_aborted_transactions_that_are_over,
        "transactions",
        1,
    ),
    ClusterMutant(
        "forgets aborted transactions in a recovery",
        transaction_rules.ABORTED_DIFFER,
        _notes_no_aborted_transactions,
        "transactions",
        1,
    ),
    ClusterMutant(
        "shows a transaction that is open alone",
        transaction_rules.LAST_STABLE_FALLS,
        _shows_what_is_open_alone,
        "transactions",
        1,
    ),
)
