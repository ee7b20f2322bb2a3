"""Open files held by count, and ranges of them that go to a socket untouched.

A fetch answers with a slice: the kernel copies the bytes from the page cache to the socket (sendfile) and
Python never sees them. Between the answer and the last byte sent the log may roll, truncate or delete the
segment. A descriptor's number is used again at once for another file, so closing it too early would send
another topic's bytes. Hence: whoever keeps a slice beyond the current call says `retain`, and `release`
when the last byte is gone; a file that should close does so at the last release.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from config.ports import Buffer, File, Files
from protocol.errors import invariant
from storage.open_files import OpenFiles


class FileOwner(Protocol):
    """Keeps a method of an open file, and must know when the file is closed."""

    def file_closed(self) -> None:
        """Called when the file was closed because too many files were open. The next use must ask for it
        again."""
        ...


class SharedFile:
    """A file that is opened when first needed and closed when nobody holds it any more."""

    __slots__ = ("_file", "_files", "_holds", "_open_files", "_retired", "_write", "owner", "path", "warm")

    def __init__(self, files: Files, path: str, *, write: bool) -> None:
        self.path = path
        """The path of the file now; a rename of the open file changes it."""
        self._files = files
        self._write = write
        self._file: File | None = None
        self._holds = 0
        self._retired = False
        self._open_files: OpenFiles | None = getattr(files, "open_files", None)
        """Counts the open files, if there is a bound for them."""
        self.owner: FileOwner | None = None
        self.warm = (0, 0, 0)
        """Notes of the code that sends slices, see `broker.network.response_pieces.SharedBySlices`."""

    def file(self) -> File:
        """The open file. Raises OSError if it cannot be opened, ValueError after it was closed for good."""
        file = self._file
        if file is None:
            if self._retired:
                raise ValueError(f"{self.path} is closed")
            file = self._opened(self._files.open(self.path, write=self._write))
        return file

    def create(self) -> File:
        """Opens the file, which is created if it is missing."""
        if self._file is None:
            return self._opened(self._files.open(self.path, create=True))
        return self._file

    def _opened(self, file: File) -> File:
        self._file = file
        if self._open_files is not None:
            self._open_files.opened(self)
        return file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def holds(self) -> int:
        return self._holds

    def retain(self) -> None:
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if self._holds < 0:
            invariant(False, "A shared file is released as often as it is retained", path=self.path)
        if self._holds == 0:
            if self._retired:
                self._close()
            elif self._open_files is not None and self._open_files.is_over:
                self.close_if_unused()

    def close_when_unused(self) -> None:
        """Closes the file now, or at its last release. It is not opened again."""
        self._retired = True
        if self._holds == 0:
            self._close()

    def close_if_unused(self) -> bool:
        """Closes the file if nobody holds it, and returns whether it did. The next use opens it again."""
        if self._holds:
            return False
        self._close()
        if self.owner is not None:
            self.owner.file_closed()
        return True

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            if self._open_files is not None:
                self._open_files.closed(self)
            file.close()


class LogSlice(msgspec.Struct, gc=False):
    """A range of a segment: whole batches, of which the last one may be incomplete. It is a value of a
    `Records` field.

    It does not keep the file open by itself. Code that keeps the slice beyond the call that has made it calls
    `retain` once, and `release` later.
    """

    shared: SharedFile
    position: int
    """The first byte in the file, which is the start of a batch."""
    size_bytes: int
    base_offset: int
    """The base offset of the first batch. It may be lower than the offset that was asked for."""
    segment_base_offset: int
    is_recent: bool = False
    """Whether it is among the last batches that this process has appended, so that it is in the page
    cache."""

    def retain(self) -> None:
        self.shared.retain()

    def release(self) -> None:
        self.shared.release()

    def fileno(self) -> int | None:
        """The descriptor for sendfile, None for a file in memory. It is valid while the slice is retained."""
        return self.shared.file().fileno()

    def read(self) -> bytes:
        """The bytes as they are now. They are fewer than `size_bytes` only if the file shrank."""
        return self.shared.file().pread(self.size_bytes, self.position)

    def read_piece(self, start: int, size_bytes: int) -> bytes:
        """At most `size_bytes` bytes, from byte `start` of the slice on."""
        return self.shared.file().pread(min(size_bytes, self.size_bytes - start), self.position + start)

    def read_into(self, buffer: Buffer, start: int = 0) -> int:
        """Fills `buffer` from byte `start` of the slice on. Returns the number of bytes."""
        view = memoryview(buffer)
        data = self.read_piece(start, len(view))
        view[: len(data)] = data
        return len(data)
