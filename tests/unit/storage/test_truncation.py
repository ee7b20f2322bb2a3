"""Truncation: what it leaves in the log and on the disk, also when it is broken off or the power fails."""

from __future__ import annotations

import pytest

from storage.errors import DamagedLog, LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.file_names import segment_file
from storage.memory_files import MemoryFiles, keep_all
from storage.recovery import OnDamage
from tests.support.rigs.log_rig import DIRECTORY, NOW_MS, LogRig


def snapshots(rig: LogRig) -> list[str]:
    return [name for name in rig.file_names() if name.endswith(".snapshot")]


def test_a_cut_that_is_broken_off_leaves_no_gap() -> None:
    faulty = FaultyFiles(MemoryFiles())
    rig = LogRig(faulty)
    for _ in range(4):
        rig.append(b"v", b"v")
        rig.log.roll(NOW_MS)
    faulty.faults = [Fault("rename", number=5, count=100)]
    with pytest.raises(LogStorageError):
        rig.log.truncate_to(1, now_ms=NOW_MS)
    faulty.faults = []
    rig.reopen(is_clean=False)
    found = [header.base_offset for segment in rig.log.segments for _, header in segment.headers()]
    assert found == list(range(0, rig.log.log_end_offset, 2))


def test_a_cut_leaves_the_snapshot_alone_that_waits_to_be_written_and_is_right() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.log.roll(NOW_MS)
    rig.produce(7, 0, 1)
    rig.log.roll(NOW_MS)
    rig.produce(7, 0, 2)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.run_background_tasks()
    assert rig.log.durability.snapshot_offsets == [1]
    assert snapshots(rig) == ["00000000000000000001.snapshot"]


def test_a_snapshot_that_a_thread_writes_during_the_cut_is_removed_again() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.produce(7, 0, 1)
    rig.log.roll(NOW_MS)
    under_way = rig.background_tasks.take_due(rig.now_ms)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    for task in under_way:
        task.call()
    rig.run_background_tasks()
    assert (snapshots(rig), rig.log.durability.snapshot_offsets) == ([], [])


def test_a_sync_that_ends_half_way_leaves_nothing_of_before_the_cut_behind_what_came_since() -> None:
    memory = MemoryFiles()
    faulty = FaultyFiles(memory)
    rig = LogRig(faulty)
    for _ in range(3):
        rig.append(b"v")
        rig.log.roll(NOW_MS)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.append(b"w")
    faulty.faults = [Fault("fdatasync")]
    with pytest.raises(OSError, match="Input/output"):
        rig.run_background_tasks()
    memory.cut_power(keep_all, keep_names=False)
    assert [name for name in rig.file_names() if name.endswith(".log")] == [
        "00000000000000000000.log", "00000000000000000001.log",
    ]  # fmt: skip


def test_a_segment_that_a_cut_which_came_to_nothing_has_left_hides_no_batch() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"1", b"2", b"3", b"4")
    rig.log.active.log.file().fdatasync()
    rig.log.truncate_to(0, now_ms=NOW_MS)
    rig.append(b"1", b"2")
    rig.log.roll(NOW_MS)
    memory.cut_power()
    log = rig.reopen(is_clean=False)
    assert [segment.base_offset for segment in log.segments] == [0]
    assert "begins below the end of the segment before it" in rig.problems[-1]
    found = log.read(3, max_bytes=1000)
    assert (log.log_end_offset, found is not None) == (4, True)
    assert rig.append(b"5") == 4
    assert rig.reopen(is_clean=False).log_end_offset == 5


def test_a_segment_that_a_cut_which_came_to_nothing_has_left_takes_no_epochs() -> None:
    """A follower that asks where an epoch ends would be told of the wrong place."""
    rig = LogRig()
    rig.append(b"1", b"2")
    rig.append(b"3", b"4", epoch=1)
    rig.close()
    rig.files.open(f"{DIRECTORY}/{segment_file(2, '.log')}", write=True, create=True).close()
    log = rig.reopen(is_clean=False)
    assert "begins below the end of the segment before it" in rig.problems[-1]
    assert log.leader_epochs.entries() == [(0, 0), (1, 2)]
    assert log.end_offset_for_epoch(0) == (0, 2)


def test_a_sealed_segment_whose_cut_came_to_nothing_does_not_overlap_the_next() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"1")
    rig.append(b"2", b"3")
    rig.close()
    memory.fsync_directory(DIRECTORY)
    rig.reopen(is_clean=True)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.log.roll(NOW_MS)
    rig.append(b"two", epoch=1)
    rig.append(b"three", epoch=1)
    memory.cut_power(keep_all)
    for _ in range(2):
        with pytest.raises(DamagedLog, match="where offset 3 should be"):
            rig.reopen(is_clean=False, recovery_point=1, on_damage=OnDamage.REFUSE)
        memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=1, on_damage=OnDamage.TRUNCATE)
    assert (log.log_end_offset, len(log.segments)) == (3, 1)
