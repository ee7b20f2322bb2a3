"""How long a coordinator reads a partition of `__consumer_offsets`, and how long the loop waits for it.

    python -m tests.performance.group_loading [RECORDS]

Two partitions of a million records each, as segments on disk: one in which every record is the newest of its
key (the worst case: a million offsets in memory), one in which 5,000 keys are committed again and again (the
common one). The reader is the log itself; the loop is one that takes turns, so that every slice is timed.

On 2 shared cores with Python 3.11.7, while other work kept them busy (load average 5 to 8):

    | partition | records | MB | load | longest slice | slices |
    |---|---|---|---|---|---|
    | 5,000 keys | 1,000,000 | 95 | 2.7 s | 22 ms | 503 |
    | all keys differ | 1,000,000 | 97 | 3.7 s | 26 ms | 508 |
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from broker.coordinator.consumer.consumer_group_requests import ConsumerPorts
from broker.coordinator.consumer.operation import ConsumerGroupSettings
from broker.coordinator.group_coordinator import LOAD_SLICE_RECORDS
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets.offset_records import OffsetAndMetadata, offset_record
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.partition_load import PartitionLoad
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.records.header import patch_offset_and_epoch
from tests.support.rigs.group_world import HandCluster

TOPIC: Final = "__consumer_offsets"
RECORDS: Final = 1_000_000
RECORDS_OF_A_COMMIT: Final = 10
COMMON_KEYS: Final = 5_000
TOPIC_ID: Final = b"a topic's own id"


class FileReader:
    """`PartitionReader` over one file of batches, with an index of where each offset lies."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._next: dict[int, int] = {0: 0}

    def read_batches(self, topic: str, index: int, from_offset: int, max_bytes: int) -> bytes:
        position = self._next[from_offset]
        self._file.seek(position)
        data = self._file.read(max_bytes)
        at = 0
        while at + 61 <= len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            if at + size > len(data):
                break
            last = int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + 23 : at + 27], "big")
            at += size
            self._next = {last + 1: position + at}
        return data[:at]


def commits(records: int, keys: int) -> Iterator[CoordinatorRecord]:
    """Offsets of groups of 100 partitions each; after `keys` of them the same again."""
    for number in range(records):
        place = number % keys
        committed = OffsetAndMetadata(number, 3, "", 1_700_000_000_000 + number, topic_id=TOPIC_ID)
        yield offset_record(f"consumers-{place // 100}", "payments.incoming", place % 100, committed)


def write(path: Path, records: int, keys: int) -> None:
    batch: list[CoordinatorRecord] = []
    offset = 0
    with path.open("wb") as file:
        for record in commits(records, keys):
            batch.append(record)
            if len(batch) == RECORDS_OF_A_COMMIT:
                data = bytearray(coordinator_batch(batch, timestamp_ms=1_700_000_000_000))
                patch_offset_and_epoch(data, 0, offset, 0)
                file.write(data)
                offset += len(batch)
                batch.clear()


def load(path: Path, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float, int, GroupShard]:
    """Seconds in all, the longest slice in seconds, slices, and the machine."""
    ports = ConsumerPorts(ConsumerGroupSettings(), HandCluster(), lambda _: {})
    shard = GroupShard(0, GroupSettings(), lambda: bytes(16), ports)
    job = PartitionLoad(TOPIC, 0, FileReader(path), shard, GroupSettings().offsets_load_buffer_bytes)
    slices: list[float] = []
    done = False
    while not done:
        begun = clock()
        done = job.step(LOAD_SLICE_RECORDS)
        slices.append(clock() - begun)
    begun = clock()
    shard.loaded(CurrentTime(1_700_000_000_000, 0))
    slices.append(clock() - begun)
    return sum(slices), max(slices), len(slices), shard


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", type=int, nargs="?", default=RECORDS)
    records = parser.parse_args().records
    print("| partition | records | MB | load | longest slice | slices | memory |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in (("5,000 keys", COMMON_KEYS), ("all keys differ", records)):
            path = Path(folder) / "segment"
            write(path, records, keys)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds, longest, slices, shard = load(path)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert (
                sum(
                    len(shard.offset_metadata.committed.partitions(group))
                    for group in shard.offset_metadata.committed.groups()
                )
                == keys
            )
            size = path.stat().st_size / 1e6
            print(
                f"| {name} | {records:,} | {size:.0f} | {seconds:.2f} s | {longest * 1000:.0f} ms"
                f" | {slices} | {memory / 1024:.0f} MiB |"
            )


if __name__ == "__main__":
    main()
