"""The files of one life of a machine, over its disk: they end with the life, and fail as the disk does.

`DiskTrouble` belongs to the machine and outlives its lives: which calls fail in which directory, how slow the
disk is, and how many changes are left until the process or the power ends. It is asked before each call, so
the end comes between two system calls. After it no call of this life reaches the disk any more, whatever is
still on the stack.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from broker.simulation.cluster.event_loop import LifeOver
from broker.simulation.seeded_random import SeededRandom
from config.ports import Space
from storage.faulty_files import FaultyFiles
from storage.memory_files import MemoryFiles

__all__ = ["CHANGES", "READS", "SYNCS", "WRITES", "DiskFault", "DiskTrouble", "HostFiles"]

READS: Final = frozenset({"pread", "read"})
WRITES: Final = frozenset({"write", "truncate", "makedirs", "rename", "unlink", "rmtree"})
SYNCS: Final = frozenset({"fdatasync", "fsync", "fsync_directory"})
CHANGES: Final = WRITES | SYNCS


class DiskFault(msgspec.Struct, eq=False):
    """Calls below a directory that fail. error: an errno. left: so many of them; below 0 without an end.
    part_probability: how often a write takes a part before the next one fails. struck: how many have
    failed."""

    directory: str
    calls: frozenset[str]
    error: int = errno.EIO
    left: int = -1
    part_probability: float = 0.0
    struck: int = 0

    def strikes(self, call: str, path: str) -> bool:
        return self.left != 0 and call in self.calls and (path + "/").startswith(self.directory + "/")


class DiskTrouble:
    """errors: how many calls have failed in this life of the machine. changes: how many had an effect, in all
    its lives."""

    def __init__(self, random: SeededRandom) -> None:
        self.faults: list[DiskFault] = []
        self.slowness_ns: tuple[int, int] | None = None
        """How long a call takes at least and at most, beside its usual time."""
        self.errors = 0
        self.changes = 0
        self._random = random
        self._until_end = 0
        self._end: Callable[[], bool] | None = None
        self._is_for_next_life = False

    def begin_life(self) -> None:
        self.errors = 0
        if not self._is_for_next_life:
            self._end = None
        self._is_for_next_life = False

    def end_after(self, changes: int, end: Callable[[], bool], *, next_life: bool = False) -> None:
        """The life, or the next one, ends in place of a change: of its first one from now on for 1. end: ends
        it, and says whether it did."""
        self._until_end, self._end, self._is_for_next_life = changes, end, next_life

    def disarm(self) -> None:
        """The end that was to come does not come any more."""
        self._end, self._is_for_next_life = None, False

    @property
    def is_armed(self) -> bool:
        """Whether such an end is to come."""
        return self._end is not None

    def before(self, call: str, path: str) -> int | None:
        """Raises what is planned; a number is the part of a write that the disk still takes."""
        if call in CHANGES:
            self.changes += 1
            if self._end is not None:
                self._until_end -= 1
                if self._until_end <= 0:
                    end, self._end = self._end, None
                    if end():
                        raise LifeOver
        for fault in self.faults:
            if fault.strikes(call, path):
                self.errors += 1
                if call == "write" and self._random.happens(fault.part_probability):
                    return 1 + self._random.below(100)
                fault.left -= 1
                fault.struck += 1
                raise OSError(fault.error, os.strerror(fault.error), path)
        return None

    def slow_call_ns(self) -> int:
        return 0 if self.slowness_ns is None else self._random.between(*self.slowness_ns)


class HostFiles(FaultyFiles):
    """`config.ports.Files` of one life. waits: is told for how long a call makes the life wait."""

    def __init__(self, disk: MemoryFiles, trouble: DiskTrouble, waits: Callable[[int], None]) -> None:
        super().__init__(disk)
        self._trouble = trouble
        self._waits = waits
        self._is_over = False
        self.is_in_helper = False
        """A helper thread makes the calls; how long they take was decided before."""

    def end(self) -> None:
        """The life is over."""
        self._is_over = True

    def ask(self, call: str, path: str) -> int | None:
        if self._is_over:
            raise LifeOver
        trouble = self._trouble
        if trouble.slowness_ns is not None and not self.is_in_helper:
            self._waits(trouble.slow_call_ns())
        return trouble.before(call, path)

    def space(self, path: str) -> Space:
        space = super().space(path)
        if any(
            fault.error == errno.ENOSPC and fault.strikes("write", path) for fault in self._trouble.faults
        ):
            return Space(space.total_bytes, 0)
        return space

    def write_atomically(self, path: str, data: bytes) -> None:
        """In the steps in which a file system takes it: the life may end between any two of them."""
        file = self.open(path + ".tmp", create=True)
        try:
            file.truncate(0)
            at = 0
            while at < len(data):
                at += file.write([data[at:]], at)
            file.fsync()
        finally:
            file.close()
        self.rename(path + ".tmp", path)
        self.fsync_directory(path.rpartition("/")[0])

    def sync_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                file = self.open(path)
            except FileNotFoundError:
                continue
            try:
                file.fdatasync()
            finally:
                file.close()
