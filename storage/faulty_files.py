"""Files that fail where a test wants it: the n-th write finds the disk full, the third fsync an I/O error.

A wrapper around another side of the port. A fault names a call, optionally a part of the path, and which
of the matching calls it hits; a failing write may first take some bytes, as a disk does that fills up: the
call returns a short count and the next one raises.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

from config.ports import Buffer, File, FileLock, Files, FileStatus, Space
from storage.file_io import sync_one_by_one


@dataclass
class Fault:
    """One planned failure. `hits` counts how often it has occurred, so that a test can check that it has."""

    call: str
    """The method of the port: `write`, `fdatasync`, `open`, `rename`, …"""
    number: int = 1
    """The matching call that fails first, from 1."""
    count: int = 1
    """The number of calls that fail, from that one on."""
    path_part: str = ""
    """Only paths that contain this text fail."""
    error: int = errno.EIO
    partial_bytes: int = 0
    """For a write: so many bytes are written, and the call returns their number instead of raising."""
    seen: int = 0
    hits: int = 0

    def strikes(self, call: str, path: str) -> bool:
        if call != self.call or self.path_part not in path:
            return False
        self.seen += 1
        if not self.number <= self.seen < self.number + self.count:
            return False
        self.hits += 1
        return True


class FaultyFile:
    """An open file whose calls look into the plan of faults first."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: FaultyFiles, file: File) -> None:
        self._files = files
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int | None:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def pread(self, size_bytes: int, offset: int) -> bytes:
        self._files.ask("pread", self.path)
        return self._file.pread(size_bytes, offset)

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        taken = self._files.ask("write", self.path)
        if taken is None:
            return self._file.write(buffers, offset)
        return self._file.write([b"".join(buffers)[:taken]], offset)

    def truncate(self, size_bytes: int) -> None:
        self._files.ask("truncate", self.path)
        self._file.truncate(size_bytes)

    def fdatasync(self) -> None:
        self._files.ask("fdatasync", self.path)
        self._file.fdatasync()

    def fsync(self) -> None:
        self._files.ask("fsync", self.path)
        self._file.fsync()

    def close(self) -> None:
        self._file.close()


class FaultyFiles:
    """Another side of the port, with a plan of faults that a test may change at any time."""

    def __init__(self, files: Files, *faults: Fault) -> None:
        self._files = files
        self.faults = list(faults)

    def ask(self, call: str, path: str) -> int | None:
        """Raises the planned error, or returns the number of bytes of a write that the disk still takes."""
        striking = [fault for fault in self.faults if fault.strikes(call, path)]
        if not striking:
            return None
        if striking[0].partial_bytes:
            return striking[0].partial_bytes
        raise OSError(striking[0].error, os.strerror(striking[0].error), path)

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        self.ask("open", path)
        return FaultyFile(self, self._files.open(path, write=write, create=create))

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def status(self, path: str) -> FileStatus:
        self.ask("status", path)
        return self._files.status(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.ask("set_modified", path)
        self._files.set_modified(path, modified_ms)

    def space(self, path: str) -> Space:
        self.ask("space", path)
        return self._files.space(path)

    def listdir(self, path: str) -> list[str]:
        self.ask("listdir", path)
        return self._files.listdir(path)

    def subdirectories(self, path: str) -> list[str]:
        self.ask("listdir", path)
        return self._files.subdirectories(path)

    def makedirs(self, path: str) -> None:
        self.ask("makedirs", path)
        self._files.makedirs(path)

    def rename(self, source: str, target: str) -> None:
        self.ask("rename", source)
        self._files.rename(source, target)

    def unlink(self, path: str) -> None:
        self.ask("unlink", path)
        self._files.unlink(path)

    def rmtree(self, path: str) -> None:
        self.ask("rmtree", path)
        self._files.rmtree(path)

    def lock(self, path: str) -> FileLock:
        self.ask("lock", path)
        return self._files.lock(path)

    def fsync_directory(self, path: str) -> None:
        self.ask("fsync_directory", path)
        self._files.fsync_directory(path)

    def sync_all(self, paths: Sequence[str]) -> None:
        sync_one_by_one(self, paths)

    def read_bytes(self, path: str) -> bytes:
        self.ask("read", path)
        return self._files.read_bytes(path)

    def read_text(self, path: str) -> str:
        self.ask("read", path)
        return self._files.read_text(path)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.ask("write_atomically", path)
        self._files.write_atomically(path, data)
