"""Faults put into the engine on purpose: each must be noticed by some story.

A mutant replaces one method or function by one that forgets something. Whatever it is called by, the stories
only see files, answers and the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from storage import recovery, retention
from storage.append_queue import AppendQueue
from storage.cleaner import swap
from storage.cleaner.filtering import BatchFilter
from storage.index_file import IndexFile
from storage.leader_epochs import LeaderEpochs
from storage.log_durability import LogDurability
from storage.log_segments import LogSegments
from storage.offset_index import OffsetIndex
from storage.partition_log import PartitionLog
from storage.producer_state import ProducerState
from storage.segment import Segment
from storage.transactions import OpenTransactions

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    name: str
    put_in: Callable[[Patch], None]
    first_seed: int = 0
    """Stories from here on; one of the next few hundred must notice."""


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """`make` gets the sound function."""
    return lambda patch: patch.setattr(owner, name, make(getattr(owner, name)))


def _nothing(sound: Any) -> Any:
    return lambda *arguments, **named: None


def _cut_one_too_few(sound: Any) -> Any:
    def truncate_to(log: PartitionLog, offset: int, *, now_ms: int) -> None:
        later = [header.next_offset for _, header in log.active.headers() if header.base_offset >= offset]
        sound(log, later[0] if later else offset, now_ms=now_ms)

    return truncate_to


def _one_off(sound: Any) -> Any:
    return lambda self, offset, position: sound(self, offset + 1, position)


def _stay_in_the_queue(sound: Any) -> Any:
    def rollback(self: AppendQueue) -> int:
        left = list(self.prepared)
        count: int = sound(self)
        self.prepared.extend(left)
        return count

    return rollback


def _only_ongoing(sound: Any) -> Any:
    def first_unstable_offset(self: OpenTransactions, high_watermark: int) -> int | None:
        return next(iter(self._ongoing.values()), None)

    return first_unstable_offset


def _older_records(sound: Any) -> Any:
    def kept(self: BatchFilter, header: Any, records: list[Any]) -> list[Any]:
        return (
            records if len(records) > 1 and records[0][5] == records[-1][5] else sound(self, header, records)
        )

    return kept


def _newest_records(sound: Any) -> Any:
    def kept(self: BatchFilter, header: Any, records: list[Any]) -> list[Any]:
        found: list[Any] = sound(self, header, records)
        return found[:-1] if len(found) > 1 else found

    return kept


def _beyond_the_high_watermark(sound: Any) -> Any:
    def deletable(log: PartitionLog, now_ms: int) -> int:
        before, log.high_watermark = log.high_watermark, log.log_end_offset
        count: int = sound(log, now_ms)
        log.high_watermark = before
        return count

    return deletable


def _falls_back(sound: Any) -> Any:
    def update_high_watermark(self: PartitionLog, offset: int) -> bool:
        moved = offset != self.high_watermark
        self.high_watermark = max(min(offset, self.log_end_offset), self.log_start_offset)
        return moved

    return update_high_watermark


def _believes_a_torn_tail(sound: Any) -> Any:
    def run(self: Any, segments: list[Segment], is_clean: bool, recovery_point: int) -> int:
        return int(sound(self, segments, True, recovery_point))

    return run


def _recovery_point_too_early(sound: Any) -> Any:
    def flush(self: LogDurability) -> None:
        sound(self)
        self.recovery_point = max(self.recovery_point, self._segments.log_end_offset)

    return flush


def _no_last_batches(sound: Any) -> Any:
    return lambda self, header: None


def _closes_nothing(sound: Any) -> Any:
    def mark_deleted(self: Segment) -> list[str]:
        _close, self.log.close_when_unused = self.log.close_when_unused, lambda: None  # type: ignore[method-assign]
        return list(sound(self))

    return mark_deleted


def _aborted_forgotten(sound: Any) -> Any:
    return lambda self, segment, producer_id, offset, marker: self._log.producer_state.transactions.ended(
        producer_id, offset
    )


MUTANTS: Final = (
    Mutant("the snapshot of a roll is not written", _replace(LogDurability, "write_snapshot", _nothing), 190),
    Mutant("one batch too few is cut off", _replace(PartitionLog, "truncate_to", _cut_one_too_few)),
    Mutant("an index entry is off by one", _replace(OffsetIndex, "append", _one_off)),
    Mutant(
        "a rollback does not empty the append queue", _replace(AppendQueue, "rollback", _stay_in_the_queue)
    ),
    Mutant(
        "the last stable offset ignores markers that are not replicated",
        _replace(OpenTransactions, "first_unstable_offset", _only_ongoing),
    ),
    Mutant("the cleaner keeps an older record", _replace(BatchFilter, "_kept", _older_records), 50),
    Mutant("the cleaner drops the newest record", _replace(BatchFilter, "_kept", _newest_records)),
    Mutant("the cleaner forgets producers", _replace(BatchFilter, "_empty", _no_last_batches)),
    Mutant(
        "retention goes beyond the high watermark",
        _replace(retention, "_deletable", _beyond_the_high_watermark),
    ),
    Mutant("recovery believes a torn tail", _replace(recovery._Scan, "run", _believes_a_torn_tail)),
    Mutant("the high watermark falls back", _replace(PartitionLog, "update_high_watermark", _falls_back)),
    Mutant("leader epochs are not cut", _replace(LeaderEpochs, "truncate_from_end", _nothing)),
    Mutant(
        "the recovery point moves before the sync",
        _replace(LogDurability, "flush", _recovery_point_too_early),
    ),
    Mutant(
        "an aborted transaction is not noted", _replace(AppendQueue, "_end_transaction", _aborted_forgotten)
    ),
    Mutant(
        "a cut below a checkpoint leaves no mark",
        _replace(LogDurability, "mark_truncation", _nothing),
        100,
    ),
    Mutant(
        "a new topic is believed what the old one was",
        _replace(LogDurability, "mark_if_checkpointed", _nothing),
        3500,
    ),
    Mutant(
        "bytes of a failed write are not cut off", _replace(LogSegments, "cut_off_failed_write", _nothing)
    ),
    Mutant("an index is not cut", _replace(IndexFile, "truncate", _nothing)),
    Mutant("swapped segments do not replace the old", _replace(swap, "_remove_old_files", _nothing)),
    Mutant(
        "producers are not read from the batches behind a snapshot",
        _replace(ProducerState, "update", _nothing),
    ),
)
