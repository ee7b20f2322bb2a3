"""Disks that are full or broken: an error for the client, nothing half done, and all well again later."""

from __future__ import annotations

import errno

import pytest

from storage.errors import LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.log_rig import NOW_MS, LogRig, client_batch, everything, offsets_of


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
            log.prepare(batch, leader_epoch=0, now_ms=NOW_MS) for batch in [batch, client_batch(b"nor this")]
        ]
        with pytest.raises(LogStorageError, match="No space left"):
            log.write(prepared, NOW_MS)
        assert log.rollback() == 2
    else:
        with pytest.raises(LogStorageError, match="No space left"):
            log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert full.hits == 1
    assert log_bytes(rig) == size
    assert log.log_end_offset == 1
    files.faults = []
    assert rig.produce(7, 0, 1) == 1
    assert offsets_of(everything(log)) == [(0, 0), (1, 1)]


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
    prepared = [log.prepare(client_batch(bytes(150)), leader_epoch=0, now_ms=NOW_MS) for _ in range(3)]
    with pytest.raises(LogStorageError):
        log.write(prepared, NOW_MS)
    log.rollback()
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
