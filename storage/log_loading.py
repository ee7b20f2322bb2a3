"""Opens the logs of a node at its start, from the directories of the partitions.

    after a clean shutdown   each log is opened, and its files are believed
    after a crash            what may not be on the disk is read first: here if it is little, else in worker
                             processes, several at once. Then the log is opened as after a clean shutdown
    cannot be used           the partition is offline, with the reason, and the start goes on. If only space
                             was lacking the log is opened later

Directories with a suffix: `-delete` is removed in a background task, `-stray` is left for an operator,
`-future` was an incomplete copy: it is removed, and the move begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from config.limits import INLINE_RECOVERY_BYTES
from config.ports import Clock, Files, RandomSource
from protocol.values import ZERO_UUID
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.directories import LogDirectory
from storage.errors import LogStorageError, is_out_of_space
from storage.file_names import PARTITION_METADATA, DirectoryKind, DirectoryName, leaving_directory
from storage.hosted_logs import HostedLogs, Key
from storage.jobs import JobFailed, Workers
from storage.loaded_log import RecoveredLog
from storage.log_config import LogConfig
from storage.opening import MalformedPartitionMetadata, open_log, read_partition_metadata
from storage.partition_log import PartitionLog
from storage.recovery import OnDamage
from storage.recovery_job import RECOVER, LogToRecover, RecoverPlan, unverified_bytes
from storage.truncation_markers import TruncationMarker, read_truncation_marker

METADATA_TOPIC: Final = "__cluster_metadata"
"""The topic whose log is not opened here, because the quorum opens it itself."""

_SMALLEST_PLAN_BYTES: Final = 4 * 1024 * 1024
_PLANS_PER_WORKER: Final = 4
_TELL_MS: Final = 2_000

_logger: Final = logging.getLogger("barnabas.storage")

Tell = Callable[[str], None]


class StartReport(msgspec.Struct):
    """What the start has found in the log directories, for the log and for tests."""

    logs: int = 0
    scanned_segments: int = 0
    cut_bytes: int = 0
    recovered_bytes: int = 0
    """The number of bytes that worker processes have read."""
    problems: list[str] = msgspec.field(default_factory=list)
    moving: list[tuple[Key, LogDirectory]] = msgspec.field(default_factory=list)
    """The logs that were being moved to another directory when the last process ended."""


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """threads_per_directory: `num.recovery.threads.per.data.dir`. on_damage: `barnabas.recovery.corrupt`."""

    threads_per_directory: int = 2
    on_damage: OnDamage = OnDamage.AUTO


class _Met(msgspec.Struct):
    """A partition's directory that is to be opened."""

    directory: LogDirectory
    path: str
    key: Key
    mark: TruncationMarker | None
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    cleaned_offset: int
    """The four offsets are those of the checkpoints, or of the truncation marker where that is smaller."""
    unverified_bytes: int = 0
    recovered: RecoveredLog | None = None


class LogLoader:
    """Is used once, at the start, and blocks. tell: gets lines about the progress, also for the service
    manager."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        hosted: HostedLogs,
        background_tasks: BackgroundTasks,
        workers: Workers,
        default_config: LogConfig,
        settings: RecoverySettings,
        tell: Tell,
        random_source: RandomSource,
    ) -> None:
        self._files = files
        self._clock = clock
        self._hosted = hosted
        self._background_tasks = background_tasks
        self._workers = workers
        self._default_config = default_config
        self._settings = settings
        self._tell = tell
        self._random_source = random_source
        self._report = StartReport()
        self._told_ms = clock.monotonic_ms()

    def load(self, directory_failed: Callable[[LogDirectory, OSError], None]) -> StartReport:
        """Opens all logs in the directories. `directory_failed` is called for one that cannot be read at
        all."""
        met: list[_Met] = []
        for directory in list(self._hosted.directories):
            try:
                found = directory.partitions()
                directory.forget_clean_shutdown()
            except OSError as error:
                directory_failed(directory, error)
                continue
            for name, parsed in found:
                self._meet(directory, name, parsed, met)
            self._report.problems.extend(directory.problems)
        self._recover(met)
        for number, each in enumerate(met):
            self._open(each)
            self._tell_now_and_then(number + 1, len(met))
        self._report.moving = [
            (key, target) for key, target in self._report.moving if key in self._hosted.logs
        ]
        return self._report

    def _meet(self, directory: LogDirectory, name: str, parsed: DirectoryName, met: list[_Met]) -> None:
        path = directory.file(name)
        key = (parsed.topic, parsed.partition)
        if parsed.kind is DirectoryKind.STRAY:
            self._report.problems.append(
                f"{path} was set aside earlier; remove it by hand if nobody misses it"
            )
        elif parsed.kind is DirectoryKind.DELETED:
            self._background_tasks.add(TaskKind.REMOVE, path, path, partial(self._files.rmtree, path))
        elif parsed.topic == METADATA_TOPIC:
            return
        elif parsed.kind is DirectoryKind.FUTURE:
            self._background_tasks.add(TaskKind.REMOVE, path, path, partial(self._files.rmtree, path))
            self._report.moving.append((key, directory))
        else:
            met.append(self._met(directory, path, key))

    def _met(self, directory: LogDirectory, path: str, key: Key) -> _Met:
        mark = None if directory.had_clean_shutdown else read_truncation_marker(self._files, path)
        recovery_point = directory.recovery_points.get(key, 0)
        log_start_offset = directory.log_starts.get(key, 0)
        high_watermark = directory.high_watermarks.get(key, 0)
        cleaned_offset = directory.cleaner_offsets.get(key, 0)
        if mark is not None:
            recovery_point = min(recovery_point, mark.end_offset)
            log_start_offset = min(log_start_offset, mark.start_offset)
            high_watermark = min(high_watermark, mark.end_offset)
            cleaned_offset = min(cleaned_offset, mark.end_offset)
        return _Met(
            directory, path, key, mark, recovery_point, log_start_offset, high_watermark, cleaned_offset
        )

    # After a crash

    def _recover(self, met: list[_Met]) -> None:
        """Has worker processes recover the logs, if they are too large to be read here."""
        dirty: list[_Met] = []
        for each in met:
            if each.directory.had_clean_shutdown:
                continue
            try:
                each.unverified_bytes = unverified_bytes(self._files, each.path, each.recovery_point)
            except OSError:
                continue  # the opening meets it too, and says so
            if each.unverified_bytes:
                dirty.append(each)
        total = sum(each.unverified_bytes for each in dirty)
        if total <= INLINE_RECOVERY_BYTES:
            return
        directories = len({each.directory.path for each in dirty})
        at_once = self._settings.threads_per_directory * directories
        groups = _grouped(dirty, max(total // (at_once * _PLANS_PER_WORKER), _SMALLEST_PLAN_BYTES))
        at_once = min(at_once, len(groups))
        self._tell(
            f"Recovering {len(dirty):,} logs that were not closed in order: {total >> 20:,} MiB to read, "
            f"by {at_once} worker processes"
        )
        began_ms = self._clock.monotonic_ms()
        results = self._workers.run_all(RECOVER, [self._plan(group) for group in groups], at_once, self._tell)
        for group, result in zip(groups, results, strict=True):
            if isinstance(result, JobFailed):
                _logger.error("Recovery in a worker failed (%s); it is done by the broker itself", result)
                continue
            for each, recovered in zip(group, result.logs, strict=True):
                each.recovered = recovered
        self._report.recovered_bytes = total
        took_ms = max(self._clock.monotonic_ms() - began_ms, 1)
        self._tell(f"Recovered {total >> 20:,} MiB in {took_ms:,} ms ({total / took_ms / 1000:,.0f} MB/s)")

    def _plan(self, group: list[_Met]) -> RecoverPlan:
        logs = [
            LogToRecover(
                directory=each.path,
                recovery_point=each.recovery_point,
                log_start_offset=each.log_start_offset,
                cleaned_offset=each.cleaned_offset,
                unverified_bytes=each.unverified_bytes,
            )
            for each in group
        ]
        return RecoverPlan(
            logs=logs,
            on_damage=self._settings.on_damage.value,
            index_interval_bytes=self._default_config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
        )

    # Opening

    def _open(self, met: _Met) -> None:
        report, key = self._report, met.key
        name = f"{key[0]}-{key[1]}"
        if key in self._hosted.offline:
            report.problems.append(f"{name} is also in {met.path}, which is left alone: it is offline")
            return
        recovered = met.recovered
        try:
            if recovered is not None and recovered.failure:
                raise LogStorageError(recovered.failure)
            topic_id = read_partition_metadata(self._files, f"{met.path}/{PARTITION_METADATA}") or ZERO_UUID
            log, found = open_log(
                self._files, met.path, *key, topic_id, self._default_config, self._background_tasks,
                is_clean=met.directory.had_clean_shutdown,
                now_ms=self._clock.wall_ms(),
                recovery_point=met.recovery_point,
                log_start_offset=met.log_start_offset,
                cleaned_offset=met.cleaned_offset,
                on_damage=self._settings.on_damage,
                recovered=recovered,
            )  # fmt: skip
            log.durability.set_max_checkpointed_offset(partial(met.directory.said.most, key))
            log.durability.check_truncation_marker(met.mark, log.log_start_offset)
        except (OSError, LogStorageError, MalformedPartitionMetadata) as error:
            report.problems.append(f"{name} is offline, its log cannot be opened: {error}")
            if key not in self._hosted.logs:
                self._hosted.offline[key] = str(error)
                self._hosted.unopened[key] = met.directory
                if is_out_of_space(error) and met.unverified_bytes <= INLINE_RECOVERY_BYTES:
                    self._hosted.postponed[key] = partial(self._open, met)
            return
        log.update_high_watermark(met.high_watermark)
        if not self._keep_the_newer(log, met):
            return
        self._hosted.add(key, log, met.directory)
        report.logs += 1
        report.scanned_segments += found.scanned_segments
        report.cut_bytes += found.cut_bytes
        report.problems.extend(found.problems)
        if recovered is not None:
            report.scanned_segments += recovered.scanned_segments
            report.cut_bytes += recovered.cut_bytes
            report.problems.extend(recovered.problems)

    def _keep_the_newer(self, log: PartitionLog, met: _Met) -> bool:
        """Decides which log is hosted if a partition has one in two directories: that with the later leader
        epoch, or the longer one. A crash at the end of a move leaves two of one epoch. A directory that was
        given up for a while and is back may have a longer log, of which others have cut off what came last.
        The other log is renamed, not removed. Returns whether `log` is to be hosted.

        If the logs are of two topics of the same name, both are kept until the topic id is known.
        """
        other = self._hosted.logs.get(met.key)
        if other is None:
            return True
        if ZERO_UUID not in (log.topic_id, other.topic_id) and log.topic_id != other.topic_id:
            self._hosted.rivals.setdefault(met.key, []).append((log, met.directory))
            self._report.problems.append(
                f"{log.name} is in {other.directory} and, of another topic of that name, in {log.directory}"
            )
            return False
        home = self._hosted.homes[met.key]
        if _age(log) > _age(other):
            self._hosted.remove(met.key)
            self._report.logs -= 1
            loser, directory = other, home
        else:
            loser, directory = log, met.directory
        loser.abandon()
        unique = self._random_source.random_bytes(16)
        aside = directory.file(leaving_directory(*met.key, unique, DirectoryKind.STRAY))
        self._files.rename(loser.directory, aside)
        self._report.problems.append(
            f"{log.name} is in {other.directory} and in {log.directory}; the one with the later leader epoch "
            f"or the larger end offset is used, the other one is set aside as {aside}"
        )
        return loser is other

    def _tell_now_and_then(self, done: int, total: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._told_ms >= _TELL_MS:
            self._told_ms = now_ms
            self._tell(f"Opened {done:,} of {total:,} logs")


def _age(log: PartitionLog) -> tuple[int, int]:
    """The larger, the more a log knows."""
    return log.leader_epochs.latest_epoch, log.log_end_offset


def _grouped(dirty: list[_Met], target_bytes: int) -> list[list[_Met]]:
    """Groups of logs for one worker each, the largest logs first, so that the last workers have little to
    do."""
    groups: list[list[_Met]] = []
    size_bytes = target_bytes
    for each in sorted(dirty, key=lambda met: -met.unverified_bytes):
        if size_bytes >= target_bytes:
            groups.append([])
            size_bytes = 0
        groups[-1].append(each)
        size_bytes += each.unverified_bytes
    return groups
