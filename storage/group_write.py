"""Writes of batches as plain values: what a helper thread needs, without an object of the log.

The thread removes what an earlier failure has left (`Cut`), writes to the active segment's file, and syncs if
that is wanted (`GroupWrite`). If anything fails it truncates the file, so that bytes of refused batches do
not stay. If the next batch belongs to another segment, a `Roll` comes first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from config.ports import Buffer, File, Files
from storage.file_io import write_fully
from storage.index_file import FileTail


class Cut(msgspec.Struct):
    """Removes what refused batches have left on the disk, before anything else is written to the log."""

    files: Files
    file: File
    """The `.log` file of the active segment."""
    end: int
    """The end of the log in the file. What lies behind it is cut off."""
    left_files: Sequence[str]
    """The files of segments that were begun and never became part of the log."""
    synced_directory: str | None
    """The directory of the log, if the removed bytes may be on the disk already. They must not come back with
    a power cut in the place of batches that were appended since, and replicated with the same offsets and
    epoch."""

    def run(self) -> None:
        """Removes everything. Raises OSError; then all of it is to be done again."""
        self.file.truncate(self.end)
        for path in self.left_files:
            with contextlib.suppress(FileNotFoundError):
                self.files.unlink(path)
        if self.synced_directory is not None:
            self.file.fdatasync()
            self.files.fsync_directory(self.synced_directory)


class GroupWrite(msgspec.Struct):
    """The write of a group of batches, and the sync behind it if one is wanted."""

    file: File
    path: str
    buffers: Sequence[Buffer]
    position: int
    size_bytes: int
    stalled_ns: Callable[[], int]
    """The clock of stalls, see `config.ports.Stalls`."""
    cut_first: Cut | None = None
    sync: Callable[[], object] | None = None
    """Called after the write. The append waits for its end too."""

    def run(self) -> int:
        """Writes, and syncs. Returns how long the write has stalled, without the sync. Raises OSError."""
        began_ns = self.stalled_ns()
        try:
            if self.cut_first is not None:
                self.cut_first.run()
            if self.buffers:
                write_fully(self.file, self.buffers, self.size_bytes, self.position, self.path)
            wait_ns = self.stalled_ns() - began_ns
            if self.sync is not None:
                self.sync()
        except OSError:
            with contextlib.suppress(OSError):  # tried again before the next write
                self.file.truncate(self.position)
            raise
        return wait_ns


class Roll(msgspec.Struct):
    """The creation of a new segment: the indexes of the old one are completed, the new file is made."""

    files: Files
    path: str
    """The path of the new segment's `.log` file. It is empty afterwards, whatever was there."""
    tails: Sequence[FileTail]
    """What is missing in the index files of the old segment."""
    stalled_ns: Callable[[], int]
    cut_first: Cut | None = None

    def run(self) -> int:
        """Creates the new segment. Returns how long that has stalled, in nanoseconds. Raises OSError."""
        began_ns = self.stalled_ns()
        if self.cut_first is not None:
            self.cut_first.run()
        file = self.files.open(self.path, create=True)
        try:
            if file.size():
                file.truncate(0)
        finally:
            file.close()
        for tail in self.tails:
            tail.write(self.files)
        return self.stalled_ns() - began_ns
