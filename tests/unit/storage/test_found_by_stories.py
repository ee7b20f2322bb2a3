"""Faults that the stories of `tests/support/log_story` have found, each told on its own."""

from __future__ import annotations

import pytest

from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, encode_clean_shutdown
from storage.directories import LogDirectory
from storage.errors import LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.partition_metadata import encode_partition_metadata, read_partition_metadata
from tests.support.compaction import CompactionRig, contents
from tests.support.log_rig import NOW_MS, LogRig
from tests.support.transactions import TransactionWriter


def test_what_follows_a_cut_is_dirty_though_a_pass_once_went_further() -> None:
    rig = CompactionRig()
    rig.put(("a", "1"), ("b", "1"), ("c", "1"))
    rig.roll_and_clean()
    rig.log.truncate_to(0, now_ms=rig.now_ms)
    rig.put(("a", "2"))
    rig.put(("a", "3"))
    rig.put(("b", "2"))
    rig.put(("b", "3"))
    rig.roll_and_clean()
    assert contents(rig.log) == [(1, "a", "3"), (3, "b", "3")]


def test_names_that_cannot_be_changed_leave_no_gap_and_no_open_file() -> None:
    memory = MemoryFiles()
    faulty = FaultyFiles(memory)
    rig = LogRig(faulty, LogConfig(retention_bytes=0))
    for _ in range(3):
        rig.append(b"v")
        rig.log.roll(NOW_MS)
    rig.commit_all()
    going = rig.log.segments[:3]
    faulty.faults = [Fault("rename", number=1)]
    with pytest.raises(LogStorageError):
        rig.log.delete_old_segments(NOW_MS)
    assert rig.log.log_start_offset == rig.log.segments[0].base_offset == 3
    assert not any(segment.log.is_open for segment in going)
    rig.reopen(is_clean=False)
    assert [segment.base_offset for segment in rig.log.segments] == [0, 1, 2, 3]


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


def test_a_torn_new_segment_without_its_snapshot_does_not_stop_the_start() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v")
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    rig.append(b"w")
    torn = memory.open(rig.log.active.log.path, write=True)
    torn.truncate(torn.size() - 3)
    memory.kill_process()
    assert rig.reopen(is_clean=False, recovery_point=1).log_end_offset == 1


def test_an_index_of_aborted_transactions_that_a_power_cut_took_is_made_again() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    writer = TransactionWriter(rig.log)
    writer.write(7)
    writer.end(7, commit=False)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    rig.append(b"v")
    memory.unlink(rig.log.segments[0].transaction_index.path)
    memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=2)
    rig.commit_all()
    assert TransactionWriter(log).aborted() == [(7, 0)]


def test_indexes_that_a_start_believed_are_synced_with_the_next() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"v", timestamp=NOW_MS)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.roll(NOW_MS)
    memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=1)
    assert log.recovery_point == 0
    log.flush()
    rig.run_background_tasks()
    memory.cut_power()
    log = rig.reopen(is_clean=False, recovery_point=1)
    assert log.segments[0].largest_timestamp() == NOW_MS


@pytest.mark.parametrize("kept", [0, 5, 12, 30, 42])
def test_partition_metadata_that_was_cut_off_names_no_topic(kept: int) -> None:
    files = MemoryFiles()
    whole = encode_partition_metadata(bytes(range(16)))
    for content in (whole[:kept], whole[:kept] + bytes(len(whole) - kept)):
        files.write_atomically("/m", content)
        assert read_partition_metadata(files, "/m") is None


def test_the_append_time_of_a_thinned_batch_is_that_of_a_record_that_is_there() -> None:
    rig = CompactionRig(log_append_time=True)
    rig.put(("a", "1"), ("b", "1"))
    rig.put(("a", "2"))
    rig.roll_and_clean()
    assert [offset for offset, _, _ in contents(rig.log)] == [1, 2]
    found = rig.log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert found[1] == 1


def test_a_roll_leaves_no_refused_bytes_behind() -> None:
    faulty = FaultyFiles(MemoryFiles())
    rig = LogRig(faulty)
    rig.append(b"v")
    faulty.faults = [
        Fault("write", path_part=".log", partial_bytes=50),
        Fault("write", number=2, path_part=".log"),
        Fault("truncate", path_part=".log"),
    ]
    with pytest.raises(LogStorageError):
        rig.append(b"refused")
    faulty.faults = []
    rig.log.roll(NOW_MS)
    rig.append(b"w")
    rig.reopen(is_clean=False)
    assert (rig.log.log_end_offset, rig.problems) == (2, ())


def test_a_segment_that_may_not_be_cleaned_stays_though_the_log_starts_within_it() -> None:
    rig = CompactionRig()
    rig.put(("a", "1"))
    rig.put(("b", "1"))
    rig.commit_all()
    rig.log.increase_log_start(1)
    writer = TransactionWriter(rig.log)
    writer.write(7, key=b"b")
    rig.log.roll(rig.now_ms)
    assert not rig.clean()
    writer.end(7, commit=False)
    assert (1, "b", "1") in contents(rig.log)


def test_a_power_cut_does_not_bring_the_clean_mark_back() -> None:
    memory = MemoryFiles()
    memory.makedirs("/a")
    memory.fsync_directory("/")
    memory.write_atomically(f"/a/{CLEAN_SHUTDOWN_FILE}", encode_clean_shutdown(7))
    home = LogDirectory(memory, "/a")
    assert home.had_clean_shutdown
    home.forget_clean_shutdown()
    memory.cut_power(keep_names=False)
    assert not LogDirectory(memory, "/a").had_clean_shutdown


def test_a_transaction_that_was_aborted_in_the_clean_part_says_nothing_of_the_next() -> None:
    rig = CompactionRig()
    writer = TransactionWriter(rig.log)
    writer.write(7, key=b"a")
    writer.end(7, commit=False)
    rig.put(("b", "1"))
    rig.roll_and_clean()
    writer.write(7, key=b"c")
    writer.write(7, key=b"c")
    writer.end(7, commit=True)
    rig.roll_and_clean()
    assert [offset for offset, key, _ in contents(rig.log) if key == "c"] == [4]
