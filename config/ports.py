"""The ports to the outside world, as protocols: clock, randomness, timers, threads, files, processes.

The pure parts of the broker (protocol, storage, the raft node, the coordinators' state machines) do not call
the operating system; they call these objects, which they are given. Each port has a real implementation
(`broker/ports/`), one in memory for tests and the simulator, and some have one that fails as it is told. One
contract test (`tests/contracts`) holds for all of them.

A method means what the system call of that name means. Paths are `str`, times are whole milliseconds and
sizes are bytes unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
"""Anything that a file takes without copying; a memoryview must be contiguous and of single bytes."""


class Clock(Protocol):
    """Wall time, for timestamps; and monotonic time, for deadlines and for measuring."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 in UTC, as in record timestamps. It may jump forwards and backwards."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment. It never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same clock in nanoseconds, for measuring how long something took."""
        ...


class Stalls(Protocol):
    """How long threads have waited for something else than a processor, such as a disk."""

    def stalled_ns(self) -> int:
        """The time in nanoseconds, since some fixed moment, for which the calling thread neither ran nor
        waited for a processor.

        By how much it grows during a write is how long the write waited for the disk. Time in which the
        loop's thread waited for a processor is not counted either, because that thread may have held the
        interpreter. On a machine that does not tell all this, it is the time that has passed.
        """
        ...

    def ran_ns(self) -> int:
        """The nanoseconds for which the calling thread has run on a processor so far."""
        ...


class RandomSource(Protocol):
    """Randomness. In the simulator it comes from the seed, so that a run can be repeated."""

    def random_bytes(self, count: int) -> bytes:
        """Returns `count` unpredictable bytes, for UUIDs and salts."""
        ...

    def below(self, bound: int) -> int:
        """Returns a whole number in [0, bound); `bound` is at least 1."""
        ...

    def fraction(self) -> float:
        """Returns a number in [0, 1)."""
        ...


class Timer(Protocol):
    """A call that is due later. Cancelling it twice, or after it ran, does nothing."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Calls functions at a later time, on the loop and one at a time."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Calls `callback` once `Clock.monotonic_ms()` has reached `deadline_ms`; a deadline in the past
        means soon."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Calls `callback` after the code that runs now has returned. Calls are made in the order of their
        requests."""
        ...


class Offload(Protocol):
    """Helper threads for single calls that release the GIL until they return (fdatasync, pread, unlink).

    Python code does not belong here: a thread that runs it keeps the loop from running.
    """

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Runs `call` in a thread, then `done` on the loop with its result or with what it raised."""
        ...


class ServiceManager(Protocol):
    """The service manager that started the process and is told its state: systemd, where there is one."""

    def notify(self, *lines: str) -> bool:
        """Sends lines of `KEY=value` (sd_notify's protocol); whether there is somebody who took them."""
        ...


class ChildProcess(Protocol):
    """A process that was started to do work, and gets one order at a time. Its methods block."""

    @property
    def is_alive(self) -> bool: ...

    def call(
        self, order: bytes, tell: Callable[[str], None], *, timeout_seconds: float | None = None
    ) -> bytes:
        """The process's answer to an order. tell: gets what it logs meanwhile, line by line.

        Raises `storage.jobs.JobFailed` with the reason: the one that the process gives, or that it has died,
        or that it took longer than `timeout_seconds` and was killed.
        """
        ...

    def kill(self) -> None:
        """Kills the process, from any thread. A call that is under way raises JobFailed."""
        ...

    def end(self) -> None:
        """Asks an idle process to end, and kills it if it does not."""
        ...


class FileStatus(NamedTuple):
    """Size, time of change and kind of a path, without opening it."""

    size_bytes: int
    modified_ms: int
    is_directory: bool


class Space(NamedTuple):
    """The size of the volume on which a path lies, and how much of it this process may still use."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """An open file. Every call may raise `OSError`, and has then done nothing or a part of its work.

    There is no file position: reads and writes are given an offset. A second close does nothing; any other
    call after the close raises `ValueError`.
    """

    @property
    def path(self) -> str:
        """The path at which the file was opened; a later rename does not change it."""
        ...

    def fileno(self) -> int | None:
        """The descriptor for sendfile; None for a file in memory, which is read by `pread`."""
        ...

    def size(self) -> int:
        """The length of the file in bytes, now."""
        ...

    def pread(self, size_bytes: int, offset: int) -> bytes:
        """Reads up to `size_bytes` from `offset`: fewer only at the end of the file, `b""` behind it."""
        ...

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Writes the buffers one after the other from `offset` (pwritev); the number of bytes written.

        It may write fewer than were given; then the next write raises the reason, and the caller truncates
        the file or tries again. A write past the end leaves zeros between.
        """
        ...

    def truncate(self, size_bytes: int) -> None:
        """Sets the length of the file; a longer file is filled up with zeros."""
        ...

    def fdatasync(self) -> None:
        """Returns when content and length would survive a power cut."""
        ...

    def fsync(self) -> None:
        """Syncs as `fdatasync` does, and the times of the file too."""
        ...

    def close(self) -> None: ...


class FileLock(Protocol):
    """Exclusive use of a directory, held until it is released or the process ends."""

    def release(self) -> None:
        """Releases the lock; the file stays. Releasing it twice does nothing."""
        ...


class Files(Protocol):
    """A file system. Missing paths raise `FileNotFoundError`, as the operating system does."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        """Opens for reading, or also for writing. `create` makes a missing file and implies `write`."""
        ...

    def exists(self, path: str) -> bool: ...

    def status(self, path: str) -> FileStatus: ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Sets the time at which the file was last changed. No sync is needed for others to see it; a power
        cut may take it back."""
        ...

    def space(self, path: str) -> Space:
        """The total and the free space of the volume on which the path lies."""
        ...

    def listdir(self, path: str) -> list[str]:
        """The names (not paths) in the directory, sorted."""
        ...

    def subdirectories(self, path: str) -> list[str]:
        """The names of the directories in the directory, without a call for the status of each name."""
        ...

    def makedirs(self, path: str) -> None:
        """Creates the directory and its missing parents; an existing directory is no error."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Moves a file or directory in one step; an existing target file is replaced."""
        ...

    def unlink(self, path: str) -> None: ...

    def rmtree(self, path: str) -> None:
        """Removes a directory with all its content; a missing directory is no error."""
        ...

    def lock(self, path: str) -> FileLock:
        """Locks the file `path`, which is made if it is missing. Raises `BlockingIOError` while another
        process (of Barnabas or Apache Kafka) or another node in this process has locked it."""
        ...

    def fsync_directory(self, path: str) -> None:
        """Returns when the names in the directory (creations, renames, removals) survive a power cut."""
        ...

    def sync_all(self, paths: Sequence[str]) -> None:
        """Calls `fdatasync` for each of these files, in any order; a missing file is left out."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def read_text(self, path: str) -> str:
        """The content of the file as UTF-8. Raises UnicodeDecodeError for a wrong byte."""
        ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replaces the content of the file by `data`; after a crash it has the old content or the new one.

        Writes `path + ".tmp"`, syncs it, renames it to `path`, and syncs the directory. Kafka writes its
        checkpoints with the same temporary name, so both know what such a file is.
        """
        ...
