"""What every side of the files port does alike: the real one, the one in memory, the faulty one at rest."""

from __future__ import annotations

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.ports.files import RealFiles
from config.limits import SYNC_THREADS
from config.ports import Files
from storage.faulty_files import FaultyFiles
from storage.memory_files import MemoryFiles


@pytest.fixture(params=["real", "memory", "faulty at rest"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "real":
        return RealFiles(), str(tmp_path)
    files = MemoryFiles()
    files.makedirs("/data")
    return (files, "/data") if request.param == "memory" else (FaultyFiles(files), "/data")


Side = tuple[Files, str]


def test_a_file_is_written_at_any_place_and_read_back(side: Side) -> None:
    files, root = side
    file = files.open(f"{root}/a", create=True)
    assert file.write([b"hello ", memoryview(b"world"), bytearray(b"!")], 0) == 12
    assert file.write([b"W"], 6) == 1
    assert file.size() == 12
    assert file.pread(100, 0) == b"hello World!"
    assert file.pread(5, 6) == b"World"
    assert file.pread(5, 12) == b""
    assert file.pread(5, 99) == b""
    assert files.read_bytes(f"{root}/a") == b"hello World!"
    assert files.read_text(f"{root}/a") == "hello World!"


def test_more_buffers_than_one_system_call_takes(side: Side) -> None:
    files, root = side
    file = files.open(f"{root}/many", create=True)
    pieces = [number.to_bytes(2) for number in range(3000)]
    assert file.write(pieces, 3) == 6000
    assert file.pread(7000, 0) == bytes(3) + b"".join(pieces)


def test_a_write_behind_the_end_leaves_zeros(side: Side) -> None:
    files, root = side
    file = files.open(f"{root}/hole", create=True)
    file.write([b"x"], 4)
    assert file.pread(10, 0) == b"\0\0\0\0x"


def test_truncate_cuts_and_grows(side: Side) -> None:
    files, root = side
    file = files.open(f"{root}/a", create=True)
    file.write([b"abcdef"], 0)
    file.truncate(2)
    assert file.pread(10, 0) == b"ab"
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"
    file.fdatasync()
    file.fsync()
    files.fsync_directory(root)


def test_opening_does_not_empty_a_file_and_needs_create_for_a_new_one(side: Side) -> None:
    files, root = side
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/none", write=True)
    files.open(f"{root}/a", create=True).write([b"kept"], 0)
    again = files.open(f"{root}/a", create=True)
    assert again.size() == 4
    read_only = files.open(f"{root}/a")
    with pytest.raises(OSError):
        read_only.write([b"no"], 0)
    assert read_only.pread(10, 0) == b"kept"


def test_a_closed_file_says_so(side: Side) -> None:
    files, root = side
    file = files.open(f"{root}/a", create=True)
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [
        file.fileno,
        file.size,
        file.fdatasync,
        lambda: file.pread(1, 0),
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()


def test_an_open_file_outlives_its_name(side: Side) -> None:
    files, root = side
    file = files.open(f"{root}/a", create=True)
    file.write([b"still here"], 0)
    files.rename(f"{root}/a", f"{root}/b")
    assert file.pread(5, 0) == b"still"
    files.unlink(f"{root}/b")
    assert file.pread(20, 0) == b"still here"
    assert not files.exists(f"{root}/b")
    assert file.path == f"{root}/a"


def test_directories(side: Side) -> None:
    files, root = side
    files.makedirs(f"{root}/x/y/z")
    files.makedirs(f"{root}/x/y/z")
    files.open(f"{root}/x/y/b", create=True)
    files.open(f"{root}/x/y/a", create=True)
    assert files.listdir(f"{root}/x/y") == ["a", "b", "z"]
    assert files.subdirectories(f"{root}/x/y") == ["z"]
    assert files.subdirectories(root) == ["x"]
    assert files.status(f"{root}/x").is_directory
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/nowhere/a", create=True)
    with pytest.raises(FileNotFoundError):
        files.listdir(f"{root}/nowhere")
    files.rename(f"{root}/x", f"{root}/moved")
    assert files.listdir(f"{root}/moved/y") == ["a", "b", "z"]
    assert not files.exists(f"{root}/x")
    files.rmtree(f"{root}/moved")
    files.rmtree(f"{root}/moved")
    assert files.listdir(root) == []


def test_a_rename_replaces_a_file(side: Side) -> None:
    files, root = side
    files.open(f"{root}/new", create=True).write([b"new"], 0)
    files.open(f"{root}/old", create=True).write([b"old content"], 0)
    files.rename(f"{root}/new", f"{root}/old")
    assert files.read_bytes(f"{root}/old") == b"new"
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/new", f"{root}/old")
    with pytest.raises(FileNotFoundError):
        files.unlink(f"{root}/new")


def test_status(side: Side) -> None:
    files, root = side
    files.open(f"{root}/a", create=True).write([b"12345"], 0)
    status = files.status(f"{root}/a")
    assert status.size_bytes == 5
    assert not status.is_directory
    assert files.exists(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        files.status(f"{root}/none")


def test_the_time_of_the_last_change_can_be_set(side: Side) -> None:
    files, root = side
    files.open(f"{root}/a", create=True).write([b"12345"], 0)
    files.set_modified(f"{root}/a", 1_700_000_000_123)
    assert files.status(f"{root}/a").modified_ms == 1_700_000_000_123
    files.rename(f"{root}/a", f"{root}/b")
    assert files.status(f"{root}/b") == (5, 1_700_000_000_123, False)
    with pytest.raises(FileNotFoundError):
        files.set_modified(f"{root}/a", 0)


def test_an_atomic_write_replaces_all_and_leaves_no_temporary_file(side: Side) -> None:
    files, root = side
    files.write_atomically(f"{root}/checkpoint", b"a long first content")
    files.write_atomically(f"{root}/checkpoint", b"second")
    assert files.read_bytes(f"{root}/checkpoint") == b"second"
    files.open(f"{root}/checkpoint.tmp", create=True).write([b"left over, and longer than what follows"], 0)
    files.write_atomically(f"{root}/checkpoint", b"third")
    assert files.read_bytes(f"{root}/checkpoint") == b"third"
    assert files.listdir(root) == ["checkpoint"]


def test_a_long_file_is_read_whole(side: Side) -> None:
    files, root = side
    content = bytes(range(256)) * 8200  # beyond the pieces in which a real file is read
    files.write_atomically(f"{root}/long", content)
    assert files.read_bytes(f"{root}/long") == content
    files.write_atomically(f"{root}/page", content[:4096])
    assert files.read_bytes(f"{root}/page") == content[:4096]
    files.write_atomically(f"{root}/empty", b"")
    assert files.read_bytes(f"{root}/empty") == b""


def test_text_is_utf_8(side: Side) -> None:
    files, root = side
    files.write_atomically(f"{root}/a", "größer\r\n".encode())
    assert files.read_text(f"{root}/a") == "größer\r\n"
    files.write_atomically(f"{root}/a", b"\xff")
    with pytest.raises(UnicodeDecodeError):
        files.read_text(f"{root}/a")


def test_a_lock_keeps_others_out_until_it_is_released(side: Side) -> None:
    files, root = side
    lock = files.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{root}/.lock").release()
    assert files.exists(f"{root}/.lock")


def _java_style_lock(path: str) -> bool:
    import fcntl

    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def test_the_real_lock_is_seen_by_a_process_that_locks_as_java_does(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with multiprocessing.get_context("spawn").Pool(1) as other:
        lock = RealFiles().lock(path)
        assert other.apply(_java_style_lock, (path,)) is False
        lock.release()
        assert other.apply(_java_style_lock, (path,)) is True


def test_the_room_on_a_volume(side: Side) -> None:
    files, root = side
    space = files.space(root)
    assert 0 < space.usable_bytes <= space.total_bytes
    with pytest.raises(FileNotFoundError):
        files.space(f"{root}/none")


@pytest.mark.parametrize("count", [0, 1, SYNC_THREADS, 5 * SYNC_THREADS + 3])
def test_all_of_many_files_are_synced_and_those_that_have_gone_left_out(side: Side, count: int) -> None:
    files, root = side
    paths = [f"{root}/{number}" for number in range(count)]
    for path in paths:
        files.open(path, create=True).close()
    files.sync_all([*paths, f"{root}/gone"])


@pytest.mark.parametrize("count", [3, 5 * SYNC_THREADS + 3])
def test_each_of_many_files_is_really_synced_and_an_error_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    synced: list[str] = []
    broken = str(tmp_path / "1")

    def fdatasync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append(path)
        if path == broken:
            raise OSError(errno.EIO, "no disk", path)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    files = RealFiles()
    paths = [str(tmp_path / str(number)) for number in range(count)]
    for path in paths:
        files.open(path, create=True).close()
    files.sync_all(paths[2:])
    assert sorted(synced) == sorted(paths[2:])
    with pytest.raises(OSError, match="no disk"):
        files.sync_all(paths)
