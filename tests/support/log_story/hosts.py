"""What a log lives in: a bare directory with somebody who does its background tasks, or a whole log
manager."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from storage import log_loading
from storage.background_tasks import BackgroundTask, BackgroundTasks
from storage.cleaner.cleaner import Cleaner, CleanerSettings
from storage.errors import LogStorageError
from storage.housekeeping import LogManagerSettings
from storage.jobs import DirectWorkers
from storage.log_config import LogConfig
from storage.log_loading import RecoverySettings
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.opening import create_log, give_topic_id, open_log
from storage.partition_log import PartitionLog
from storage.truncation_markers import (
    TruncationMarker,
    read_truncation_marker,
)
from tests.support.log_story.dying_files import DyingFiles
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce

Key = tuple[str, int]
MAP_BYTES = 1 << 16


class BareHost:
    """One log, opened and closed as the log manager would."""

    def __init__(self, memory: MemoryFiles, files: DyingFiles, clock: ManualClock) -> None:
        self.memory, self.files, self.clock = memory, files, clock
        self.background_tasks = BackgroundTasks()
        self.logs: dict[Key, PartitionLog] = {}
        self.offline: dict[Key, str] = {}
        self.saved: dict[Key, tuple[int, int]] = {}
        """Recovery point and log start, as the last checkpoint said."""
        self.config = LogConfig()
        self.ids: dict[Key, bytes] = {}
        self.scanned = 0
        self.problems: list[str] = []
        self._make_cleaner()

    directories: tuple[str, ...] = ()

    def _make_cleaner(self) -> None:
        self.cleaner = Cleaner(
            DirectWorkers(self.files), self.clock, self.logs, lambda key: None, self._broken
        )
        self.cleaner.settings = CleanerSettings(dedupe_buffer_bytes=MAP_BYTES, enabled=False)

    def _broken(self, key: Key, error: LogStorageError) -> None:
        self.offline[key] = str(error)
        self.logs.pop(key).abandon()

    def directory(self, key: Key) -> str:
        return f"/data/{key[0]}-{key[1]}"

    def create(self, key: Key, topic_id: bytes, config: LogConfig) -> PartitionLog:
        self.memory.makedirs("/data")
        self.memory.fsync_directory("/")
        log = create_log(
            self.files,
            self.directory(key),
            *key,
            topic_id,
            config,
            self.background_tasks,
            now_ms=self.clock.now_ms,
        )
        self._join(key, log, None)
        return log

    def _join(self, key: Key, log: PartitionLog, mark: TruncationMarker | None) -> None:
        log.durability.set_max_checkpointed_offset(lambda: max(self.saved.get(key, (0, 0))))
        log.durability.check_truncation_marker(mark, log.log_start_offset)
        self.logs[key] = log

    def begin(self, *, is_clean: bool, config: dict[Key, LogConfig], ids: dict[Key, bytes]) -> None:
        """The next process. Raises OSError, LogStorageError."""
        self.background_tasks = BackgroundTasks()
        self.logs.clear()
        self.offline.clear()
        self._make_cleaner()
        self.scanned, self.problems = 0, []
        for key in config:
            if not self.memory.exists(self.directory(key)):
                continue
            point, start = self.saved.get(key, (0, 0))
            mark = None if is_clean else read_truncation_marker(self.files, self.directory(key))
            if mark is not None:
                point, start = min(point, mark.end_offset), min(start, mark.start_offset)
            log, found = open_log(
                self.files, self.directory(key), *key, ids[key], config[key], self.background_tasks,
                is_clean=is_clean, now_ms=self.clock.now_ms,
                recovery_point=point, log_start_offset=start,
            )  # fmt: skip
            self._join(key, log, mark)
            self.scanned += found.scanned_segments
            self.problems += found.problems

    def end(self) -> None:
        """In order. Raises LogStorageError, OSError: then it was not."""
        for key, log in self.logs.items():
            log.close()
            log.flush()
            log.durability.write_snapshot()
            log.durability.write_leader_epochs()
            if not self.run_background_tasks():
                raise OSError("a background task of the end failed")
            self._save(key, log)
            self.files.fsync_directory(log.directory)
        self.logs.clear()

    def run_background_tasks(self) -> bool:
        """Whether all went well."""
        results = [self._do(task) for task in self.background_tasks.take_due(self.clock.now_ms)]
        return all(results)

    def _do(self, task: BackgroundTask) -> bool:
        try:
            task.call()
        except FileNotFoundError:
            return True
        except OSError:
            if task.failed is not None:
                task.failed()
            return False
        if task.done is not None:
            task.done()
        return True

    def housekeeping(self) -> None:
        for log in self.logs.values():
            log.durability.write_leader_epochs()
            log.durability.flush_if_due(self.clock.now_ms)
        self.run_background_tasks()
        for key, log in self.logs.items():
            self._save(key, log)

    def _save(self, key: Key, log: PartitionLog) -> None:
        self.saved[key] = (log.durability.checkpointed_recovery_point, log.log_start_offset)
        log.durability.remove_truncation_marker()

    def retention(self) -> None:
        for log in self.logs.values():
            log.delete_old_segments(self.clock.now_ms)

    def delete(self, key: Key) -> None:
        raise NotImplementedError("a bare log stays")


class NodeHost:
    """A log manager over two directories."""

    directories = ("/a", "/b")

    def __init__(
        self, memory: MemoryFiles, files: DyingFiles, clock: ManualClock, *, by_workers: bool
    ) -> None:
        self.memory, self.files, self.clock = memory, files, clock
        self.by_workers = by_workers
        self.random_source = NoRandomSource()
        for path in self.directories:
            memory.makedirs(path)
        memory.fsync_directory("/")
        self.manager = self._manager()
        self.manager.start()

    def _manager(self) -> LogManager:
        manager = LogManager(
            self.files, self.directories, clock=self.clock, random_source=self.random_source,
            offload=RunsAtOnce(), settings=LogManagerSettings(
                retention_check_interval_ms=1 << 50, producer_expiration_check_interval_ms=1 << 50
            ),
            recovery=RecoverySettings(), tell=lambda line: None,
        )  # fmt: skip
        manager.cleaner.settings = CleanerSettings(dedupe_buffer_bytes=MAP_BYTES, enabled=False)
        return manager

    @property
    def logs(self) -> dict[Key, PartitionLog]:
        return self.manager.logs

    @property
    def offline(self) -> dict[Key, str]:
        return self.manager.offline

    @property
    def cleaner(self) -> Cleaner:
        return self.manager.cleaner

    def create(self, key: Key, topic_id: bytes, config: LogConfig) -> PartitionLog:
        return self.manager.create(*key, topic_id, config)

    def begin(self, *, is_clean: bool, config: dict[Key, LogConfig], ids: dict[Key, bytes]) -> None:
        """Raises OSError, DirectoryRefused."""
        self.manager = self._manager()
        with pytest.MonkeyPatch.context() as patch:
            if self.by_workers:
                patch.setattr(log_loading, "INLINE_RECOVERY_BYTES", 0)
            report = self.manager.start()
        self.scanned, self.problems = report.scanned_segments, report.problems
        if self.manager.failed_directories:
            raise OSError(f"a directory failed: {self.manager.failed_directories}")
        for key in list(self.logs):
            if key in config:
                log = self.manager.get(*key)
                if log is not None:
                    if log.topic_id == bytes(16):
                        give_topic_id(log, ids[key])
                    log.update_config(config[key])

    def end(self) -> None:
        self.manager.shut_down()
        for path in self.directories:
            if not self.memory.exists(f"{path}/.kafka_cleanshutdown"):
                raise OSError("the end was not in order")

    def run_background_tasks(self) -> bool:
        self.manager.housekeeping()
        return True

    def housekeeping(self) -> None:
        self.clock.now_ms += 60_000
        self.manager.housekeeping()

    def retention(self) -> None:
        self.manager.apply_retention()

    def delete(self, key: Key) -> None:
        self.manager.delete_async(*key)


def configs(rng: random.Random) -> LogConfig:
    return LogConfig(
        segment_bytes=rng.choice((400, 1000, 4000)),
        index_interval_bytes=rng.choice((0, 150, 4096)),
        file_delete_delay_ms=rng.choice((0, 60_000)),
        compact=rng.random() < 0.4,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=rng.choice((0, 3_600_000)),
        retention_ms=-1,
    )


def changed(config: LogConfig, rng: random.Random) -> tuple[LogConfig, str]:
    """One setting altered."""
    name, value = rng.choice(list(_changes(config, rng)))
    return msgspec.structs.replace(config, **{name: value}), f"{name}={value}"


def _changes(config: LogConfig, rng: random.Random) -> Iterator[tuple[str, object]]:
    yield "segment_bytes", rng.choice((400, 1000, 4000))
    yield "index_interval_bytes", rng.choice((0, 150, 4096))
    yield "file_delete_delay_ms", rng.choice((0, 60_000))
    yield "compact", not config.compact
    yield "codec", rng.choice((None, 0, 1, 2, 3, 4))
    yield "log_append_time", not config.log_append_time
    yield "flush_messages", rng.choice((1, 10, 1 << 60))
    yield "segment_ms", rng.choice((60_000, 7 * 86_400_000))
    yield "segment_index_bytes", rng.choice((48, 10 << 20))
    yield "min_compaction_lag_ms", rng.choice((0, 3_600_000))
