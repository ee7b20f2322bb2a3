"""What the file system in memory loses, and when: the tests of crashes stand on it."""

from __future__ import annotations

import pytest

from storage.memory_files import MemoryFiles, Torn, keep_all
from storage.slices import SharedFile


def two_writes(files: MemoryFiles) -> None:
    files.makedirs("/d")
    file = files.open("/d/f", create=True)
    file.write([b"synced"], 0)
    file.fdatasync()
    files.fsync_directory("/d")
    file.write([b" and not"], 6)


def test_a_killed_process_loses_nothing_but_its_handles() -> None:
    files = MemoryFiles()
    two_writes(files)
    handle = files.open("/d/f", write=True)
    files.lock("/d/.lock")
    files.kill_process()
    with pytest.raises(ValueError, match="closed"):
        handle.pread(1, 0)
    assert files.read_bytes("/d/f") == b"synced and not"
    files.lock("/d/.lock")


def test_a_power_cut_takes_what_was_not_synced() -> None:
    for plan, left in (
        (None, b"synced"),
        (keep_all, b"synced and not"),
        (lambda _path, _unsynced: Torn(4), b"synced and"),
        (lambda _path, unsynced: Torn(1, unsynced - 1), b"synced \0\0\0\0\0\0\0"),
    ):
        files = MemoryFiles()
        two_writes(files)
        assert files.unsynced_bytes("/d/f") == 8
        files.cut_power(*[plan] if plan else [])
        assert files.read_bytes("/d/f") == left
        files.cut_power()
        assert files.read_bytes("/d/f") == left


def test_names_need_a_sync_of_their_directory() -> None:
    files = MemoryFiles()
    two_writes(files)
    files.open("/d/new", create=True).fdatasync()
    files.rename("/d/f", "/d/renamed")
    files.cut_power(keep_names=False)
    assert files.listdir("/d") == ["f"]
    files.rename("/d/f", "/d/renamed")
    files.fsync_directory("/d")
    files.cut_power(keep_names=False)
    assert files.listdir("/d") == ["renamed"]
    files.unlink("/d/renamed")
    files.cut_power(keep_names=True)
    assert files.listdir("/d") == []


def test_a_cut_that_was_not_synced_is_undone() -> None:
    files = MemoryFiles()
    two_writes(files)
    file = files.open("/d/f", write=True)
    file.truncate(2)
    file.write([b"other"], 2)
    files.cut_power(keep_all)
    assert files.read_bytes("/d/f") == b"synced"


def test_a_shared_file_closes_at_the_last_release() -> None:
    files = MemoryFiles()
    files.open("/f", create=True).write([b"content"], 0)
    shared = SharedFile(files, "/f", write=False)
    assert not shared.is_open
    assert shared.file().pread(3, 0) == b"con"
    assert shared.close_if_unused()
    shared.retain()
    shared.file()
    assert not shared.close_if_unused()
    shared.retain()
    shared.close_when_unused()
    shared.release()
    assert shared.file().pread(3, 0) == b"con"
    shared.release()
    assert not shared.is_open
    with pytest.raises(ValueError, match="closed"):
        shared.file()


def test_a_sync_takes_what_was_overwritten_and_cut_before_its_end() -> None:
    files = MemoryFiles()
    file = files.open("/f", create=True)
    files.fsync_directory("/")
    file.write([b"0123456789"], 0)
    file.fdatasync()
    file.write([b"AB"], 3)
    file.fdatasync()
    assert files.durable_bytes("/f") == b"012AB56789"
    file.truncate(4)
    file.write([b"xyz"], 6)
    file.fdatasync()
    assert files.durable_bytes("/f") == b"012A\0\0xyz"
    file.write([b"lost"], 9)
    files.cut_power()
    assert files.read_bytes("/f") == b"012A\0\0xyz"
    files.open("/f", write=True).write([b"!"], 0)
    files.cut_power()
    assert files.read_bytes("/f") == b"012A\0\0xyz"
