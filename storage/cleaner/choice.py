"""Which part of a log may be cleaned, and whether a pass is due.

    first dirty offset         where the last pass ended (`cleaner-offset-checkpoint`), at least the log start
    first uncleanable offset   the base offset of the first segment that may not be touched: the active one,
                               the one that holds the last stable offset, one that is not on the disk yet
                               (it is synced when it is full), one that holds a record younger than
                               min.compaction.lag.ms (without timestamps: whose file is)

A pass is due when the dirty bytes that may be cleaned are more than min.cleanable.dirty.ratio of all bytes up
to there, or when the oldest dirty record is older than max.compaction.lag.ms. The log with the largest such
ratio is cleaned first, and one that is overdue before all others. KIP-58, KIP-354.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.segment import Segment
from storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


class Cleanable(NamedTuple):
    """The range of one log that compaction may clean."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a record has waited for longer than max.compaction.lag.ms."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(log: PartitionLog, checkpoint: int | None, now_ms: int) -> Cleanable:
    """The range that a pass over `log` could clean now. checkpoint: the offset at which the last pass ended.
    Raises OSError."""
    first_dirty = first_dirty_offset(log, checkpoint)
    bound = _first_uncleanable_offset(log, first_dirty, now_ms)
    # The first dirty offset may lie within a segment (the log start does): if that one may not be touched it
    # stays as a whole.
    first_uncleanable = log.segments[log.segments.number_of(bound)].base_offset
    clean_bytes = dirty_bytes = 0
    oldest: int | None = None
    for segment in log.segments[:-1]:
        if segment.base_offset >= first_uncleanable:
            break
        if _end_offset(log, segment) <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        dirty_bytes += segment.size_bytes
        if oldest is None and segment.size_bytes:
            oldest = segment.first_batch_timestamp()
    config = log.config
    is_overdue = (
        oldest is not None and oldest != NO_TIMESTAMP and now_ms - oldest > config.max_compaction_lag_ms
    )
    return Cleanable(first_dirty, first_uncleanable, clean_bytes, dirty_bytes, is_overdue)


def is_due(found: Cleanable, min_dirty_ratio: float) -> bool:
    if not found.dirty_bytes:
        return False
    return found.is_overdue or found.dirty_ratio > min_dirty_ratio


def first_dirty_offset(log: PartitionLog, checkpoint: int | None) -> int:
    """The offset at which the next pass begins. A checkpoint beyond the log's end, because the log was
    truncated or made anew, is ignored, and so is one below its start."""
    if checkpoint is None or not log.log_start_offset <= checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return checkpoint


def _first_uncleanable_offset(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    end = min(log.last_stable_offset, log.recovery_point)  # see `compaction_marker` for the latter
    bound = log.segments[log.segments.number_of(end)].base_offset
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments[:-1]:
            is_dirty = _end_offset(log, segment) > first_dirty
            if is_dirty and segment.youngest_ms() > now_ms - lag_ms:
                return max(min(bound, segment.base_offset), first_dirty)
    return max(bound, first_dirty)


def _end_offset(log: PartitionLog, segment: Segment) -> int:
    following = log.segments.number_of(segment.base_offset) + 1
    return log.segments[following].base_offset if following < len(log.segments) else log.log_end_offset
