"""What an append costs, by itself: `python -m tests.performance.append`.

Each row is the median of several rounds, in microseconds of processor time per batch: the whole append,
what of it is the checksum and the system call (measured on buffers of the same size in the same round),
and the rest, which is ours. Every batch is built before the clock runs and appended once. Writes are timed as
in the broker, with twenty requests to each millisecond. Below each plain row: reads of the last batch, of one
place again and again, and through the whole log.

The first line is the append alone, on files that take everything and keep nothing: the least of many rounds,
which a busy machine disturbs least. Compare with it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Final

from broker.ports.files import RealFile, RealFiles
from config.ports import Buffer, File, Files
from protocol.crc import crc32c
from protocol.records.builder import SimpleRecord, build_batch
from storage.background_tasks import BackgroundTasks
from storage.log_config import LogConfig
from storage.log_disk import LogDisk
from storage.opening import create_log
from storage.partition_log import PartitionLog

ROUNDS: Final = 9
NOW_MS: Final = 1_700_000_000_000
PER_MILLISECOND: Final = 20


def microseconds(call: Callable[[memoryview], object], batches: list[memoryview]) -> float:
    begin = time.thread_time()
    for batch in batches:
        call(batch)
    return (time.thread_time() - begin) / len(batches) * 1e6


def built(size_bytes: int, count: int, first_sequence: int | None) -> list[memoryview]:
    records = [SimpleRecord(None, bytes(size_bytes - 70), NOW_MS)]
    if first_sequence is None:
        one = build_batch(records)
        return [memoryview(bytearray(one)) for _ in range(count)]
    return [
        memoryview(
            build_batch(records, producer_id=7, producer_epoch=0, base_sequence=first_sequence + number)
        )
        for number in range(count)
    ]


class Nowhere(RealFile):
    """What is written here is gone."""

    __slots__ = ()

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        return len(memoryview(buffers[0]))


class Swallowing(RealFiles):
    """Logs on these keep nothing."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        file = super().open(path, write=write, create=create)
        if path.endswith(".log"):
            file.__class__ = Nowhere
        return file


def measure_alone(size_bytes: int = 1024, count: int = 4000, rounds: int = 40) -> None:
    directory = tempfile.mkdtemp(prefix="append-")
    try:
        least = []
        for idempotent in (False, True):
            log = new_log(Swallowing(), f"{directory}/t-{int(idempotent)}")
            append = appending(log)
            times = []
            for number in range(rounds):
                batches = built(size_bytes, count, number * count if idempotent else None)
                times.append(microseconds(append, batches))
            least.append(min(times))
            log.close()
        print(f"alone      {size_bytes:8} plain {least[0]:.2f}, idempotent {least[1]:.2f}")
    finally:
        shutil.rmtree(directory)


def new_log(files: Files, directory: str) -> PartitionLog:
    config = LogConfig(max_message_bytes=1 << 30)
    log = create_log(files, directory, "t", 0, bytes(16), config, BackgroundTasks(), now_ms=NOW_MS)
    log.use_disk(LogDisk(directory, now_ns=time.monotonic_ns))
    return log


def appending(log: PartitionLog) -> Callable[[memoryview], object]:
    """Appends as the broker does."""
    appended = 0

    def append(batch: memoryview) -> None:
        nonlocal appended
        appended += 1
        now_ms = NOW_MS + appended // PER_MILLISECOND
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms, request_version=12)

    return append


def measure(size_bytes: int, count: int, *, idempotent: bool) -> None:
    directory = tempfile.mkdtemp(prefix="append-")
    try:
        log = new_log(RealFiles(), f"{directory}/t-0")
        append = appending(log)
        raw = os.open(f"{directory}/raw", os.O_RDWR | os.O_CREAT)
        position = 0

        def write(batch: memoryview) -> None:
            nonlocal position
            position += os.pwritev(raw, (batch,), position)

        rows = []
        for number in range(ROUNDS):
            batches = built(size_bytes, count, number * count if idempotent else None)
            checksum = microseconds(lambda batch: crc32c(batch[21:]), batches)
            system = microseconds(write, batches)
            whole = microseconds(append, batches)
            rows.append((whole, checksum, system, whole - checksum - system))
        numbers = [statistics.median(column) for column in zip(*rows, strict=True)]
        kind = "idempotent" if idempotent else "plain"
        print(f"{kind:10} {size_bytes:8} " + " ".join(f"{number:9.2f}" for number in numbers))
        os.close(raw)
        if not idempotent:
            measure_reads(log, size_bytes)
        log.close()
    finally:
        shutil.rmtree(directory)


def measure_reads(log: PartitionLog, size_bytes: int) -> None:
    def per_read(offsets: range | list[int]) -> float:
        begin = time.thread_time()
        for offset in offsets:
            log.read(offset, max_bytes=1 << 20)
        return (time.thread_time() - begin) / len(offsets) * 1e6

    first, end = log.active.base_offset, log.log_end_offset
    tail = per_read([end - 1] * 20_000)
    same = per_read([(first + end) // 2] * 5_000)
    through = per_read(range(first, end, max((end - first) // 5_000, 1)))
    print(f"{'  read':10} {size_bytes:8} tail {tail:.2f}, one place {same:.2f}, all through {through:.2f}")


def main() -> None:
    measure_alone()
    print(f"{'':10} {'bytes':>8} {'append':>9} {'checksum':>9} {'write':>9} {'ours':>9}")
    for size_bytes, count in ((1024, 4000), (16_384, 1500), (65_536, 400)):
        for idempotent in (False, True):
            measure(size_bytes, count, idempotent=idempotent)


if __name__ == "__main__":
    main()
