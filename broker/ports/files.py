"""The real side of the files port: thin names for system calls.

Writes go to the page cache by `pwritev` straight from the caller's views; nothing is buffered or copied
here. The lock takes both kinds that Linux knows, because they do not see each other: `flock` keeps out
other nodes of ours (also in one process), and the POSIX record lock is the one that Java's FileChannel
takes, so that Apache Kafka and we never serve one directory together.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.ports.offload import run_side_by_side
from config.limits import SYNC_THREADS
from config.ports import Buffer, File, FileLock, FileStatus, Space
from storage.file_io import sync_one_by_one, write_fully
from storage.open_files import OpenFiles

_VECTOR_LIMIT: Final = 1024
"""IOV_MAX of Linux: the buffers of one pwritev."""

_CLOSED: Final = -1
_READ_BYTES: Final = 4096
"""Most files that are read whole are checkpoints and the like, of a few lines."""
_NEXT_READ_BYTES: Final = 1 << 20
_NS_PER_MS: Final = 1_000_000


class RealFile:
    """One descriptor. The path is remembered for messages only."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int | None:
        if self._descriptor == _CLOSED:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._open_descriptor()).st_size

    def pread(self, size_bytes: int, offset: int) -> bytes:
        try:
            return os.pread(self._descriptor, size_bytes, offset)
        except OSError:
            self._open_descriptor()
            raise

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        if len(buffers) > _VECTOR_LIMIT:
            return self._write_in_parts(buffers, offset)
        try:
            return os.pwritev(self._descriptor, buffers, offset)
        except OSError:
            self._open_descriptor()
            raise

    def _write_in_parts(self, buffers: Sequence[Buffer], offset: int) -> int:
        written = 0
        for start in range(0, len(buffers), _VECTOR_LIMIT):
            part = buffers[start : start + _VECTOR_LIMIT]
            count = self.write(part, offset + written)
            written += count
            if count < sum(len(buffer) for buffer in part):
                break
        return written

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._open_descriptor(), size_bytes)

    def fdatasync(self) -> None:
        os.fdatasync(self._open_descriptor())

    def fsync(self) -> None:
        os.fsync(self._open_descriptor())

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def _open_descriptor(self) -> int:
        if self._descriptor == _CLOSED:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor


class RealLock:
    """A locked descriptor: closing it releases both locks."""

    __slots__ = ("_file",)

    def __init__(self, file: RealFile) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


class RealFiles:
    """The file system of this machine. open_files: bounds how many segment files stay open."""

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        self.open_files = open_files

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        return _open(path, write=write, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def status(self, path: str) -> FileStatus:
        found = os.stat(path)
        return FileStatus(found.st_size, found.st_mtime_ns // _NS_PER_MS, stat.S_ISDIR(found.st_mode))

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * _NS_PER_MS, modified_ms * _NS_PER_MS))

    def space(self, path: str) -> Space:
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def subdirectories(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmtree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if os.path.exists(path):
                raise

    def lock(self, path: str) -> FileLock:
        file = _open(path, create=True)
        descriptor = file.fileno()
        try:
            if descriptor is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BlockingIOError(error.errno, f"{path} is locked by another process") from error
        return RealLock(file)

    def fsync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self, paths: Sequence[str]) -> None:
        """Many side by side: the file system then writes its journal a few times and not for each."""
        if len(paths) <= SYNC_THREADS:
            sync_one_by_one(self, paths)
        else:
            groups = (paths[first::SYNC_THREADS] for first in range(SYNC_THREADS))
            run_side_by_side([partial(sync_one_by_one, self, group) for group in groups], SYNC_THREADS)

    def read_bytes(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces: list[bytes] = []
            while piece := os.read(descriptor, _READ_BYTES if not pieces else _NEXT_READ_BYTES):
                pieces.append(piece)
        finally:
            os.close(descriptor)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode()

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = _open(temporary, create=True)
        try:
            file.truncate(0)
            write_fully(file, (data,), len(data), 0, temporary)
            file.fsync()
        finally:
            file.close()
        os.rename(temporary, path)
        self.fsync_directory(os.path.dirname(path) or ".")


def _open(path: str, *, write: bool = False, create: bool = False) -> RealFile:
    flags = os.O_CLOEXEC | (os.O_RDWR if write or create else os.O_RDONLY) | (os.O_CREAT if create else 0)
    return RealFile(path, os.open(path, flags, 0o644))
