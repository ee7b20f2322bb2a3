"""All the logs of a node: opened at the start, created and deleted on request, and closed in order.

Once it has started, the manager itself waits for no disk: what must be done on the disk is noted as a
background task, and `housekeeping` hands the background tasks to the helper threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from config.limits import PREFERRED_DIRECTORIES
from config.ports import Clock, Files, Offload, RandomSource
from storage.background_task_lanes import BackgroundTaskLanes, SideBySide, finish, one_after_the_other
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.checkpoints import encode_offsets
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, UNKNOWN_BROKER_EPOCH, encode_clean_shutdown
from storage.cleaner.cleaner import Cleaner
from storage.directories import FailedDirectory, LogDirectory, directory_path, open_directories
from storage.errors import LogStorageError, NoSpaceLeft
from storage.failures import DirectoryFailed, DirectoryFailures
from storage.file_names import DirectoryKind, leaving_directory, partition_directory
from storage.hosted_logs import HostedLogs, Key
from storage.housekeeping import Housekeeping, LogManagerSettings
from storage.jobs import DirectWorkers, Workers
from storage.log_config import LogConfig
from storage.log_loading import LogLoader, RecoverySettings, StartReport
from storage.opening import create_log
from storage.partition_log import PartitionLog
from storage.replica_directory_moves import ReplicaDirectoryMoves

_logger: Final = logging.getLogger("barnabas.storage")


class LogManager:
    """`start` is called first and `shut_down` last. Between them all calls come from the loop."""

    def __init__(
        self,
        files: Files,
        directory_paths: Sequence[str],
        *,
        clock: Clock,
        random_source: RandomSource,
        offload: Offload,
        default_config: LogConfig | None = None,
        settings: LogManagerSettings | None = None,
        workers: Workers | None = None,
        recovery: RecoverySettings | None = None,
        tell: Callable[[str], None] = _logger.info,
        required_directory: str | None = None,
        cluster_id: str | None = None,
        node_id: int | None = None,
    ) -> None:
        """`cluster_id` and `node_id`, if they are known, must be those of every directory. Without `workers`
        their work is done at once. default_config: of the logs that a start opens, until they get their
        topic's. tell: gets lines about the progress of the start. required_directory: without this directory
        the start fails."""
        self._files = files
        self._paths = list(directory_paths)
        self._clock = clock
        self._random_source = random_source
        self._default_config = default_config or LogConfig()
        self._workers = workers or DirectWorkers(files)
        self._recovery = recovery or RecoverySettings()
        self._tell = tell
        self._required_directory = required_directory
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._hosted = HostedLogs()
        self.logs = self._hosted.logs
        self.offline = self._hosted.offline
        """The partitions whose log cannot be used, with the reason."""
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        """The directories in which logs shall be created that do not exist yet, as clients have asked for
        it."""
        self._background_tasks = BackgroundTasks()
        self._failures = DirectoryFailures(files, self._hosted, self._forget)
        self._lanes = BackgroundTaskLanes(offload, self._failures.background_task_failed)
        self._housekeeping = Housekeeping(
            files, clock, random_source, self._hosted, self._background_tasks, self._lanes,
            self._workers, settings or LogManagerSettings(), self._failures,
        )  # fmt: skip

    @property
    def directories(self) -> list[LogDirectory]:
        """The log directories that can be used."""
        return self._hosted.directories

    @property
    def failed_directories(self) -> list[FailedDirectory]:
        return self._hosted.failed

    def watch(self, on_offline: Callable[[Key, str], None], on_directory_failed: DirectoryFailed) -> None:
        """Sets the callbacks for each log that cannot be used any more, and for the failed directory, if that
        is the reason."""
        self._hosted.on_offline = on_offline
        self._failures.on_failed = on_directory_failed

    def suspect(self, path: str, error: BaseException | None) -> None:
        """Notes that a call on a file under `path` has failed, so that its directory may have failed."""
        self._failures.suspect(path, error)

    @property
    def moves(self) -> ReplicaDirectoryMoves:
        """The moves of logs to other directories."""
        return self._housekeeping.moves

    @property
    def cleaner(self) -> Cleaner:
        return self._housekeeping.cleaner

    # Start and end

    def start(self) -> StartReport:
        """Locks the directories and opens every log in them. Blocks; nothing is served yet.

        Raises DirectoryRefused and OSError of a directory itself. A single log that cannot be opened is
        offline, and the report says so.
        """
        self._hosted.directories, self._hosted.failed = open_directories(
            self._files, self._paths,
            cluster_id=self._cluster_id, node_id=self._node_id, required=self._required_directory,
        )  # fmt: skip
        for failed in self.failed_directories:
            _logger.error("Log directory %s cannot be used, the rest goes on: %s", failed.path, failed.reason)
        loader = LogLoader(
            self._files, self._clock, self._hosted, self._background_tasks, self._workers,
            self._default_config, self._recovery, self._tell, self._random_source,
        )  # fmt: skip
        report = loader.load(lambda directory, error: self._failures.fail(directory, str(error)))
        for problem in report.problems:
            _logger.warning("%s", problem)
        self._housekeeping.begin()
        for key, target in report.moving:
            self.moves.begin(key, target)
        return report

    def shut_down(
        self, broker_epoch: int = UNKNOWN_BROKER_EPOCH, *, side_by_side: SideBySide = one_after_the_other
    ) -> None:
        """Syncs everything, then marks the directories as cleanly shut down. It blocks; nothing is served any
        more.

        side_by_side: runs what must be synced, several logs at once if it has the threads. The helper threads
        must have ended. Files that wait for their removal are removed by the next start. A directory in which
        something has failed gets no mark, so the next start checks its logs.
        """
        failed: dict[str, None] = {}
        side_by_side([partial(self._close, key, log, failed) for key, log in self.logs.items()])
        left = [*self._lanes.take_unfinished(), *self._background_tasks.take_due(self._clock.wall_ms())]
        for task in finish(left, side_by_side):
            home = self._hosted.directory_over(task.path)
            if home is not None:
                failed[home.path] = None
        self.moves.retire_left()
        unopened = {home.path for home in self._hosted.unopened.values()}
        for directory in self.directories:
            if directory.path in unopened:
                _logger.warning("%s has logs that could not be opened: no clean mark", directory.path)
            if directory.path not in failed:
                self._end_in_order(directory, broker_epoch, is_clean=directory.path not in unopened)
            directory.release()
        self.logs.clear()

    def _close(self, key: tuple[str, int], log: PartitionLog, failed: dict[str, None]) -> None:
        """Seals one log and notes what must be synced of it. Logs share nothing here, so several threads may
        do this at once."""
        try:
            log.close()
            if self._may_be_unsynced(key, log):
                log.flush()
            if log.log_end_offset and log.log_end_offset not in log.durability.snapshot_offsets:
                log.durability.write_snapshot()
            log.durability.write_leader_epochs()
        except LogStorageError as error:
            _logger.error("%s", error)
            failed[self._hosted.homes[key].path] = None

    def _may_be_unsynced(self, key: tuple[str, int], log: PartitionLog) -> bool:
        """Whether something of a closed log may not be on the disk, because of this process or of an earlier
        one that has died. The mark of a clean shutdown makes the next start believe every file: truncated
        records must not come back under it, and the indexes of the active segment, which no sync has included
        until now, must not be older than the records."""
        return (
            log.recovery_point < log.log_end_offset
            or log.durability.has_unsynced_truncation
            or log.active.has_changed_indexes
            or not self._hosted.homes[key].had_clean_shutdown
        )

    def _end_in_order(self, directory: LogDirectory, broker_epoch: int, *, is_clean: bool) -> None:
        try:
            for name, offsets in self._housekeeping.checkpoints(directory):
                self._files.write_atomically(directory.file(name), encode_offsets(offsets))
            for key, log in self.logs.items():
                if log.durability.truncation_marker is not None and self._hosted.homes[key] is directory:
                    log.durability.remove_truncation_marker()
                    self._files.fsync_directory(log.directory)  # no start looks for it now
            if is_clean:
                self._files.write_atomically(
                    directory.file(CLEAN_SHUTDOWN_FILE), encode_clean_shutdown(broker_epoch)
                )
        except OSError as error:
            _logger.error("%s was not closed in order: %s", directory.path, error)

    # Logs

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, or None. The caller gives it the topic's configuration."""
        if self._hosted.postponed:
            self._open_postponed((topic, partition))
        log = self.logs.get((topic, partition))
        if log is not None:
            self._hosted.claim((topic, partition))
        return log

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        directory_id: bytes | None = None,
    ) -> PartitionLog:
        """Creates a log, in the directory that was asked for (`prefer`), else in that with `directory_id`,
        else in that with the fewest logs of those that are not cordoned.

        directory_id: where the log should be already, as far as anybody knows; None if it was nowhere yet. A
        log that should be in no directory that works may be in one that has failed, and is not made anew.
        Raises OSError and LogStorageError.
        """
        key = (topic, partition)
        if key in self._hosted.postponed:
            raise NoSpaceLeft(f"{topic}-{partition} is there and cannot be opened: {self.offline[key]}")
        if key in self.offline:
            raise LogStorageError(f"{topic}-{partition} is there and cannot be used: {self.offline[key]}")
        if key in self.logs:
            raise LogStorageError(f"{topic}-{partition} is there already")
        home = self._home_of_new(key, directory_id)
        path = home.file(partition_directory(topic, partition))
        try:
            log = create_log(
                self._files, path, topic, partition, topic_id, config, self._background_tasks,
                now_ms=self._clock.wall_ms(),
            )  # fmt: skip
            log.durability.set_max_checkpointed_offset(partial(home.said.most, key))
            try:
                # An earlier log of that name may be in the checkpoints.
                log.durability.mark_if_checkpointed(0, 0)
            except OSError:
                log.abandon()
                raise
        except OSError as error:
            self.suspect(path, error)
            raise
        self._hosted.add(key, log, home)
        self._hosted.claim(key)
        return log

    def _home_of_new(self, key: Key, directory_id: bytes | None) -> LogDirectory:
        assigned = None if directory_id is None else self._hosted.directory_with(directory_id)
        if assigned is None and directory_id is not None and self.failed_directories:
            failed = ", ".join(each.path for each in self.failed_directories)
            raise LogStorageError(f"{key[0]}-{key[1]} may be in a log directory that has failed: {failed}")
        return self._preferred.pop(key, None) or assigned or self._hosted.emptiest_directory()

    def prefer(self, topic: str, partition: int, home: LogDirectory) -> None:
        """Remembers that a log which does not exist yet shall be created in this directory.

        If there are more than `PREFERRED_DIRECTORIES` of them, the oldest is forgotten, because a client may
        name any topic.
        """
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = home
        if len(self._preferred) > PREFERRED_DIRECTORIES:
            del self._preferred[next(iter(self._preferred))]

    def cordon(self, paths: Iterable[str]) -> bool:
        """Cordons the directories of these paths, as log.dirs names them, and no others. Returns whether that
        changes anything."""
        cordoned = {directory_path(path) for path in paths}
        changed = [each for each in self.directories if each.is_cordoned != (each.path in cordoned)]
        for directory in changed:
            directory.is_cordoned = not directory.is_cordoned
        return bool(changed)

    def delete_async(self, topic: str, partition: int) -> None:
        """Removes the log at once from use. Its files are deleted `file.delete.delay.ms` later.

        Slices that are held can still be read. Raises OSError if the directory cannot be renamed.
        """
        self._remove(topic, partition, DirectoryKind.DELETED)

    def set_aside(self, topic: str, partition: int) -> None:
        """Removes the log from use, but keeps its files under another name until an operator removes them, as
        in Kafka: if the metadata was lost, the records must not be lost too."""
        self._remove(topic, partition, DirectoryKind.STRAY)

    def set_rivals_aside(self) -> None:
        """Sets those logs aside whose topic has the same name as one that is served, when the served ones
        have been claimed."""
        rivals, self._hosted.rivals = self._hosted.rivals, {}
        for key, each in rivals.items():
            for log, home in each:
                log.abandon()
                aside = self._leaving(home, key, DirectoryKind.STRAY)
                _logger.warning("%s is of an earlier topic and is set aside as %s", log.directory, aside)
                try:
                    self._files.rename(log.directory, aside)
                except OSError as error:
                    _logger.error("%s could not be set aside: %s", log.directory, error)

    def unclaimed(self) -> list[PartitionLog]:
        """The logs on disk for which nobody has asked since the start. They are candidates for
        `set_aside`."""
        return [log for key, log in self.logs.items() if not self._hosted.is_claimed(key)]

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None:
        return self._hosted.homes.get((topic, partition))

    def is_lost(self, topic: str, partition: int) -> bool:
        """Whether a log cannot be used although its directory can."""
        return self._hosted.unopened.get((topic, partition)) in self.directories

    def housekeeping(self) -> bool:
        """Hands what is due to the helper threads. Call it about every second. Returns True if retention is
        behind: then call it again after a tenth of a second."""
        return self._housekeeping.run()

    def apply_retention(self) -> int:
        """Applies retention to all logs; returns how many segments it deleted."""
        return self._housekeeping.apply_retention()

    # How logs come and go

    def _forget(self, home: LogDirectory, key: Key, kind: DirectoryKind = DirectoryKind.STRAY) -> None:
        """Drops the work that is planned for a log which is about to leave the node. kind: see
        `ReplicaDirectoryMoves.log_goes`."""
        directory = self.logs[key].directory
        self.moves.log_goes(key, kind)
        self.cleaner.forget(key)
        for tasks in (self._background_tasks, self._lanes):  # they would find the next log of that name
            tasks.drop(directory, TaskKind.WRITE, TaskKind.SYNC)

    def _remove(self, topic: str, partition: int, kind: DirectoryKind) -> None:
        key = (topic, partition)
        log = self.logs.get(key)
        if log is None:
            self._remove_unusable(key, kind)
            return
        home = self._hosted.homes[key]
        self._forget(home, key, kind)
        leaving = self._leaving(home, key, kind)
        try:
            self._files.rename(log.directory, leaving)
        except OSError as error:  # a new topic of that name must not get this one's records
            self._hosted.leave_to_next_start(key, f"{log.directory} could not be renamed: {error}")
            raise
        self._hosted.remove(key)
        self._hosted.add_rival(key)
        log.abandon()
        self._remove_later(log.directory, leaving, kind, log.config.file_delete_delay_ms)

    def _open_postponed(self, key: Key) -> None:
        """Opens a log for which there was no space at the start, if there is some now."""
        open_it = self._hosted.postponed.pop(key, None)
        if open_it is not None:
            del self.offline[key], self._hosted.unopened[key]
            open_it()

    def _remove_unusable(self, key: Key, kind: DirectoryKind) -> None:
        """Removes a log that is offline, and its files if they lie in a directory that can be used. Those in
        a failed directory are found by the start at which it works again. Raises OSError."""
        home = self._hosted.unopened.get(key)
        if home is not None and home in self.directories:
            path = home.file(partition_directory(*key))
            leaving = self._leaving(home, key, kind)
            if self._files.exists(path):
                self._files.rename(path, leaving)
                self._remove_later(path, leaving, kind, self._default_config.file_delete_delay_ms)
        self._hosted.postponed.pop(key, None)
        self._hosted.unopened.pop(key, None)
        self.offline.pop(key, None)

    def _leaving(self, home: LogDirectory, key: Key, kind: DirectoryKind) -> str:
        return home.file(leaving_directory(*key, self._random_source.random_bytes(16), kind))

    def _remove_later(self, directory: str, leaving: str, kind: DirectoryKind, delay_ms: int) -> None:
        if kind is DirectoryKind.DELETED:
            call = partial(self._files.rmtree, leaving)
            self._background_tasks.add(
                TaskKind.REMOVE, leaving, directory, call, due_ms=self._clock.wall_ms() + delay_ms
            )
