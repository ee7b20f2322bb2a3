"""What an append costs, by itself: `python tests/performance/append.py`.

Each row is the median of several rounds, in microseconds per batch: the whole append, and what of it is
the checksum and the system call, measured on the same buffer. The last column is ours. The same for reads
near the end of the log and in its middle.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Final

from broker.ports.files import RealFiles
from protocol.crc import crc32c
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import HEADER, patch_offset_and_epoch, seal
from storage.chores import Chores
from storage.log_config import LogConfig
from storage.opening import create_log
from storage.partition_log import PartitionLog

ROUNDS: Final = 7
NOW_MS: Final = 1_700_000_000_000


def microseconds(call: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count * 1e6


def batch(size_bytes: int, producer_id: int = -1) -> bytearray:
    value = bytes(max(size_bytes - 70, 1))
    epoch, sequence = (-1, -1) if producer_id < 0 else (0, 0)
    return build_batch(
        [SimpleRecord(None, value, NOW_MS)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def new_log(directory: str) -> PartitionLog:
    config = LogConfig(max_message_bytes=1 << 30)
    return create_log(RealFiles(), directory, "bench", 0, bytes(16), config, Chores(), now_ms=NOW_MS)


def measure(size_bytes: int, count: int, *, idempotent: bool) -> None:
    directory = tempfile.mkdtemp(prefix="append-")
    try:
        log = new_log(f"{directory}/bench-0")
        records = batch(size_bytes, 7 if idempotent else -1)
        view = memoryview(records)
        sequence = 0

        def plain() -> None:
            patch_offset_and_epoch(view, 0, 0, -1)
            log.append(view, leader_epoch=0, now_ms=NOW_MS, request_version=12)

        def producing() -> None:
            nonlocal sequence
            fields = list(HEADER.unpack_from(view))
            fields[0], fields[11] = 0, sequence
            HEADER.pack_into(view, 0, *fields)
            seal(view, 0, len(view))
            sequence += 1
            log.append(view, leader_epoch=0, now_ms=NOW_MS, request_version=12)

        def preparing() -> None:
            fields = list(HEADER.unpack_from(view))
            fields[0], fields[11] = 0, 0
            HEADER.pack_into(view, 0, *fields)
            seal(view, 0, len(view))

        descriptor = os.open(f"{directory}/raw", os.O_RDWR | os.O_CREAT)
        position = 0

        def raw() -> None:
            nonlocal position
            position += os.pwritev(descriptor, (view,), position)

        rows = []
        for _ in range(ROUNDS):
            whole = microseconds(producing if idempotent else plain, count)
            besides = microseconds(
                preparing if idempotent else lambda: patch_offset_and_epoch(view, 0, 0, -1), count
            )
            checksum = microseconds(lambda: crc32c(view[21:]), count)
            os.ftruncate(descriptor, 0)
            position = 0
            system = microseconds(raw, count)
            rows.append((whole - besides, checksum, system, whole - besides - checksum - system))
        numbers = [statistics.median(column) for column in zip(*rows, strict=True)]
        kind = "idempotent" if idempotent else "plain"
        print(f"{kind:10} {size_bytes:8} " + " ".join(f"{number:9.2f}" for number in numbers))
        os.close(descriptor)
        if not idempotent and size_bytes <= 16384:
            measure_reads(log, size_bytes)
        log.close()
    finally:
        shutil.rmtree(directory)


def measure_reads(log: PartitionLog, size_bytes: int) -> None:
    end, middle = log.log_end_offset - 1, log.active.base_offset + 1000
    first = microseconds(lambda: log.read(end, max_bytes=1 << 20), 20_000)
    same = microseconds(lambda: log.read(middle, max_bytes=1 << 20), 20_000)
    offsets = iter(range(log.active.base_offset, end, max((end - log.active.base_offset) // 5_000, 1)))
    count = min(5_000, end - log.active.base_offset)
    walk = microseconds(lambda: log.read(next(offsets), max_bytes=1 << 20), count - 1)
    print(f"{'read':10} {size_bytes:8} tail {first:.2f}, one in the middle {same:.2f}, all {walk:.2f}")


def main() -> None:
    print(f"{'':10} {'bytes':>8} {'append':>9} {'checksum':>9} {'write':>9} {'ours':>9}")
    for size_bytes, count in ((1024, 20_000), (16_384, 5_000), (65_536, 2_000)):
        for idempotent in (False, True):
            measure(size_bytes, count, idempotent=idempotent)


if __name__ == "__main__":
    main()
