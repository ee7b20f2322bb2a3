"""A log that is compacted on the spot, and what a reader makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable

from protocol.records.builder import BatchBuilder
from protocol.records.header import headers
from protocol.records.reader import records
from storage.cleaner.cleaner import Cleaner, CleanerSettings
from storage.errors import LogStorageError
from storage.faulty_files import FaultyFiles
from storage.jobs import DirectWorkers, Job, JobFailed, P, R
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from tests.support.rigs.log_rig import NOW_MS, LogRig, done, everything

KEY = ("orders", 0)


class HeldWorkers(DirectWorkers):
    """Does the job at once, but hands in the result when the test says so."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.waiting: list[Callable[[], None]] = []

    def submit(
        self,
        job: Job[P, R],
        plan: P,
        done: Callable[[R | JobFailed], None],
        *,
        bytes_per_second: float = 0,
    ) -> None:
        result = self._run(job, plan)
        self.waiting.append(lambda: done(result))


class CompactionRig(LogRig):
    """One compacted log with small segments. `clean` runs a pass if one is due; says whether."""

    def __init__(self, *, held: bool = False, **config: object) -> None:
        settings: dict[str, object] = {
            "compact": True, "delete": False, "segment_bytes": 1000, "min_cleanable_dirty_ratio": 0.0,
            "index_interval_bytes": 200, **config,
        }  # fmt: skip
        self.memory = MemoryFiles(lambda: self.now_ms)
        self.faulty = FaultyFiles(self.memory)
        super().__init__(self.faulty, LogConfig(**settings))  # type: ignore[arg-type]
        self.logs: dict[tuple[str, int], PartitionLog] = {KEY: self.log}
        self.cleaned: list[tuple[str, int]] = []
        self.broken: list[LogStorageError] = []
        self.workers = (HeldWorkers if held else DirectWorkers)(self.files)
        self.cleaner = Cleaner(
            self.workers,
            self,
            self.logs,
            self.cleaned.append,
            lambda key, error: self.broken.append(error),
        )
        self.cleaner.settings = CleanerSettings(dedupe_buffer_bytes=1 << 16)

    # The clock port, moved by `now_ms`

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms - NOW_MS

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def put(self, *pairs: tuple[str, str | None], timestamp: int | None = None, codec: int = 0) -> int:
        """One batch of records; None is a tombstone."""
        builder = BatchBuilder(codec=codec)
        for key, value in pairs:
            builder.append(key.encode(), None if value is None else value.encode(), timestamp or self.now_ms)
        batch = memoryview(builder.build())
        return done(self.log.append_as_leader(batch, leader_epoch=0, now_ms=self.now_ms)).base_offset

    def clean(self) -> bool:
        self.commit_all()
        self.run_background_tasks()  # what is full is synced, and only that is cleaned
        before = self.cleaner.statistics.passes
        self.cleaner.look()
        return self.cleaner.statistics.passes > before

    def roll_and_clean(self) -> bool:
        self.log.roll(self.now_ms)
        return self.clean()

    def start_again(self, *, is_clean: bool = True) -> PartitionLog:
        self.reopen(is_clean=is_clean)
        self.logs[KEY] = self.log
        return self.log


def table(log: PartitionLog) -> dict[str, str | None]:
    """Key to last value, tombstones included, as a reader from the log start builds it."""
    return {key: value for _, key, value in contents(log)}


def state(log: PartitionLog) -> dict[str, str]:
    """What a reader holds in the end: keys that a tombstone removed are gone."""
    return {key: value for key, value in table(log).items() if value is not None}


def contents(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record, control records left out."""
    found = []
    data = everything(log)
    for position, header in headers(data):
        if header.is_control:
            continue
        for record in records(data, position):
            key = "" if record.key is None else record.key.decode()
            found.append((record.offset, key, None if record.value is None else record.value.decode()))
    return found


def random_pairs(rng: random.Random, count: int, keys: int) -> list[tuple[str, str | None]]:
    return [
        (f"k{rng.randrange(keys)}", None if rng.random() < 0.2 else f"v{rng.randrange(10_000)}")
        for _ in range(count)
    ]
