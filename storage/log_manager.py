"""All the logs of a node: found at the start, made and removed on request, looked after, closed in order.

The manager itself waits for no disk once it has started: what must be done on the disk is noted as a chore,
and `housekeeping` hands the chores to the helper threads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from config.limits import PREFERRED_DIRECTORIES
from config.ports import Chance, Clock, Files, Offload
from protocol.values import ZERO_UUID
from storage.checkpoints import encode_offsets
from storage.chore_lanes import ChoreLanes, SideBySide, finish, one_after_the_other
from storage.chores import Chores
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, UNKNOWN_BROKER_EPOCH, encode_clean_shutdown
from storage.cleaner.cleaner import Cleaner
from storage.directories import LogDirectory, open_directories
from storage.errors import LogStorageError
from storage.file_names import (
    PARTITION_METADATA,
    DirectoryKind,
    DirectoryName,
    leaving_directory,
    partition_directory,
)
from storage.found_log import FoundLog
from storage.hosted_logs import HostedLogs
from storage.housekeeping import Housekeeping, LogManagerSettings
from storage.jobs import DirectWorkers, Workers
from storage.log_config import LogConfig
from storage.opening import create_log, open_log
from storage.partition_log import PartitionLog
from storage.partition_metadata import MalformedPartitionMetadata, read_partition_metadata

METADATA_TOPIC: Final = "__cluster_metadata"
"""The quorum opens its log itself."""

_logger: Final = logging.getLogger(__name__)


class StartReport(msgspec.Struct):
    """What the start met, for the log and for tests."""

    logs: int = 0
    scanned_segments: int = 0
    cut_bytes: int = 0
    problems: list[str] = msgspec.field(default_factory=list)


class LogManager:
    """`start` first, `shut_down` last; between them all calls come from the loop."""

    def __init__(
        self,
        files: Files,
        directory_paths: Sequence[str],
        *,
        clock: Clock,
        chance: Chance,
        offload: Offload,
        default_config: LogConfig | None = None,
        settings: LogManagerSettings | None = None,
        workers: Workers | None = None,
        cluster_id: str | None = None,
        node_id: int | None = None,
    ) -> None:
        """`cluster_id` and `node_id`, where known, must be those of every directory. Without `workers` what
        they would do is done at once."""
        self._files = files
        self._paths = list(directory_paths)
        self._clock = clock
        self._chance = chance
        self._default_config = default_config or LogConfig()
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._hosted = HostedLogs()
        self.logs = self._hosted.logs
        self.offline = self._hosted.offline
        """Partitions whose log could not be opened, and why."""
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        """Where logs shall lie that are not there yet, as somebody asked for it."""
        self._chores = Chores()
        self._lanes = ChoreLanes(offload)
        self._housekeeping = Housekeeping(
            files, clock, self._hosted, self._chores, self._lanes,
            workers or DirectWorkers(files), settings or LogManagerSettings(),
        )  # fmt: skip

    @property
    def directories(self) -> list[LogDirectory]:
        return self._hosted.directories

    @property
    def cleaner(self) -> Cleaner:
        return self._housekeeping.cleaner

    # Start and end

    def start(self) -> StartReport:
        """Locks the directories and opens every log in them. Blocks; nothing is served yet.

        Raises DirectoryRefused and OSError of a directory itself. A single log that cannot be opened is
        offline, and the report says so.
        """
        report = StartReport()
        self._hosted.directories = open_directories(
            self._files, self._paths, cluster_id=self._cluster_id, node_id=self._node_id
        )
        for directory in self.directories:
            found = directory.partitions()
            directory.forget_clean_shutdown()
            for name, parsed in found:
                self._meet(directory, name, parsed, report)
            report.problems.extend(directory.problems)
        for problem in report.problems:
            _logger.warning("%s", problem)
        self._housekeeping.begin()
        return report

    def shut_down(
        self, broker_epoch: int = UNKNOWN_BROKER_EPOCH, *, side_by_side: SideBySide = one_after_the_other
    ) -> None:
        """Everything to the disk, then the mark that it is. Blocks; nothing is served any more.

        side_by_side: runs what must be synced, several logs at once if it has the threads. The helper
        threads must have ended. What waits for its removal is removed by the next start. A directory in
        which something failed gets no mark: the next start will look closely.
        """
        failed: dict[str, None] = {}
        side_by_side([partial(self._close, key, log, failed) for key, log in self.logs.items()])
        left = [*self._lanes.take_unfinished(), *self._chores.take_due(self._clock.wall_ms())]
        for chore in finish(left, side_by_side):
            failed.update((home.path, None) for home in self.directories if home.path in chore.what)
        for directory in self.directories:
            if directory.path not in failed:
                self._end_in_order(directory, broker_epoch)
            directory.release()
        self.logs.clear()

    def _close(self, key: tuple[str, int], log: PartitionLog, failed: dict[str, None]) -> None:
        """Seals one log and notes what of it must reach the disk. Logs know nothing of each other, so several
        threads may do this at once."""
        try:
            log.close()
            if log.recovery_point < log.log_end_offset:
                log.flush()
            if log.log_end_offset and log.log_end_offset not in log.snapshot_offsets:
                log.write_snapshot()
            log.write_leader_epochs()
        except LogStorageError as error:
            _logger.error("%s", error)
            failed[self._hosted.homes[key].path] = None

    def _end_in_order(self, directory: LogDirectory, broker_epoch: int) -> None:
        try:
            for name, offsets in self._housekeeping.checkpoints(directory):
                self._files.write_atomically(directory.file(name), encode_offsets(offsets))
            self._files.write_atomically(
                directory.file(CLEAN_SHUTDOWN_FILE), encode_clean_shutdown(broker_epoch)
            )
        except OSError as error:
            _logger.error("%s was not closed in order: %s", directory.path, error)

    # Logs

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log, or None if there is none here. Whoever asks gives it the topic's configuration."""
        log = self.logs.get((topic, partition))
        if log is not None:
            self._hosted.claim((topic, partition))
        return log

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> PartitionLog:
        """A new log, in the directory that was asked for (`prefer`), or in that with the fewest.

        Raises OSError, LogStorageError.
        """
        key = (topic, partition)
        if key in self.offline:
            raise LogStorageError(f"{topic}-{partition} is there and cannot be opened: {self.offline[key]}")
        if key in self.logs:
            raise LogStorageError(f"{topic}-{partition} is there already")
        home = self._preferred.pop(key, None) or self._hosted.emptiest_directory()
        path = home.file(partition_directory(topic, partition))
        log = create_log(
            self._files, path, topic, partition, topic_id, config, self._chores,
            now_ms=self._clock.wall_ms(),
        )  # fmt: skip
        self._hosted.add(key, log, home)
        self._hosted.claim(key)
        return log

    def prefer(self, topic: str, partition: int, home: LogDirectory) -> None:
        """A log that is not there yet shall lie in this directory when it is made in this life.

        Wishes for more than `PREFERRED_DIRECTORIES` logs push out the oldest: any name may be wished for.
        """
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = home
        if len(self._preferred) > PREFERRED_DIRECTORIES:
            del self._preferred[next(iter(self._preferred))]

    def delete_async(self, topic: str, partition: int) -> None:
        """The log is gone at once for everybody; its files go `file.delete.delay.ms` later.

        Slices that are held read on. Raises OSError if the directory cannot be renamed.
        """
        self._remove(topic, partition, DirectoryKind.DELETED)

    def set_aside(self, topic: str, partition: int) -> None:
        """The log is gone for everybody, but its files stay under another name until somebody removes them
        by hand, as in Kafka: whoever lost the metadata must not lose the records too."""
        self._remove(topic, partition, DirectoryKind.STRAY)

    def unclaimed(self) -> list[PartitionLog]:
        """Logs on disk that nobody has asked for since the start: candidates for `set_aside`."""
        return [log for key, log in self.logs.items() if not self._hosted.is_claimed(key)]

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None:
        return self._hosted.homes.get((topic, partition))

    def housekeeping(self) -> None:
        """What is due, handed to the helper threads. Call it about every second."""
        self._housekeeping.run()

    def apply_retention(self) -> int:
        """Lets expired segments of all logs go; how many did."""
        return self._housekeeping.apply_retention()

    # How a start meets a directory

    def _meet(self, directory: LogDirectory, name: str, parsed: DirectoryName, report: StartReport) -> None:
        """Deals with one partition's directory at the start."""
        path = directory.file(name)
        if parsed.kind is DirectoryKind.STRAY:
            report.problems.append(f"{path} was set aside earlier; remove it by hand if nobody misses it")
            return
        if parsed.kind is DirectoryKind.DELETED:
            self._chores.add(f"remove {path}", path, partial(self._files.rmtree, path))
            return
        key = (parsed.topic, parsed.partition)
        if parsed.kind is not DirectoryKind.LOG or parsed.topic == METADATA_TOPIC:
            return
        if key in self.logs:
            self.offline[key] = f"it is in {self.logs[key].directory} and in {path}"
            report.problems.append(f"{name} is there twice: {self.offline[key]}; remove one of them")
            return
        try:
            log, found = self._open(directory, path, key)
        except (OSError, LogStorageError, MalformedPartitionMetadata) as error:
            self.offline[key] = str(error)
            report.problems.append(f"{path} cannot be opened, {name} is offline: {error}")
            return
        self._hosted.add(key, log, directory)
        report.logs += 1
        report.scanned_segments += found.scanned_segments
        report.cut_bytes += found.cut_bytes
        report.problems.extend(found.problems)

    def _open(
        self, directory: LogDirectory, path: str, key: tuple[str, int]
    ) -> tuple[PartitionLog, FoundLog]:
        topic_id = read_partition_metadata(self._files, f"{path}/{PARTITION_METADATA}") or ZERO_UUID
        log, found = open_log(
            self._files, path, *key, topic_id, self._default_config, self._chores,
            is_clean=directory.had_clean_shutdown,
            now_ms=self._clock.wall_ms(),
            recovery_point=directory.recovery_points.get(key, 0),
            log_start_offset=directory.log_starts.get(key, 0),
        )  # fmt: skip
        log.update_high_watermark(directory.high_watermarks.get(key, 0))
        return log, found

    # How logs come and go

    def _remove(self, topic: str, partition: int, kind: DirectoryKind) -> None:
        key = (topic, partition)
        found = self._hosted.remove(key)
        if found is None:
            return
        log, home = found
        self.cleaner.forget(key)
        self._chores.drop(f"write {log.directory}/", log.directory)
        self._chores.drop(f"sync {log.directory}/", log.directory)
        log.abandon()
        leaving = home.file(leaving_directory(topic, partition, self._chance.random_bytes(16), kind))
        self._files.rename(log.directory, leaving)
        if kind is DirectoryKind.DELETED:
            self._chores.add(
                f"remove {leaving}",
                log.directory,
                partial(self._files.rmtree, leaving),
                due_ms=self._clock.wall_ms() + log.config.file_delete_delay_ms,
            )
