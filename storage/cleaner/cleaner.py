"""The part of compaction that runs on the loop: it chooses logs, gives them to workers, and takes in the
results.

    look    every few seconds passes are planned for the logs that need them most, as many at once as there
            are cleaner threads
    done    the worker has answered: if the log is unchanged below the active segment, the new segments are
            swapped in and the log's first dirty offset moves on; if it was truncated, deleted or made anew
            meanwhile, the new files are removed
    failed  in the worker, or before the swap has changed anything: the log is set aside, with the reason, and
            tried again much later: a damaged batch or a full disk must not be met every fifteen seconds, and
            must not keep other logs from being cleaned
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from config.ports import Clock
from storage.checkpoints import PartitionOffsets
from storage.cleaner.choice import Cleanable, cleanable, is_due
from storage.cleaner.filtering import LastBatch
from storage.cleaner.job import CLEAN, CleanPlan, CleanResult, SourceSegment
from storage.cleaner.swap import discard, swap_in
from storage.errors import LogStorageError
from storage.jobs import JobFailed, Workers
from storage.partition_log import PartitionLog

Key = tuple[str, int]

SET_ASIDE_MS: Final = 10 * 60_000
"""The time for which a log that could not be cleaned is left alone."""

_NO_LIMIT: Final = 1e300

_logger: Final = logging.getLogger("barnabas.cleaner")


class CleanerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The broker configs `log.cleaner.…`."""

    enabled: bool = True
    threads: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    """The memory for the offset maps of all passes together."""
    load_factor: float = 0.9
    io_max_bytes_per_second: float = _NO_LIMIT


class CleanerStatistics(msgspec.Struct):
    """Counters of the cleaner since its start, for the metrics."""

    passes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_without_key: int = 0
    last_pass_ms: int = 0
    max_dirty_ratio: float = 0.0
    """The largest dirty ratio among the logs that were looked at last."""


class _Pass(msgspec.Struct):
    log: PartitionLog
    truncations: int
    began_ms: int


class Cleaner:
    """first_dirty: the offset at which each log's next pass begins, unless the log was truncated since it was
    looked at (`first_dirty_offsets`)."""

    def __init__(
        self,
        workers: Workers,
        clock: Clock,
        logs: Mapping[Key, PartitionLog],
        on_cleaned: Callable[[Key], None],
        on_broken: Callable[[Key, LogStorageError], None],
    ) -> None:
        """logs: all logs of the node, which changes as they come and go. on_cleaned: called when the
        checkpoint of a log has moved. on_broken: called when a swap has failed half-way."""
        self.settings = CleanerSettings()
        self.statistics = CleanerStatistics()
        self.first_dirty: PartitionOffsets = {}
        self.set_aside: dict[Key, tuple[str, int]] = {}
        """The logs that could not be cleaned: why, and when they are tried again (monotonic ms)."""
        self._workers = workers
        self._clock = clock
        self._logs = logs
        self._on_cleaned = on_cleaned
        self._on_broken = on_broken
        self._passes: dict[Key, _Pass] = {}
        self._truncations: dict[Key, tuple[PartitionLog, int]] = {}
        """How often each log had been truncated at the time when its first dirty offset was looked at
        last."""
        self._held: dict[Key, None] = {}

    def is_cleaning(self, key: Key) -> bool:
        """Whether a pass reads the log's segments now. Retention leaves them alone until it has ended."""
        return key in self._passes

    def hold(self, key: Key) -> None:
        """Begins no new pass for this log until it is released."""
        self._held[key] = None

    def release(self, key: Key) -> None:
        self._held.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forgets a log that has left the node."""
        self.first_dirty.pop(key, None)
        self.set_aside.pop(key, None)
        self._truncations.pop(key, None)

    def first_dirty_offsets(self) -> PartitionOffsets:
        """The offsets at which the next passes begin, for `cleaner-offset-checkpoint`."""
        for key in list(self.first_dirty):
            if key in self._logs:
                self._notice_truncation(key, self._logs[key])
        return self.first_dirty

    def look(self) -> None:
        """Begins passes for the logs that need it most, while there are cleaner threads for them."""
        settings = self.settings
        if not settings.enabled or len(self._passes) >= settings.threads:
            return
        found = self._due()
        for key, what in found[: settings.threads - len(self._passes)]:
            self._begin(key, what)

    def _due(self) -> list[tuple[Key, Cleanable]]:
        """The logs for which a pass is due: those that are overdue first, then by dirty ratio."""
        now_ms, monotonic_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        due: list[tuple[Key, Cleanable]] = []
        self.statistics.max_dirty_ratio = 0.0
        for key, log in self._logs.items():
            if not log.config.compact or key in self._passes or key in self._held or len(log.segments) < 2:
                continue
            if key in self.set_aside and monotonic_ms < self.set_aside[key][1]:
                continue
            self._notice_truncation(key, log)
            if log.recovery_point < log.active.base_offset:
                log.flush()  # only what is on the disk is cleaned: the next look finds it there
            try:
                what = cleanable(log, self.first_dirty.get(key), now_ms)
            except OSError as error:
                self._fail(key, str(error))
                continue
            self.statistics.max_dirty_ratio = max(self.statistics.max_dirty_ratio, what.dirty_ratio)
            if is_due(what, log.config.min_cleanable_dirty_ratio):
                due.append((key, what))
        due.sort(key=lambda each: (not each[1].is_overdue, -each[1].dirty_ratio, each[0]))
        return due

    def _notice_truncation(self, key: Key, log: PartitionLog) -> None:
        """After a truncation, what is appended is dirty, although it may lie below the offset at which a pass
        has ended. So the first dirty offset goes back to the log's start."""
        known, truncations = self._truncations.get(key, (log, 0))
        if known is log and truncations != log.truncations:
            self.first_dirty.pop(key, None)
        self._truncations[key] = (log, log.truncations)

    def _begin(self, key: Key, what: Cleanable) -> None:
        log = self._logs[key]
        try:
            plan = self._plan(log, what)
        except OSError as error:
            self._fail(key, str(error))
            return
        self._passes[key] = _Pass(log, log.truncations, self._clock.monotonic_ms())
        rate = self.settings.io_max_bytes_per_second / max(self.settings.threads, 1)
        self._workers.submit(
            CLEAN, plan, partial(self._done, key), bytes_per_second=rate if rate < _NO_LIMIT / 1e10 else 0
        )

    def _plan(self, log: PartitionLog, what: Cleanable) -> CleanPlan:
        sources = [
            SourceSegment(segment.base_offset, segment.size_bytes, following.base_offset)
            for segment, following in zip(log.segments, log.segments[1:], strict=False)
            if segment.base_offset < what.first_uncleanable_offset
        ]
        settings, config = self.settings, log.config
        return CleanPlan(
            directory=log.directory,
            name=log.name,
            segments=sources,
            first_dirty_offset=what.first_dirty_offset,
            now_ms=self._clock.wall_ms(),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=settings.dedupe_buffer_bytes // max(settings.threads, 1),
            load_factor=settings.load_factor,
            aborted=[
                aborted
                for segment in log.segments
                for aborted in segment.transaction_index.entries()
                if aborted.first_offset < what.first_uncleanable_offset
            ],
            last_batches={
                entry.producer_id: LastBatch(entry.last_offset, entry.epoch)
                for entry in log.producer_state.entries()
            },
        )

    def _done(self, key: Key, result: CleanResult | JobFailed) -> None:
        """Takes in the answer of a worker process."""
        running = self._passes.pop(key)
        log = running.log
        if self._logs.get(key) is not log:
            return  # the log was deleted with its files, and another log may have their names now
        if isinstance(result, JobFailed):
            self._fail(key, str(result))
            return
        if log.truncations != running.truncations:
            _logger.info("%s changed while it was compacted; what came of it is thrown away", log.name)
            discard(log, result.groups)
            return
        now_ms = self._clock.wall_ms()
        for number, group in enumerate(result.groups):
            try:
                is_in = swap_in(log, group, now_ms)
            except LogStorageError as error:
                self._on_broken(key, error)
                return
            except OSError as error:
                discard(log, result.groups[number:])
                self._fail(key, str(error))
                return
            if not is_in:
                discard(log, result.groups[number:])
                return
        self.set_aside.pop(key, None)
        self.first_dirty[key] = result.end_offset
        self._note(log, result, self._clock.monotonic_ms() - running.began_ms)
        self._on_cleaned(key)

    def _note(self, log: PartitionLog, result: CleanResult, took_ms: int) -> None:
        counts, statistics = result.counts, self.statistics
        statistics.passes += 1
        statistics.bytes_read += counts.bytes_read
        statistics.bytes_written += counts.bytes_written
        statistics.records_without_key += counts.records_without_key
        statistics.last_pass_ms = took_ms
        _logger.info(
            "%s is compacted up to offset %d: %d of %d records and %d of %d bytes stay, in %d ms%s",
            log.name, result.end_offset, counts.records_kept, counts.records_read,
            counts.bytes_written, counts.bytes_read, took_ms,
            "; its keys did not fit into log.cleaner.dedupe.buffer.size, another pass follows"
            if result.is_map_full
            else "",
        )  # fmt: skip

    def _fail(self, key: Key, reason: str) -> None:
        first_time = key not in self.set_aside
        self.set_aside[key] = (reason, self._clock.monotonic_ms() + SET_ASIDE_MS)
        _logger.log(
            logging.ERROR if first_time else logging.WARNING,
            "%s-%d cannot be compacted and is left as it is for now: %s", *key, reason,
        )  # fmt: skip
