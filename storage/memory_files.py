"""The files port in memory, where a test can end the process or the power at any moment.

Each file has its content and the content as it was last synced; each path has the same twice over: what a
`listdir` shows now, and what the directory's last sync made durable. `kill_process` loses neither (the
page cache outlives the process) but leaves all open files and locks behind. `cut_power` goes back to what
was synced, and keeps of the rest whatever the given plan says: nothing, all, or an append torn in the
middle with zeros after.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from config.ports import Buffer, File, FileLock, FileStatus, Space
from storage.file_io import sync_one_by_one


class Torn(NamedTuple):
    """What a power cut leaves of the bytes that were written and not synced."""

    kept_bytes: int
    """The number of these bytes that are left."""
    zero_bytes: int = 0
    """The number of zeros behind them: the file's length had reached the disk, its content had not."""


VOLUME_BYTES: Final = 1 << 40
"""The size that this file system reports. It has no bound but the memory."""

TearPlan: TypeAlias = Callable[[str, int], Torn]
"""A function from a path and its unsynced bytes to what is left of them."""


def lose_all(_path: str, _unsynced_bytes: int) -> Torn:
    """A power cut after which nothing is left that was not synced."""
    return Torn(0)


def keep_all(_path: str, unsynced_bytes: int) -> Torn:
    """A power cut after which all is left that was written."""
    return Torn(unsynced_bytes)


class _Content:
    """The bytes of one file, whatever its paths and open handles are."""

    __slots__ = ("clean_bytes", "data", "modified_ms", "synced")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.clean_bytes = 0
        """So many bytes at the beginning are as they were synced: a sync need not copy them again."""
        self.modified_ms = modified_ms

    def sync(self) -> None:
        del self.synced[self.clean_bytes :]
        with memoryview(self.data) as view:
            self.synced += view[self.clean_bytes :]
        self.clean_bytes = len(self.data)


class MemoryFile:
    """An open handle; a rename or unlink of its path leaves it usable, as on a real system."""

    __slots__ = ("_content", "_files", "_generation", "_writable", "path")

    def __init__(self, files: MemoryFiles, path: str, content: _Content, writable: bool) -> None:
        self.path = path
        self._files = files
        self._content: _Content | None = content
        self._writable = writable
        self._generation = files.generation

    def _opened(self) -> _Content:
        if self._content is None or self._generation != self._files.generation:
            raise ValueError(f"{self.path} is closed")
        return self._content

    def _opened_for_writing(self) -> _Content:
        content = self._opened()
        if not self._writable:
            raise OSError(errno.EBADF, "opened for reading only", self.path)
        return content

    def fileno(self) -> int | None:
        self._opened()
        return None

    def size(self) -> int:
        return len(self._opened().data)

    def pread(self, size_bytes: int, offset: int) -> bytes:
        with memoryview(self._opened().data) as view:
            return bytes(view[offset : offset + size_bytes])

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        content = self._opened_for_writing()
        joined = b"".join(buffers)
        content.clean_bytes = min(content.clean_bytes, offset)
        if offset > len(content.data):
            content.data.extend(bytes(offset - len(content.data)))
        content.data[offset : offset + len(joined)] = joined
        content.modified_ms = self._files.now_ms()
        return len(joined)

    def truncate(self, size_bytes: int) -> None:
        content = self._opened_for_writing()
        content.clean_bytes = min(content.clean_bytes, size_bytes)
        del content.data[size_bytes:]
        content.data.extend(bytes(size_bytes - len(content.data)))
        content.modified_ms = self._files.now_ms()

    def fdatasync(self) -> None:
        self._opened().sync()

    def fsync(self) -> None:
        self.fdatasync()

    def close(self) -> None:
        self._content = None


class MemoryLock:
    """The lock of a path."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.locks.pop(self._path, None)


_Entries: TypeAlias = dict[str, _Content | None]
"""Each path, with its content or None for a directory."""


class MemoryFiles:
    """A file system of its own; `/` exists."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.locks: dict[str, None] = {}
        self.generation = 0
        """Handles of an older generation belong to a process that was killed."""
        self._entries: _Entries = {"/": None}
        self._durable: _Entries = {"/": None}

    # What a test does to it

    def kill_process(self) -> None:
        """Drops open files and locks. All that was written is kept."""
        self.generation += 1
        self.locks.clear()

    def cut_power(self, plan: TearPlan = lose_all, *, keep_names: bool = True) -> None:
        """Goes back to what was synced, and keeps of the rest what the plan leaves.

        With `keep_names` the journal of the file system has reached the disk: creations, renames and removals
        are kept, in the order in which they were made, as ext4 and XFS keep it. Without it, only names are
        there that `fsync_directory` has made durable.
        """
        self.kill_process()
        if not keep_names:
            self._entries = dict(self._durable)
        for path, content in self._entries.items():
            if content is None or content.data == content.synced:
                continue
            content.clean_bytes = 0
            if not content.data.startswith(content.synced):
                content.data = bytearray(content.synced)  # what was cut or overwritten is as it was
                continue
            behind = max(len(content.data) - len(content.synced), 0)
            torn = plan(path, behind)
            kept = content.data[len(content.synced) : len(content.synced) + torn.kept_bytes]
            content.data = bytearray(content.synced) + kept + bytes(torn.zero_bytes)
            content.sync()
        self._durable = dict(self._entries)

    def unsynced_bytes(self, path: str) -> int:
        """The number of bytes at the end of the file that a power cut could take."""
        content = self._entries.get(_normal(path))
        return 0 if content is None else max(len(content.data) - len(content.synced), 0)

    def durable_bytes(self, path: str) -> bytes | None:
        """The content that any power cut leaves: what was synced of the file, if its name was synced too;
        else None."""
        content = self._durable.get(_normal(path))
        return None if content is None else bytes(content.synced)

    def content(self, path: str) -> bytearray | None:
        """The content of a file, not a copy of it, for a caller that only reads. None if there is no such
        file."""
        content = self._entries.get(path)
        return None if content is None else content.data

    # The port

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        path = _normal(path)
        content = self._entries.get(path)
        if content is None:
            if path in self._entries:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._require_directory(posixpath.dirname(path))
            content = self._entries[path] = _Content(self.now_ms())
        return MemoryFile(self, path, content, write or create)

    def exists(self, path: str) -> bool:
        return _normal(path) in self._entries

    def status(self, path: str) -> FileStatus:
        path = self._existing(path)
        content = self._entries[path]
        if content is None:
            return FileStatus(0, 0, True)
        return FileStatus(len(content.data), content.modified_ms, False)

    def set_modified(self, path: str, modified_ms: int) -> None:
        content = self._entries[self._existing(path)]
        if content is not None:
            content.modified_ms = modified_ms

    def space(self, path: str) -> Space:
        self._existing(path)
        used = sum(len(content.data) for content in self._entries.values() if content is not None)
        return Space(VOLUME_BYTES, VOLUME_BYTES - used)

    def listdir(self, path: str) -> list[str]:
        path = self._require_directory(_normal(path))
        return sorted(posixpath.basename(each) for each in self._children(self._entries, path))

    def subdirectories(self, path: str) -> list[str]:
        return [name for name in self.listdir(path) if self._entries[f"{_normal(path)}/{name}"] is None]

    def makedirs(self, path: str) -> None:
        path = _normal(path)
        if self._entries.get(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        while path not in self._entries:
            self._entries[path] = None
            path = posixpath.dirname(path)

    def rename(self, source: str, target: str) -> None:
        source, target = self._existing(source), _normal(target)
        self._require_directory(posixpath.dirname(target))
        if source == target:
            return
        if self._entries[source] is None and self._children(self._entries, target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        for path in self._tree(source):
            self._entries[target + path[len(source) :]] = self._entries.pop(path)

    def unlink(self, path: str) -> None:
        path = self._existing(path)
        if self._entries[path] is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        del self._entries[path]

    def rmtree(self, path: str) -> None:
        for each in self._tree(_normal(path)):
            del self._entries[each]

    def lock(self, path: str) -> FileLock:
        path = _normal(path)
        self.open(path, create=True).close()
        if path in self.locks:
            raise BlockingIOError(errno.EAGAIN, f"{path} is locked by another process")
        self.locks[path] = None
        return MemoryLock(self, path)

    def fsync_directory(self, path: str) -> None:
        path = self._require_directory(_normal(path))
        self._durable[path] = None
        for child in self._children(self._durable, path):
            if child not in self._entries:
                for each in [one for one in self._durable if one == child or one.startswith(child + "/")]:
                    del self._durable[each]
        for child in self._children(self._entries, path):
            self._durable[child] = self._entries[child]

    def sync_all(self, paths: Sequence[str]) -> None:
        sync_one_by_one(self, paths)

    def read_bytes(self, path: str) -> bytes:
        file = self.open(path)
        return file.pread(file.size(), 0)

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8")

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write([data], 0)
        file.fsync()
        file.close()
        self.rename(temporary, path)
        self.fsync_directory(posixpath.dirname(_normal(path)))

    # Within

    def _existing(self, path: str) -> str:
        path = _normal(path)
        if path not in self._entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return path

    def _require_directory(self, path: str) -> str:
        if self._entries[self._existing(path)] is not None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return path

    @staticmethod
    def _children(entries: _Entries, path: str) -> list[str]:
        below = path.rstrip("/") + "/"
        size = len(below)
        return [
            each
            for each in entries
            if each.startswith(below) and len(each) > size and each.find("/", size) < 0
        ]

    def _tree(self, path: str) -> list[str]:
        below = path.rstrip("/") + "/"
        return [each for each in self._entries if each == path or each.startswith(below)]


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))
