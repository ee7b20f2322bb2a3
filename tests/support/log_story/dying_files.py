"""Files on which a process can die between any two effects, and on which any call can fail.

Stands around `MemoryFiles`. An effect is a call that changes something or makes a change durable; what the
port offers as one call but the operating system does in several (`write_atomically`, `rmtree`) is done here
in those, so that a death can come between them. A `Plan` names the effects that it counts, and the number of
the one that it strikes:

    kill, power   the process dies before that effect; of a write a part may have been done
    EIO, ENOSPC   the call raises, and has done nothing; of a write a part may have been done first
    short         the write takes a part and says so

A dead process does nothing more: whatever its `finally` blocks try raises `ProcessDied` again.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from config.ports import Buffer, File, FileLock, FileStatus, Space
from storage.file_io import sync_one_by_one
from storage.memory_files import MemoryFiles

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
SECTOR_BYTES = 64
"""Small, as the batches of the stories are."""


class ProcessDied(BaseException):
    """Not an Exception: nobody in the product may catch it."""


@dataclass
class Plan:
    """What goes wrong, and where."""

    kind: str
    call: str
    """`write`, `sync`, `rename`, `unlink`, `truncate`, `open`, or `any`."""
    number: int
    """The matching effect that it strikes, from 1."""
    count: int = 1
    """So many of them fail, from that one on; a death comes once."""
    share: float = 0.0
    """How much of a write is done first."""
    seen: int = 0
    struck: str = ""
    """What was struck, for the story."""

    def strikes(self, call: str, path: str) -> bool:
        if self.call not in ("any", call):
            return False
        if self.kind == "short" and call != "write":
            return False
        if self.call == "any" and call == "open" and self.kind in ("kill", "power"):
            return False  # opening is no effect
        self.seen += 1
        if not self.number <= self.seen < self.number + self.count:
            return False
        self.struck = self.struck or f"{call} {path}"
        return True


class DyingFile:
    """An open file, counted while it is open."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: DyingFiles, file: File) -> None:
        self._files = files
        self._file = file
        files.handles[id(self)] = file.path

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int | None:
        return self._file.fileno()

    def size(self) -> int:
        self._files.live()
        return self._file.size()

    def pread(self, size_bytes: int, offset: int) -> bytes:
        self._files.live()
        return self._file.pread(size_bytes, offset)

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        plan = self._files.before("write", self.path)
        if plan is None:
            return self._file.write(buffers, offset)
        data = b"".join(buffers)
        part = int(len(data) * plan.share)
        if plan.kind != "short":
            part -= (offset + part) % SECTOR_BYTES
        if plan.kind == "short":
            part = max(part, 1)
        if part > 0:
            self._files.counts["torn write"] += plan.kind != "short"
            self._file.write([data[:part]], offset)
        if plan.kind == "short":
            self._files.counts["short"] += 1
            return part
        raise self._files.struck(plan, self.path)

    def truncate(self, size_bytes: int) -> None:
        self._files.effect("truncate", self.path)
        self._file.truncate(size_bytes)

    def fdatasync(self) -> None:
        self._files.effect("sync", self.path)
        self._file.fdatasync()

    def fsync(self) -> None:
        self._files.effect("sync", self.path)
        self._file.fsync()

    def close(self) -> None:
        self._files.handles.pop(id(self), None)
        if not self._files.is_dead:
            self._file.close()


class DyingFiles:
    """The port; `plan` may be changed at any time, `counts` says what struck."""

    def __init__(self, memory: MemoryFiles) -> None:
        self.memory = memory
        self.plan: Plan | None = None
        self.is_dead = False
        self.counts: Counter[str] = Counter()
        self.effects = 0
        self.handles: dict[int, str] = {}
        """Paths of the files that are open."""

    def revive(self) -> None:
        """The next process begins: nothing is open, nothing planned."""
        self.is_dead = False
        self.plan = None
        self.handles.clear()

    def live(self) -> None:
        if self.is_dead:
            raise ProcessDied

    def before(self, call: str, path: str) -> Plan | None:
        """The plan, if this effect is the one that it strikes."""
        self.live()
        self.effects += 1
        plan = self.plan
        return plan if plan is not None and plan.strikes(call, path) else None

    def struck(self, plan: Plan, path: str) -> BaseException:
        self.counts[plan.kind] += 1
        call = plan.struck.split(" ")[0]
        self.counts[f"{plan.kind} at {call}"] += 1
        self.counts[f"{call} fails" if plan.kind in ERRORS else f"dies at {call}"] += 1
        if plan.kind in ERRORS:
            return OSError(ERRORS[plan.kind], os.strerror(ERRORS[plan.kind]), path)
        self.is_dead = True
        return ProcessDied()

    def effect(self, call: str, path: str) -> None:
        plan = self.before(call, path)
        if plan is not None:
            raise self.struck(plan, path)

    # The port

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        if create or write:
            self.effect("open", path)
        else:
            self.live()
        return DyingFile(self, self.memory.open(path, write=write, create=create))

    def exists(self, path: str) -> bool:
        self.live()
        return self.memory.exists(path)

    def status(self, path: str) -> FileStatus:
        self.live()
        return self.memory.status(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.live()
        self.memory.set_modified(path, modified_ms)

    def space(self, path: str) -> Space:
        self.live()
        return self.memory.space(path)

    def listdir(self, path: str) -> list[str]:
        self.live()
        return self.memory.listdir(path)

    def subdirectories(self, path: str) -> list[str]:
        self.live()
        return self.memory.subdirectories(path)

    def makedirs(self, path: str) -> None:
        self.effect("open", path)
        self.memory.makedirs(path)

    def rename(self, source: str, target: str) -> None:
        self.effect("rename", source)
        self.memory.rename(source, target)

    def unlink(self, path: str) -> None:
        self.effect("unlink", path)
        self.memory.unlink(path)

    def rmtree(self, path: str) -> None:
        if not self.exists(path):
            return
        for name in self.memory.listdir(path):
            self.unlink(f"{path}/{name}")
        self.effect("unlink", path)
        self.memory.rmtree(path)

    def lock(self, path: str) -> FileLock:
        self.live()
        return self.memory.lock(path)

    def fsync_directory(self, path: str) -> None:
        self.effect("sync", path)
        self.memory.fsync_directory(path)

    def sync_all(self, paths: Sequence[str]) -> None:
        sync_one_by_one(self, paths)

    def read_bytes(self, path: str) -> bytes:
        self.live()
        return self.memory.read_bytes(path)

    def read_text(self, path: str) -> str:
        self.live()
        return self.memory.read_text(path)

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            written = 0
            while written < len(data):
                written += file.write([data[written:]], written)
            file.fsync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.fsync_directory(posixpath.dirname(path))
