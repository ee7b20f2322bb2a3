"""Work that is repeated for all logs: checkpoints, retention, compaction, expiry of producers.

`run` is called about every second. It notes what is due and hands the calls to the helper threads, or to
worker processes. Each small file is written by one call at a time, so an older one never replaces a newer. A
round over many logs is made in parts.

Order between files: a recovery point is written only after the sync that it stands for, and after the leader
epochs of the same round were handed over. After a crash a small file may be older than the log, and each says
"at least up to here". If that is not true any more because a log was truncated, the log's directory has a
marker (`truncation_markers`) until the checkpoints have been written again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from config.ports import Clock, Files, RandomSource
from storage.background_task_lanes import BackgroundTaskLanes
from storage.background_tasks import BackgroundTask, BackgroundTasks, TaskKind
from storage.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    PartitionOffsets,
    encode_offsets,
)
from storage.cleaner.cleaner import Cleaner
from storage.directories import LogDirectory
from storage.errors import LogStorageError
from storage.failures import DirectoryFailures
from storage.hosted_logs import HostedLogs, Key
from storage.jobs import Workers
from storage.partition_log import PartitionLog
from storage.replica_directory_moves import ReplicaDirectoryMoves
from storage.retention import LOGGED_SEGMENTS

LOGS_PER_LOOK: Final = 1000
"""The number of logs at which housekeeping looks in one call. A look costs some 10 µs."""

RETENTION_TURN_MS: Final = 20
"""The time for which retention renames files in one call. On a slow disk one segment may take that long."""

_SEGMENTS_AT_ONCE: Final = 8
"""The number of segments of one log that are deleted before the clock is looked at."""

LOGGED_SEGMENTS_PER_LOOK: Final = 32
"""The number of segments that are named in the log by one call, so that a thousand logs that delete segments
at once do not write a thousand times as many lines."""

_FIRST_RETENTION_MS: Final = 30_000

_logger: Final = logging.getLogger("barnabas.storage")


class LogManagerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The broker configs of the same names. Times are in milliseconds."""

    initial_task_delay_ms: int | None = None
    """The time before retention looks for the first time, if that is configured."""
    high_watermark_checkpoint_interval_ms: int = 5_000
    flush_checkpoint_interval_ms: int = 60_000
    """`log.flush.offset.checkpoint.interval.ms`: how often recovery points are written."""
    log_start_checkpoint_interval_ms: int = 60_000
    """`log.flush.start.offset.checkpoint.interval.ms`: how often log start offsets are written."""
    flush_look_interval_ms: int = 1_000
    """`log.flush.scheduler.interval.ms`: how often logs are looked for that `flush.ms` wants to be synced."""
    retention_check_interval_ms: int = 300_000
    producer_expiration_check_interval_ms: int = 600_000


class Housekeeping:
    """The repeated work for the logs of one node. All calls come from the loop."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        random_source: RandomSource,
        hosted: HostedLogs,
        background_tasks: BackgroundTasks,
        lanes: BackgroundTaskLanes,
        workers: Workers,
        settings: LogManagerSettings,
        failures: DirectoryFailures,
    ) -> None:
        self._files = files
        self._clock = clock
        self._hosted = hosted
        self._background_tasks = background_tasks
        self._lanes = lanes
        self._settings = settings
        self._failures = failures
        self.cleaner = Cleaner(workers, clock, hosted.logs, self._cleaned, self._broken)
        self.moves = ReplicaDirectoryMoves(
            files, clock, random_source, hosted, background_tasks, self.cleaner, workers
        )
        self.moves.suspect = failures.suspect
        failures.on_failing = self.moves.directory_failed
        self._to_look_at: deque[Key] = deque()
        """The logs at which this round of retention has not looked yet."""
        self._told = LOGGED_SEGMENTS_PER_LOOK
        """The number of segments that this call may still name in the log. The others are counted."""
        self._to_write: deque[PartitionLog] = deque()
        """The logs whose epochs this round has not looked at. A round ends before the next one begins, also
        if it takes longer than its interval: else the last ones of many logs would never be looked at."""
        self._to_flush: deque[PartitionLog] = deque()
        """The logs whose unsynced records this round has not looked at."""
        self._marked: dict[Key, PartitionLog] = {}
        """Logs with a truncation marker. Their checkpoints are to be written soon."""
        self._written: dict[str, bytes] = {}
        """The content of each checkpoint as it was written last."""
        self._next_ms: dict[str, int] = {}

    def begin(self) -> None:
        """Begins the intervals, when all logs are loaded."""
        now_ms = self._clock.monotonic_ms()
        settings = self._settings
        self._next_ms = {
            "high watermarks": now_ms + settings.high_watermark_checkpoint_interval_ms,
            "flush checkpoints": now_ms + settings.flush_checkpoint_interval_ms,
            "log starts": now_ms + settings.log_start_checkpoint_interval_ms,
            "flush": now_ms,
            "retention": now_ms + self._first_retention_ms(),
            "producers": now_ms + settings.producer_expiration_check_interval_ms,
            "compaction": now_ms + min(self.cleaner.settings.backoff_ms, _FIRST_RETENTION_MS),
        }
        for directory in self._hosted.directories:
            for key, offset in directory.cleaner_offsets.items():
                if self._hosted.homes.get(key) is directory:
                    marker = self._hosted.logs[key].durability.truncation_marker
                    believed = offset if marker is None else min(offset, marker.end_offset)
                    self.cleaner.first_dirty[key] = believed

    def _first_retention_ms(self) -> int:
        """The time before retention looks for the first time. Kafka waits half a minute whatever the interval
        is; here it is no longer than the interval, unless it is configured."""
        settings = self._settings
        if settings.initial_task_delay_ms is not None:
            return settings.initial_task_delay_ms
        return min(settings.retention_check_interval_ms, _FIRST_RETENTION_MS)

    def run(self) -> bool:
        """Hands what is due to the helper threads. Call it about every second. Returns True if retention is
        behind: then call it again after a tenth of a second."""
        self._failures.run()
        now_ms = self._clock.wall_ms()
        settings = self._settings
        logs = self._hosted.logs
        if self._is_due("retention", settings.retention_check_interval_ms):
            self._to_look_at = deque(logs)
        is_behind = self._take_retention_turn()
        if self._is_due("producers", settings.producer_expiration_check_interval_ms):
            for key, log in logs.items():
                if self._hosted.is_claimed(key):
                    log.forget_expired_producers(now_ms)
        if self._is_due("high watermarks", settings.high_watermark_checkpoint_interval_ms):
            self._to_write = self._to_write or deque(logs.values())
            self._write_checkpoints(HIGH_WATERMARK_CHECKPOINT)
            for task in self._failures.checks():
                if not self._lanes.is_busy(task.lane):
                    self._lanes.submit(task)
        for log in _some_of(self._to_write):
            if logs.get((log.topic, log.partition)) is log:
                log.durability.write_leader_epochs()
                if log.durability.truncation_marker is not None:
                    self._marked[log.topic, log.partition] = log
        if self._marked:
            self._write_for_marked()
        if not self._to_flush and self._is_due("flush", settings.flush_look_interval_ms):
            self._to_flush = deque(logs.values())
        for log in _some_of(self._to_flush):
            if logs.get((log.topic, log.partition)) is log:
                log.durability.flush_if_due(now_ms)
        if self._is_due("flush checkpoints", settings.flush_checkpoint_interval_ms):
            self._write_checkpoints(RECOVERY_POINT_CHECKPOINT)
        if self._is_due("log starts", settings.log_start_checkpoint_interval_ms):
            self._write_checkpoints(LOG_START_CHECKPOINT)
        if self._is_due("compaction", self.cleaner.settings.backoff_ms):
            self.cleaner.look()
        self.moves.run()
        for task in self._background_tasks.take_due(now_ms):
            self._lanes.submit(task)
        return is_behind

    # Retention and compaction

    def apply_retention(self) -> int:
        """Applies retention to all logs; returns how many segments it deleted."""
        return sum(self._delete_old_segments(key) for key in list(self._hosted.logs))

    def _take_retention_turn(self) -> bool:
        """Applies retention to some of the logs at which this round has not looked yet; the loop waits for
        each rename. Returns True if a log has more to delete. A log that is being compacted is looked at
        later."""
        end_ms = self._clock.monotonic_ms() + RETENTION_TURN_MS
        is_behind = False
        self._told = LOGGED_SEGMENTS_PER_LOOK
        for _ in range(min(LOGS_PER_LOOK, len(self._to_look_at))):
            key = self._to_look_at.popleft()
            if self.cleaner.is_cleaning(key):
                self._to_look_at.append(key)
            elif self._delete_old_segments(key, _SEGMENTS_AT_ONCE) == _SEGMENTS_AT_ONCE:
                self._to_look_at.append(key)
                is_behind = True
            if self._clock.monotonic_ms() >= end_ms:
                break
        return is_behind

    def _delete_old_segments(self, key: Key, at_most: int | None = None) -> int:
        """Applies retention to one log; returns how many segments it deleted."""
        log = self._hosted.logs.get(key)
        if log is None or not self._hosted.is_claimed(key):
            return 0
        if self.cleaner.is_cleaning(key):
            return 0
        try:
            told = min(self._told, LOGGED_SEGMENTS)
            count = log.delete_old_segments(self._clock.wall_ms(), at_most, told)
            self._told -= min(count, told)
            return count
        except LogStorageError as error:
            _logger.error("%s", error)
            self._failures.suspect(log.directory, error.__cause__)
            return 0

    def _cleaned(self, key: Key) -> None:
        """Takes in that a pass of the cleaner has ended, and looks for the next log."""
        home = self._hosted.homes.get(key)
        if home is not None:
            self._write(home.file(CLEANER_CHECKPOINT), self._first_dirty_offsets(home))
        self._next_ms["compaction"] = self._clock.monotonic_ms()

    def _broken(self, key: Key, error: LogStorageError) -> None:
        """Takes a log offline whose files and segments may differ now. Nobody may write to it until a start
        has checked it."""
        _logger.error("%s", error)
        self._failures.suspect(self._hosted.logs[key].directory, error.__cause__)
        self._hosted.leave_to_next_start(key, str(error))

    # Checkpoints

    def checkpoints(self, directory: LogDirectory) -> list[tuple[str, PartitionOffsets]]:
        """The present content of all checkpoints of a directory, by file name."""
        recovery_points: PartitionOffsets = {}
        log_starts: PartitionOffsets = {}
        high_watermarks: PartitionOffsets = {}
        for key, log in self._hosted.logs.items():
            if self._hosted.homes[key] is not directory:
                continue
            recovery_points[key] = log.durability.checkpointed_recovery_point
            high_watermarks[key] = log.durability.checkpointed_high_watermark(log.high_watermark)
            if log.log_start_offset > log.segments[0].base_offset:
                log_starts[key] = log.log_start_offset
        for key, home in self._hosted.unopened.items():
            if home is directory and key in self._hosted.offline:
                for now, found in (
                    (recovery_points, home.recovery_points),
                    (high_watermarks, home.high_watermarks),
                    (log_starts, home.log_starts),
                ):
                    if key in found:
                        now[key] = found[key]
        return [
            (HIGH_WATERMARK_CHECKPOINT, high_watermarks),
            (RECOVERY_POINT_CHECKPOINT, recovery_points),
            (LOG_START_CHECKPOINT, log_starts),
            (CLEANER_CHECKPOINT, self._first_dirty_offsets(directory)),
        ]

    def _first_dirty_offsets(self, directory: LogDirectory) -> PartitionOffsets:
        homes = self._hosted.homes
        return {
            key: offset
            for key, offset in self.cleaner.first_dirty_offsets().items()
            if homes.get(key) is directory
        }

    def _write_checkpoints(self, *wanted: str) -> None:
        for directory in self._hosted.directories:
            for name, offsets in self.checkpoints(directory):
                if name in wanted:
                    self._write(directory.file(name), offsets)

    def _write_for_marked(self) -> None:
        """Writes the checkpoints, which the markers correct, all at once. If one is being written already
        with an older content, the next round does it."""
        marked, self._marked = self._marked, {}
        logs, homes = self._hosted.logs, self._hosted.homes
        for home in self._hosted.directories:
            here = {key: log for key, log in marked.items() if homes.get(key) is home and logs[key] is log}
            if not here:
                continue
            checkpoints = {home.file(name): offsets for name, offsets in self.checkpoints(home)}
            if any(self._lanes.is_busy(path) for path in checkpoints):
                self._marked |= here
                continue
            cuts = {key: log.truncations for key, log in here.items()}
            left: dict[str, None] = dict.fromkeys(checkpoints)
            for path, offsets in checkpoints.items():
                self._write(path, offsets, partial(self._unmark, left, path, here, cuts))

    def _unmark(
        self, left: dict[str, None], path: str, logs: dict[Key, PartitionLog], cuts: dict[Key, int]
    ) -> None:
        """Called when one of the checkpoints has been written. After the last of them the markers are
        removed, apart from those of logs that were truncated again meanwhile."""
        left.pop(path, None)
        if left:
            return
        for key, log in logs.items():
            if self._hosted.logs.get(key) is log and log.truncations == cuts[key]:
                try:
                    log.durability.remove_truncation_marker()
                    log.durability.flush()  # a marker that comes back would be believed
                except OSError as error:
                    self._failures.suspect(log.directory, error)

    def _write(self, path: str, offsets: PartitionOffsets, then: Callable[[], None] | None = None) -> None:
        """Replaces a checkpoint, unless it has this content already. If it is being written, it waits for the
        next round."""
        if self._lanes.is_busy(path):
            return
        data = encode_offsets(offsets)
        if self._written.get(path) == data:
            if then is not None:
                then()
            return
        home = self._hosted.directory_over(path)
        if home is not None:
            home.said.may_say(path, offsets)
        call = partial(self._files.write_atomically, path, data)
        done = partial(self._wrote, home, path, offsets, data, then)
        self._lanes.submit(BackgroundTask(TaskKind.WRITE, path, path, call, done))

    def _wrote(
        self,
        home: LogDirectory | None,
        path: str,
        offsets: PartitionOffsets,
        data: bytes,
        then: Callable[[], None] | None,
    ) -> None:
        self._written[path] = data
        if home is not None:
            home.said.says(path, offsets)
        if then is not None:
            then()

    def _is_due(self, what: str, interval_ms: int) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms[what]:
            return False
        self._next_ms[what] = now_ms + interval_ms
        return True


def _some_of(round_of_logs: deque[PartitionLog]) -> Iterator[PartitionLog]:
    """So many logs of a round as one call may look at; they leave it."""
    for _ in range(min(LOGS_PER_LOOK, len(round_of_logs))):
        yield round_of_logs.popleft()
