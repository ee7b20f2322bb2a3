"""Partition logs on any side of the files port, and batches to fill them with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from config.ports import Files
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import ReadBuffer, headers
from storage.append import AppendResult, PreparedAppend, judge_client_batch
from storage.background_tasks import BackgroundTasks
from storage.loaded_log import RecoveredLog
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.opening import create_log, open_log
from storage.partition_log import PartitionLog
from storage.recovery import OnDamage
from storage.time_lookup import FoundOffset, LookupSteps
from storage.waiting_append import WaitingAppend

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
DIRECTORY = "/data/orders-0"

T = TypeVar("T")


def client_batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    codec: int = 0,
    key: bytes | None = None,
) -> memoryview:
    """A batch as a client sends it. producer: (id, epoch, first sequence)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    records = [SimpleRecord(key, value, timestamp) for value in values]
    return memoryview(
        build_batch(
            records, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
    )


def sized_batch(size_bytes: int, *, timestamp: int = NOW_MS) -> memoryview:
    """A batch of one record that takes exactly so many bytes (80 or more)."""
    for padding in range(size_bytes - 75, 0, -1):
        batch = client_batch(bytes(padding), timestamp=timestamp)
        if len(batch) == size_bytes:
            return batch
    raise ValueError(f"no batch takes {size_bytes} bytes")


def leader_batch(base_offset: int, *values: bytes, epoch: int = 0, timestamp: int = NOW_MS) -> bytes:
    """A batch as it lies in a leader's log."""
    records = [SimpleRecord(None, value, timestamp) for value in values]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=epoch))


def done(sent: AppendResult | WaitingAppend) -> AppendResult:
    """What an append answers that has not to wait."""
    assert isinstance(sent, AppendResult), sent
    return sent


def prepare(log: PartitionLog, records: ReadBuffer, *, leader_epoch: int, now_ms: int) -> PreparedAppend:
    """Judges and numbers a client's batch and puts it at the end of the log's queue."""
    batch = judge_client_batch(records, log.rules, log.log_start_offset, now_ms=now_ms)
    return log.appends.queue.prepare(records, batch, log.rules, leader_epoch, now_ms)


def finish_lookup(steps: LookupSteps[T]) -> T:
    """All steps of a look-up at once."""
    result: Any = None
    try:
        while True:
            step = steps.send(result)
            result = step() if callable(step) else None
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome


def found_since(log: PartitionLog, timestamp: int) -> FoundOffset:
    """`PartitionLog.find_since` at once."""
    return finish_lookup(log.find_since(timestamp))


def found_largest_timestamp(log: PartitionLog) -> FoundOffset:
    """`PartitionLog.find_largest_timestamp` at once."""
    return finish_lookup(log.find_largest_timestamp())


class LogRig:
    """One log, and what a node does with it: background tasks done at once when asked, closed, opened
    again."""

    def __init__(
        self,
        files: Files | None = None,
        config: LogConfig | None = None,
        directory: str = DIRECTORY,
    ) -> None:
        self.files = files or MemoryFiles(lambda: self.now_ms)
        self.config = config or LogConfig()
        self.directory = directory
        self.background_tasks = BackgroundTasks()
        self.now_ms = NOW_MS
        self.log: PartitionLog = create_log(
            self.files, directory, "orders", 0, TOPIC_ID, self.config, self.background_tasks, now_ms=NOW_MS
        )
        self.problems: tuple[str, ...] = ()
        self.scanned_segments = 0

    def configure(self, **changes: object) -> None:
        self.config = msgspec.structs.replace(self.config, **changes)
        self.log.update_config(self.config)

    def append(self, *values: bytes, epoch: int = 0, timestamp: int = NOW_MS) -> int:
        """One plain batch; its base offset."""
        batch = client_batch(*values, timestamp=timestamp)
        return done(self.log.append_as_leader(batch, leader_epoch=epoch, now_ms=self.now_ms)).base_offset

    def produce(self, producer_id: int, epoch: int, sequence: int, count: int = 1) -> int:
        """One batch of an idempotent producer; its base offset."""
        batch = client_batch(*[b"v"] * count, producer=(producer_id, epoch, sequence))
        leader_epoch = max(self.log.leader_epochs.latest_epoch, 0)
        return done(
            self.log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=self.now_ms)
        ).base_offset

    def commit_all(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)

    def run_background_tasks(self) -> int:
        return self.background_tasks.run_due(self.now_ms)

    def close(self) -> None:
        """As the log manager closes a log in order."""
        self.log.close()
        self.log.flush()
        self.log.durability.write_snapshot()
        self.log.durability.write_leader_epochs()
        self.run_background_tasks()

    def reopen(
        self,
        *,
        is_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        on_damage: OnDamage = OnDamage.AUTO,
        recovered: RecoveredLog | None = None,
    ) -> PartitionLog:
        """What the next process finds."""
        self.background_tasks = BackgroundTasks()
        self.log, found = open_log(
            self.files, self.directory, "orders", 0, TOPIC_ID, self.config, self.background_tasks,
            is_clean=is_clean, now_ms=self.now_ms,
            recovery_point=recovery_point, log_start_offset=log_start_offset,
            cleaned_offset=cleaned_offset, on_damage=on_damage,
            recovered=recovered,
        )  # fmt: skip
        self.problems = found.problems
        self.scanned_segments = found.scanned_segments
        return self.log

    def file_names(self) -> list[str]:
        return self.files.listdir(self.directory)


def everything(log: PartitionLog) -> bytes:
    """All bytes from the log start on, as a patient consumer with a small buffer gets them."""
    content = bytearray()
    offset = log.log_start_offset
    while (piece := log.read(offset, max_bytes=300)) is not None:
        asked = offset
        for position, header in headers(data := piece.read()):
            content += data[position : position + header.size_bytes]
            offset = header.next_offset
        if offset == asked:
            raise RuntimeError(f"no whole batch at offset {offset}: {piece!r}, {len(data)} bytes")
    return bytes(content)


def offsets_of(data: bytes | Sequence[int]) -> list[tuple[int, int]]:
    """(base, last) offset of each whole batch."""
    return [(header.base_offset, header.last_offset) for _, header in headers(bytes(data))]
