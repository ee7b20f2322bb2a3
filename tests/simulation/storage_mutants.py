"""Rules of logs, of their recovery and of their producers, each broken on purpose."""

from __future__ import annotations

from typing import Any

import msgspec

from broker.simulation.cluster import cluster_run
from broker.simulation.rules import log_rules, partition_rules
from storage import append, lookup, producer_state, recovery, truncation
from storage.log_durability import LogDurability
from storage.log_loading import LogLoader
from storage.partition_log import PartitionLog
from storage.producer_state import ProducerEntry, ProducerState
from storage.segment import Segment
from tests.simulation.cluster_mutant import ClusterMutant, Patch, everywhere, wrapped

__all__ = ["STORAGE_MUTANTS"]


# Recovery


def _keeps_torn_batches(patch: Patch) -> None:
    patch.setattr(recovery, "is_intact", lambda batch, position, header: True)


def _believes_its_files(patch: Patch) -> None:
    """Whatever has ended, it was in order."""

    def load(genuine: Any, *arguments: Any, is_clean: bool, **named: Any) -> Any:
        return genuine(*arguments, is_clean=True, **named)

    genuine = recovery.load_log
    everywhere(patch, genuine, lambda *arguments, **named: load(genuine, *arguments, **named))


def _cuts_at_its_recovery_point(patch: Patch) -> None:
    """What was not known to be synced is given up, though it is there."""

    def load(genuine: Any, files: Any, directory: str, **named: Any) -> Any:
        loaded = genuine(files, directory, **named)
        end = max(named["recovery_point"], loaded.segments[-1].base_offset)
        if not named["is_clean"] and end < loaded.log_end_offset:
            segment: Segment = loaded.segments[-1]
            found = segment.locate(end)
            if found is not None:
                segment.truncate_to(found.position)
                loaded.leader_epochs.truncate_from_end(found.base_offset)
                loaded = msgspec.structs.replace(loaded, log_end_offset=found.base_offset)
        return loaded

    genuine = recovery.load_log
    everywhere(patch, genuine, lambda *arguments, **named: load(genuine, *arguments, **named))


def _finds_no_producers(patch: Patch) -> None:
    """At a start."""
    patch.setattr(recovery, "load_producers", lambda *_: ProducerState())
    patch.setattr(recovery._Scan, "_note_producer", lambda *_: None)


def _keeps_producers_that_were_cut(patch: Patch) -> None:
    patch.setattr(ProducerState, "replace_by", lambda self, other: None)


def _forgets_producers_that_were_cut(patch: Patch) -> None:
    patch.setattr(truncation, "load_producers", lambda *_: ProducerState())


def _leaves_what_was_cut(patch: Patch) -> None:
    """In the file; only in memory the log ends earlier."""

    def truncate(genuine: Any, self: PartitionLog, offset: int, *, now_ms: int) -> None:
        with patch.context() as within:
            within.setattr(Segment, "truncate_to", lambda *_: None)
            genuine(self, offset, now_ms=now_ms)

    wrapped(patch, PartitionLog, "truncate_to", truncate)


def _leaves_no_marker(patch: Patch) -> None:
    patch.setattr(LogDurability, "mark_truncation", lambda *_: None)


def _believes_more_to_be_synced(patch: Patch) -> None:
    def met(genuine: Any, self: LogLoader, *arguments: Any) -> Any:
        found = genuine(self, *arguments)
        found.recovery_point = 1 << 40
        return found

    wrapped(patch, LogLoader, "_met", met)


# Producers


def _takes_any_sequence(patch: Patch) -> None:
    def check(entry: Any, producer_id: int, epoch: int, first: int, last: int) -> Any:
        return None if entry is None else entry.duplicate_of(epoch, first, last)

    everywhere(patch, producer_state.check_sequence, check)


def _appends_duplicates(patch: Patch) -> None:
    patch.setattr(ProducerEntry, "duplicate_of", lambda *_: None)
    _takes_any_sequence(patch)


def _answers_duplicates_with_the_last_place(patch: Patch) -> None:
    def duplicate_of(genuine: Any, self: ProducerEntry, *arguments: Any) -> Any:
        return None if genuine(self, *arguments) is None else self.batches[-1]

    wrapped(patch, ProducerEntry, "duplicate_of", duplicate_of)


def _takes_old_epochs(patch: Patch) -> None:
    everywhere(patch, producer_state.check_epoch, lambda entry, producer_id, epoch: None)


def _ends_by_any_marker(patch: Patch) -> None:
    """Of whatever epoch and coordinator."""
    everywhere(patch, producer_state.check_marker, lambda *_: None)


# What readers may see


def _shows_open_transactions(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _lists_no_aborted_transactions(patch: Patch) -> None:
    everywhere(patch, lookup.aborted_transactions, lambda *_: [])


def _notes_no_aborted_transactions(patch: Patch) -> None:
    """When a log is recovered; what it has noted before stays."""
    patch.setattr(recovery._Scan, "_note_producer", _note_producer_only)


def _note_producer_only(self: Any, segment: Segment, header: Any, batch: Any) -> None:
    if self.producers is not None:
        self.producers.update(header, append.stored_marker_of(batch, header))


_LOST = (log_rules.LOST, log_rules.CHANGED, log_rules.CUT_OFF, partition_rules.JOINS_BEHIND)
_PROMISES = cluster_run.PROMISES
_WELL = cluster_run.BECOMES_WELL
STORAGE_MUTANTS = (
    ClusterMutant(
        "keeps torn batches",
        (*_LOST, log_rules.GAP, _PROMISES, log_rules.WRONG_END, _WELL, cluster_run.CLIENTS_FINISH),
        _keeps_torn_batches,
        "power cuts",
        1,
    ),
    ClusterMutant(
        "believes files after a power cut",
        (*_LOST, log_rules.GAP, log_rules.WRONG_END, log_rules.EPOCHS_DISAGREE, _PROMISES, _WELL),
        _believes_its_files,
        "power cuts",
        1,
    ),
    ClusterMutant("gives up what it has not synced", _LOST, _cuts_at_its_recovery_point, "failures", 1),
    ClusterMutant(
        "finds no producers at a start", (_PROMISES, _WELL), _finds_no_producers, "transactions", 1
    ),
    ClusterMutant(
        "keeps producers of what it has cut",
        (_PROMISES, _WELL, cluster_run.CLIENTS_FINISH),
        _keeps_producers_that_were_cut,
        "transactions",
        1,
    ),
    ClusterMutant(
        "forgets producers when it cuts",
        (_PROMISES, _WELL),
        _forgets_producers_that_were_cut,
        "transactions",
        1,
    ),
    ClusterMutant(
        "leaves in its file what it has cut",
        (log_rules.WRONG_END, log_rules.GAP, log_rules.EPOCH_FALLS),
        _leaves_what_was_cut,
        "failures",
        1,
    ),
    ClusterMutant("leaves no marker when it cuts", (*_LOST, _WELL), _leaves_no_marker, "power cuts", 1),
    ClusterMutant(
        "believes more to be synced than is",
        (*_LOST, _WELL, log_rules.WRONG_END, log_rules.EPOCHS_DISAGREE),
        _believes_more_to_be_synced,
        "power cuts",
        1,
    ),
    ClusterMutant("checks no sequences", (_PROMISES,), _takes_any_sequence, "failures", 1),
    ClusterMutant("appends duplicates", (_PROMISES,), _appends_duplicates, "failures", 1),
    ClusterMutant(
        "answers duplicates with another place",
        (_PROMISES,),
        _answers_duplicates_with_the_last_place,
        "failures",
        1,
    ),
    ClusterMutant(
        "takes batches of old producer epochs",
        (_PROMISES, "a fenced producer is refused"),
        _takes_old_epochs,
        "transactions",
        1,
    ),
    ClusterMutant("takes any marker", (_PROMISES, _WELL), _ends_by_any_marker, "transactions", 1),
    ClusterMutant("shows open transactions", (_PROMISES, _WELL), _shows_open_transactions, "transactions", 1),
    ClusterMutant(
        "lists no aborted transactions", (_PROMISES,), _lists_no_aborted_transactions, "transactions", 1
    ),
    ClusterMutant(
        "forgets aborted transactions in a recovery",
        (_PROMISES,),
        _notes_no_aborted_transactions,
        "transactions",
        1,
    ),
)
