"""Batches on their way into files, as plain values: what a helper thread needs, and nothing of the log.

One `FileWrite` for each segment that takes a part. The thread removes what an earlier failure left (`Cut`),
makes the files of new segments, writes, and syncs where that is wanted; if anything fails it cuts the active
file back, so that bytes of batches that are refused do not stay.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence

import msgspec

from config.ports import Buffer, File, Files


class FileWrite(msgspec.Struct):
    """What one file gets."""

    path: str
    buffers: Sequence[Buffer]
    position: int
    size_bytes: int
    file: File | None
    """None for a new segment: the file is made, empty whatever was there."""


class Cut(msgspec.Struct):
    """Removes what refused batches have left on the disk, before anything else is written to the log."""

    files: Files
    file: File
    """The log's last one."""
    end: int
    """Bytes behind that are nobody's."""
    left_files: Sequence[str]
    """Of segments that were begun and never joined the log."""
    synced_directory: str | None
    """The log's, if what goes may be on the disk already: it must not come back with a power cut in the place
    of batches that were answered since, and replicated with the same offsets and epoch."""

    def run(self) -> None:
        """Raises OSError; then all of it is to be done again."""
        self.file.truncate(self.end)
        for path in self.left_files:
            with contextlib.suppress(FileNotFoundError):
                self.files.unlink(path)
        if self.synced_directory is not None:
            self.file.fdatasync()
            self.files.fsync_directory(self.synced_directory)


class GroupWrite(msgspec.Struct):
    """What a group of batches costs the disk."""

    files: Files
    writes: Sequence[FileWrite]
    now_ns: Callable[[], int]
    cut_first: Cut | None = None
    sync: Callable[[], object] | None = None
    """Afterwards, and its end is awaited too."""

    def run(self) -> int:
        """Does it all; how long the writes took, in nanoseconds, without the sync. Raises OSError."""
        began_ns = self.now_ns()
        try:
            if self.cut_first is not None:
                self.cut_first.run()
            for write in self.writes:
                if write.file is None:
                    self._write_new(write)
                else:
                    write_whole(write.file, write.buffers, write.size_bytes, write.position, write.path)
            took_ns = self.now_ns() - began_ns
            if self.sync is not None:
                self.sync()
        except OSError:
            self._cut_back()
            raise
        return took_ns

    def _write_new(self, write: FileWrite) -> None:
        file = self.files.open(write.path, create=True)
        try:
            if file.size():
                file.truncate(0)
            write_whole(file, write.buffers, write.size_bytes, write.position, write.path)
            if self.sync is not None:
                file.fdatasync()  # the log does not know of it yet, so its sync does not either
        finally:
            file.close()

    def _cut_back(self) -> None:
        for write in self.writes:
            if write.file is not None:
                with contextlib.suppress(OSError):  # tried again before the next write
                    write.file.truncate(write.position)


def write_whole(file: File, buffers: Sequence[Buffer], size_bytes: int, position: int, path: str) -> None:
    """Writes all of it. A write that took only a part is gone on with; a full disk then says so. Raises
    OSError."""
    written = file.write(buffers, position)
    if written == size_bytes:
        return
    data = memoryview(b"".join(buffers))
    while written < size_bytes:
        count = file.write([data[written:]], position + written)
        if count <= 0:
            raise OSError(errno.EIO, "The disk takes no more", path)
        written += count
