"""Disks that are full or broken: an error for the client, nothing half done, and all well again later."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from protocol.records.reader import batch_records
from storage.errors import LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from tests.support.rigs.log_rig import (
    NOW_MS,
    LogRig,
    client_batch,
    everything,
    leader_batch,
    offsets_of,
    prepare,
)
from tests.support.rigs.transactions import TransactionWriter


def rig_with(*faults: Fault, **config: object) -> tuple[LogRig, FaultyFiles]:
    files = FaultyFiles(MemoryFiles())
    rig = LogRig(files)
    rig.configure(**config)
    rig.produce(7, 0, 0)
    files.faults = list(faults)
    return rig, files


def log_bytes(rig: LogRig) -> int:
    return rig.files.status(rig.log.active.path(".log")).size_bytes


@pytest.mark.parametrize("taken", [0, 1, 61, 68])
@pytest.mark.parametrize("joined", [False, True])
def test_a_full_disk(taken: int, joined: bool) -> None:
    full = Fault("write", number=2 if taken else 1, count=99, error=errno.ENOSPC, path_part=".log")
    short = Fault("write", path_part=".log", partial_bytes=taken)
    rig, files = rig_with(*([short, full] if taken else [full]))
    size = log_bytes(rig)
    log = rig.log
    batch = client_batch(b"does not fit", producer=(7, 0, 1))
    if joined:
        prepared = [
            prepare(log, batch, leader_epoch=0, now_ms=NOW_MS) for batch in [batch, client_batch(b"nor this")]
        ]
        with pytest.raises(LogStorageError, match="No space left"):
            log.appends.queue.write(prepared, NOW_MS)
        assert log.appends.queue.rollback() == 2
    else:
        with pytest.raises(LogStorageError, match="No space left"):
            log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert full.hits == 1
    assert log_bytes(rig) == size
    assert log.log_end_offset == 1
    files.faults = []
    assert rig.produce(7, 0, 1) == 1
    assert offsets_of(everything(log)) == [(0, 0), (1, 1)]


def test_a_marker_that_finds_the_index_of_aborted_transactions_unreadable() -> None:
    """The transaction stays open, so that the next marker ends it; else its records were never left out."""
    files = FaultyFiles(MemoryFiles())
    rig = LogRig(files)
    writer = TransactionWriter(rig.log)
    writer.write(7)
    rig.commit_all()
    unreadable = Fault("read", path_part=".txnindex")
    files.faults = [unreadable]
    with pytest.raises(LogStorageError):
        writer.end(7, commit=False)
    assert unreadable.hits == 1
    assert (rig.log.log_end_offset, rig.log.last_stable_offset) == (1, 0)
    assert writer.end(7, commit=False) == 1
    rig.commit_all()
    assert writer.aborted() == [(7, 0)]


def test_a_disk_that_does_not_even_truncate() -> None:
    failing = [
        Fault("write", path_part=".log", partial_bytes=60),
        Fault("write", number=2, path_part=".log"),
        Fault("truncate", count=2),
    ]
    rig, _ = rig_with(*failing)
    with pytest.raises(LogStorageError):
        rig.append(b"a long value that was written in part" * 3)
    with pytest.raises(LogStorageError):
        rig.append(b"the left-over cannot be cut off")
    assert rig.append(b"short") == 1
    assert [fault.hits for fault in failing] == [1, 1, 2]
    rig.reopen(is_clean=False)
    assert rig.problems == ()
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1)]


def test_a_roll_that_fails_changes_nothing() -> None:
    for fault in (
        Fault("open", path_part="1.log"),
        Fault("write", path_part=".timeindex"),
        Fault("open", path_part=".index"),
    ):
        rig, files = rig_with(fault, segment_bytes=150)
        with pytest.raises(LogStorageError):
            rig.append(b"wants a new segment" * 3)
        assert fault.hits == 1
        assert [segment.base_offset for segment in rig.log.segments] == [0]
        assert "00000000000000000001.log" not in rig.file_names()
        assert rig.append(b"wants a new segment" * 3) == 1
        assert [segment.base_offset for segment in rig.log.segments] == [0, 1]
        assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1)]
        assert files.faults == [fault]


def test_a_joined_append_over_three_segments_that_fails_in_the_last() -> None:
    fault = Fault("write", number=3, path_part=".log")
    rig, _ = rig_with(fault, segment_bytes=300)
    log = rig.log
    size = log_bytes(rig)
    prepared = [prepare(log, client_batch(bytes(150)), leader_epoch=0, now_ms=NOW_MS) for _ in range(3)]
    with pytest.raises(LogStorageError):
        log.appends.queue.write(prepared, NOW_MS)
    log.appends.queue.rollback()
    assert fault.hits == 1
    assert log_bytes(rig) == size
    assert [name for name in rig.file_names() if name.endswith(".log")] == ["00000000000000000000.log"]
    assert rig.append(b"x") == 1


def test_an_index_that_cannot_be_written_does_not_hurt_the_append() -> None:
    fault = Fault("write", count=1000, path_part="index")
    rig, files = rig_with(fault, index_interval_bytes=0)
    for _ in range(700):
        rig.append(b"")
    assert fault.hits > 0
    assert rig.log.log_end_offset == 701
    found = rig.log.read(350, max_bytes=1)
    assert found is not None
    assert found.base_offset == 350
    files.faults = []
    rig.close()
    rig.reopen(is_clean=True)
    assert (rig.log.log_end_offset, rig.scanned_segments) == (701, 0)


def test_a_disk_that_cannot_be_read() -> None:
    rig, files = rig_with()
    rig.close()
    rig.reopen(is_clean=True)
    files.faults = [Fault("pread", path_part=".log")]
    with pytest.raises(LogStorageError, match="cannot be read"):
        rig.log.read(0, max_bytes=1)
    assert rig.log.read(0, max_bytes=1) is not None


def test_a_begun_segment_that_cannot_be_removed_stops_the_appends_until_it_can() -> None:
    unlink = Fault("unlink", count=3, path_part="1.log")
    rig, _ = rig_with(Fault("write", path_part=".timeindex"), unlink)
    left = "00000000000000000001.log"
    with pytest.raises(LogStorageError):
        rig.log.roll(NOW_MS)
    assert left in rig.file_names()
    with pytest.raises(LogStorageError, match="cannot be written"):
        rig.append(b"would be hidden by a restart")
    assert unlink.hits == 3
    assert rig.append(b"nothing is in the way") == 1
    assert left not in rig.file_names()
    rig.close()
    rig.reopen(is_clean=True)
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1)]


def by_a_thread(log: PartitionLog) -> None:
    prepared = [prepare(log, client_batch(b"x"), leader_epoch=0, now_ms=NOW_MS)]
    write = log.appends.queue.write_in_thread(prepared, None)
    with pytest.raises(OSError, match="00000001") as failed:
        write.run()
    log.appends.queue.written_in_thread(failed.value)


WRITERS: dict[str, Callable[[PartitionLog], object]] = {
    "append": lambda log: log.append_as_leader(client_batch(b"x"), leader_epoch=0, now_ms=NOW_MS),
    "join": lambda log: log.append_internal(client_batch(b"x"), leader_epoch=0, now_ms=NOW_MS),
    "thread": by_a_thread,
    "copy": lambda log: log.append_as_follower(leader_batch(1, b"x"), NOW_MS),
    "roll": lambda log: log.roll(NOW_MS),
    "close": PartitionLog.close,
}


@pytest.mark.parametrize("way", WRITERS)
def test_nobody_writes_beside_a_file_that_was_left(way: str) -> None:
    unlink = Fault("unlink", count=99, path_part="1.log")
    rig, files = rig_with(Fault("open", path_part=".index"), unlink)
    log = rig.log
    with pytest.raises(LogStorageError):
        log.roll(NOW_MS)
    with pytest.raises(LogStorageError):
        WRITERS[way](log)
    log.appends.queue.rollback()
    assert log.log_end_offset == 1
    files.faults = []
    if way != "close":
        assert rig.append(b"y") == 1
        assert "00000000000000000001.log" not in rig.file_names()


def test_what_a_rollback_cannot_remove_hides_nothing_after_a_kill() -> None:
    memory = MemoryFiles()
    files = FaultyFiles(memory)
    rig = LogRig(files, LogConfig(segment_bytes=300))
    log = rig.log
    prepared = [prepare(log, client_batch(bytes(150)), leader_epoch=0, now_ms=NOW_MS) for _ in range(3)]
    log.appends.queue.write(prepared, NOW_MS)
    log.appends.queue.commit(prepared[:1])
    unlink = Fault("unlink", count=2, path_part="1.log")
    files.faults = [unlink]
    assert log.appends.queue.rollback() == 2
    assert unlink.hits == 2
    for offset in (1, 2):
        assert rig.append(b"answered") == offset
    memory.kill_process()
    rig.reopen(is_clean=False)
    assert rig.log.log_end_offset == 3
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1), (2, 2)]


def values_of(log: PartitionLog) -> list[bytes]:
    return [record.value or b"" for record in batch_records(everything(log))]


def refuse_two_and_leave_one(rig: LogRig, files: FaultyFiles) -> None:
    """The first of the two is whole in the file, and cannot be cut off."""
    log = rig.log
    batches = [client_batch(b"refused"), client_batch(b"refused too")]
    first = len(batches[0])
    files.faults = [
        Fault("write", path_part=".log", partial_bytes=first + 20),
        Fault("write", number=2, path_part=".log"),
        Fault("truncate", count=2),
    ]
    prepared = [prepare(log, each, leader_epoch=0, now_ms=NOW_MS) for each in batches]
    with pytest.raises(LogStorageError):
        log.appends.queue.write(prepared, NOW_MS)
    log.appends.queue.rollback()
    assert [fault.hits for fault in files.faults] == [1, 1, 2]
    files.faults = []


def test_a_refused_batch_that_was_synced_does_not_come_back_in_the_place_of_an_answered_one() -> None:
    memory = MemoryFiles()
    files = FaultyFiles(memory)
    rig = LogRig(files)
    rig.append(b"first")
    refuse_two_and_leave_one(rig, files)
    rig.log.flush()
    rig.run_background_tasks()
    assert rig.append(b"answer!") == 1
    memory.cut_power()
    rig.reopen(is_clean=False, recovery_point=1)
    assert values_of(rig.log) == [b"first"]


def test_a_torn_batch_costs_no_sync() -> None:
    sync = Fault("fdatasync", count=99)
    rig, _ = rig_with(
        Fault("write", path_part=".log", partial_bytes=60), Fault("write", number=2, path_part=".log"),
        Fault("truncate"), sync,
    )  # fmt: skip
    with pytest.raises(LogStorageError):
        rig.append(b"a long value that was written in part" * 3)
    assert rig.append(b"x") == 1
    assert sync.seen == 0


def test_a_discarded_segment_is_gone_after_a_power_cut_too() -> None:
    memory = MemoryFiles()
    files = FaultyFiles(memory)
    rig = LogRig(files, LogConfig(segment_bytes=300))
    rig.append(b"first")
    rig.log.flush()
    rig.run_background_tasks()
    prepared = [prepare(rig.log, client_batch(bytes(150)), leader_epoch=0, now_ms=NOW_MS) for _ in range(2)]
    rig.log.appends.queue.write(prepared, NOW_MS)
    rig.log.flush()
    rig.run_background_tasks()  # a sync that went on beside the write
    rig.log.appends.queue.rollback()
    assert [rig.append(b"answered"), rig.append(b"answered")] == [1, 2]
    rig.log.flush()
    rig.run_background_tasks()
    assert rig.log.recovery_point == 3
    memory.cut_power(keep_names=False)
    assert "00000000000000000002.log" not in rig.file_names()
    rig.reopen(is_clean=False, recovery_point=3)
    assert rig.log.log_end_offset == 3
    assert values_of(rig.log) == [b"first", b"answered", b"answered"]


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
