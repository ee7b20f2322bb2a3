"""The ports to the outside world, as protocols: clock, randomness, timers, threads, files, processes.

The pure parts of the broker (protocol, storage, the raft node, the coordinators' state machines) never call
the operating system by themselves: they are given these objects. Each port has a real side (`broker/ports/`),
an in-memory side for tests and the simulator, and where it matters a faulty one; one contract test holds all
sides to the same behaviour.

The ports are thin on purpose: a method is here because the product calls it, and means what the system call
of that name means. Paths are `str`, times are whole milliseconds, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
"""Anything that a file takes without copying; a memoryview must be contiguous and of single bytes."""


class Clock(Protocol):
    """Wall time for timestamps that leave the process, monotonic time for everything that waits."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 in UTC, as record timestamps use them. May jump either way."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment. Never goes back; deadlines are given in it."""
        ...

    def monotonic_ns(self) -> int:
        """The same clock in nanoseconds, for measuring how long something took."""
        ...


class Stalls(Protocol):
    """Tells how long threads have waited, other than for a processor."""

    def stalled_ns(self) -> int:
        """For how long the calling thread has neither run nor waited for a processor so far, from some fixed
        moment on.

        What a call adds to it it has waited for the disk, if that is what it works on. The time in which the
        loop's thread waited for a processor counts as little as the caller's own: that thread may hold the
        interpreter meanwhile. Where the machine does not tell it is the time that has passed.
        """
        ...

    def ran_ns(self) -> int:
        """The time for which the calling thread has run on a processor so far, in nanoseconds."""
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
    """Helper threads for single calls that release the GIL for their whole length (fdatasync, pread, unlink).

    Python code that runs longer than a moment does not belong here: beside the loop it ruins the loop.
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
    """A process that was started to do work, and is asked one thing at a time. Calls block."""

    @property
    def is_alive(self) -> bool: ...

    def call(
        self, order: bytes, tell: Callable[[str], None], *, timeout_seconds: float | None = None
    ) -> bytes:
        """The process's answer to an order. tell: gets lines that it says meanwhile, for the log.

        Raises `storage.jobs.JobFailed` with the reason: as the process gives it, because it has died, or
        because it took longer than `timeout_seconds`, after which it is killed.
        """
        ...

    def kill(self) -> None:
        """Ends it in the middle, from any thread: a call that is under way raises JobFailed."""
        ...

    def end(self) -> None:
        """Lets an idle process leave in order, and kills one that does not."""
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
    """One open file. Every call may raise `OSError`, and then has done nothing or only a part.

    There is no file position: reads and writes say where. Closing twice is harmless; anything else after the
    close raises `ValueError`.
    """

    @property
    def path(self) -> str:
        """The path at which the file was opened; a later rename does not change it."""
        ...

    def fileno(self) -> int | None:
        """The descriptor for sendfile, or None where there is none (memory): then use `pread`."""
        ...

    def size(self) -> int:
        """The length in bytes, as the file system has it now."""
        ...

    def pread(self, size_bytes: int, offset: int) -> bytes:
        """Up to `size_bytes` from `offset`; fewer only at the end of the file, `b""` past it."""
        ...

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Writes all buffers one after the other from `offset` (pwritev), and returns the bytes written.

        Fewer than given means that the disk took no more (the next attempt tells why by raising); the caller
        truncates back or goes on. Writing past the end leaves a hole of zeros.
        """
        ...

    def truncate(self, size_bytes: int) -> None:
        """Gives the file exactly this length; bytes that it grows by are zeros."""
        ...

    def fdatasync(self) -> None:
        """Returns when content and length are safe against a power cut."""
        ...

    def fsync(self) -> None:
        """As `fdatasync`, for the file's times too."""
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

    def space(self, path: str) -> Space:
        """The total and the free space of the volume on which the path lies."""
        ...

    def listdir(self, path: str) -> list[str]:
        """The names (not paths) in the directory, sorted."""
        ...

    def subdirectories(self, path: str) -> list[str]:
        """The names in the directory that are directories, found without asking for the status of each."""
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
        """Takes the lock file `path`, made if missing; raises `BlockingIOError` while anybody else has it.

        It keeps out other processes of ours, other nodes in this process, and Apache Kafka.
        """
        ...

    def fsync_directory(self, path: str) -> None:
        """Returns when the names in the directory (creations, renames, removals) survive a power cut."""
        ...

    def sync_all(self, paths: Sequence[str]) -> None:
        """`fdatasync` of each of these files, in no certain order; those that have gone are skipped."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def read_text(self, path: str) -> str:
        """The content of the file as UTF-8. Raises UnicodeDecodeError for a wrong byte."""
        ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replaces the file by `data` so that a crash leaves the old content or the new one, never a mix.

        Writes `path + ".tmp"`, syncs it, renames it over `path`, syncs the directory. Kafka's checkpoints
        use the same temporary name, so a left-over one means the same to both.
        """
        ...
