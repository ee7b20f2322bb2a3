"""What a start makes of a snapshot whose log a crash kept from being begun anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.metadata.log import SnapshotId
from controller.metadata.log_opening import metadata_log_config, open_metadata_log, repair_after_crash
from protocol.records.builder import SimpleRecord, build_batch
from storage.leader_epochs import LeaderEpochs
from storage.memory_files import MemoryFiles
from tests.support.rigs.controllers import one_node_config
from tests.support.rigs.hand_clock import HandClock


class Disk:
    """As much of `ReplicaDisk` as is asked; notes what is ordered."""

    def __init__(self, epochs: list[tuple[int, int]], start: int, end: int, *snapshots: SnapshotId) -> None:
        self.found = list(snapshots)
        self.begun: SnapshotId | None = None
        self.raised: int | None = None
        self.synced = False
        self.log = SimpleNamespace(
            leader_epochs=LeaderEpochs(epochs),
            log_start_offset=start,
            log_end_offset=end,
            increase_log_start=self.increase_log_start,
        )

    def snapshots(self) -> list[SnapshotId]:
        return self.found

    def begin_log_behind(self, snapshot: SnapshotId) -> None:
        self.begun = snapshot

    def increase_log_start(self, offset: int, reason: str) -> None:
        self.raised = offset

    def sync_now(self) -> None:
        self.synced = True


def mended(disk: Any) -> Any:
    repair_after_crash(disk)
    assert disk.synced
    return disk


@pytest.mark.parametrize(
    ("epochs", "end", "snapshot"),
    [
        ([(1, 0)], 20, SnapshotId(29, 1)),
        ([(1, 0)], 40, SnapshotId(29, 2)),
        ([(1, 0), (2, 4)], 5, SnapshotId(29, 1)),
        ([(1, 0), (3, 20)], 40, SnapshotId(29, 1)),
        ([], 0, SnapshotId(29, 1)),
    ],
    ids=["beyond the end", "a later epoch", "an older epoch beyond", "an older epoch within", "no log yet"],
)
def test_a_log_that_does_not_hold_it_begins_behind_it(
    epochs: list[tuple[int, int]], end: int, snapshot: SnapshotId
) -> None:
    assert mended(Disk(epochs, 0, end, snapshot)).begun == snapshot


@pytest.mark.parametrize(
    ("epochs", "start", "end", "snapshot"),
    [
        ([(1, 0)], 0, 40, SnapshotId(29, 1)),
        ([(1, 0), (2, 29)], 0, 40, SnapshotId(29, 1)),
        ([], 29, 29, SnapshotId(29, 1)),
        ([(2, 29)], 29, 40, SnapshotId(29, 1)),
    ],
    ids=["its own", "its own, then another epoch", "begun behind it", "begun behind it, and gone on"],
)
def test_a_log_that_holds_it_stays(
    epochs: list[tuple[int, int]], start: int, end: int, snapshot: SnapshotId
) -> None:
    assert mended(Disk(epochs, start, end, snapshot)).begun is None


def test_a_log_start_is_raised_to_the_oldest_snapshot() -> None:
    disk = mended(Disk([(1, 10)], 10, 60, SnapshotId(20, 1), SnapshotId(40, 1)))
    assert (disk.begun, disk.raised) == (None, 20)


def batches(first: int, count: int) -> bytes:
    """So many batches of one record each, from an offset on."""
    return b"".join(
        bytes(build_batch([SimpleRecord(value=b"x" * 100)], base_offset=offset, leader_epoch=1))
        for offset in range(first, first + count)
    )


def test_a_power_cut_after_a_full_segment_leaves_no_hole() -> None:
    """The name of the next segment survives in the file system's journal. If the end of the full one did not,
    the log would claim to hold what it has lost: it would vote, and be elected, on the strength of that."""
    files, clock = MemoryFiles(), HandClock()
    config = msgspec.structs.replace(metadata_log_config(one_node_config()), segment_bytes=1_000)
    log = open_metadata_log("/data/log", config, files, clock)
    log.flush()
    for task in log.background_tasks.take_all():
        task.call()
    log.append_as_follower(batches(0, 5), now_ms=0)
    log.append_as_follower(batches(5, 3), now_ms=0)
    assert len(log.segments) == 2
    files.cut_power()
    log = open_metadata_log("/data/log", config, files, clock)
    kept = [header for segment in log.segments for _, header in segment.headers()]
    assert [header.base_offset for header in kept] == list(range(log.log_end_offset))
