"""A file of sorted entries of one size that only grows at its end.

Entries wait in memory and reach the file in pieces of 4 KiB, at a roll and at a flush: an index entry
costs the append a few bytes in a buffer and no system call. A crash may lose entries; the recovery of the
segment makes them again, so nothing here is ever synced for its own sake.

No descriptor stays open: whoever has read what he wanted says `close`, and the next reader opens again. A
node with many partitions has enough of them in its `.log` files. So the file may have gone, or been cut,
when it is wanted again. Reading never makes a file: it raises `IndexLost`, and whoever has the segment makes
the entries again (`remake`); nor is anything written behind a place that is not there.

Kafka allots an active index its full size in zeros and maps it; here a file is as long as its entries.
Both read both: a sealed index has no padding, and an unsealed one is rebuilt after a crash.
"""

from __future__ import annotations

import errno

import msgspec

from config.limits import INDEX_PENDING_BYTES
from config.ports import File, Files
from storage.file_io import write_fully


class FileTail(msgspec.Struct, frozen=True):
    """Bytes that are missing at the end of a file, as a plain value: a helper thread may write them."""

    path: str
    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def write(self, files: Files) -> None:
        """Writes the bytes, behind which the file ends. The file is created even if there are none. Raises
        OSError."""
        file = files.open(self.path, create=True)
        try:
            write_fully(file, (self.data,), len(self.data), self.position, self.path)
            if file.size() != self.end:
                file.truncate(self.end)
        finally:
            file.close()


class IndexLost(FileNotFoundError):
    """Entries that were in the file are not there any more: the file was removed or truncated from
    outside."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ENOENT, "An index is not as it was written", path)


class OffsetOverflow(OSError):
    """An index cannot hold the place of a batch: its offset is too far above the segment's base offset. Such
    a segment cannot be used."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__(errno.EOVERFLOW, f"Offset {offset} is too large for this segment", path)


class IndexFile:
    """Entries by number: those in the file first, then the ones that wait in memory."""

    __slots__ = ("_file", "_files", "_pending", "_written", "entry_bytes", "has_changed", "path")

    def __init__(self, files: Files, path: str, entry_bytes: int, *, fresh: bool) -> None:
        self.path = path
        self.entry_bytes = entry_bytes
        self._files = files
        self._file: File | None = None
        self._pending = bytearray()
        self._written = 0 if fresh else -1
        """The number of bytes of entries in the file; -1 until it has been looked at."""
        self.has_changed = False
        """Whether this process has changed the file. It may not be on the disk then."""

    @property
    def count(self) -> int:
        return (self._written_bytes() + len(self._pending)) // self.entry_bytes

    @property
    def written_count(self) -> int:
        """The number of entries in the file."""
        return self._written_bytes() // self.entry_bytes

    def append(self, entry: bytes) -> None:
        """Adds an entry behind the last. If the disk refuses the write, the entry keeps waiting in memory.

        Raises IndexLost.
        """
        self._pending += entry
        if len(self._pending) >= INDEX_PENDING_BYTES:
            try:
                self.write_pending()
            except IndexLost:
                raise
            except OSError:
                return  # the log's own write meets the same disk and reports it

    def note_copy_of(self, other: IndexFile) -> None:
        """Notes that the file has all entries of another index, which has been read."""
        self._written = other.count * other.entry_bytes

    def entry(self, number: int) -> bytes:
        return self.entries(number, 1)

    def entries(self, first: int, count: int) -> bytes:
        """Reads up to `count` entries from number `first` on, in the form that they have in the file. Raises
        IndexLost."""
        start = first * self.entry_bytes
        end = start + count * self.entry_bytes
        written = self._written_bytes()
        data = b""
        if start < written:
            wanted = min(end, written) - start
            data = self._existing().pread(wanted, start)
            if len(data) < wanted:
                self.close()
                raise IndexLost(self.path)
        if end > written:
            data += self._pending[max(start - written, 0) : end - written]
        return data

    def truncate(self, count: int) -> None:
        """Keeps the first `count` entries, in a new file: after a power cut the old one must not come back
        with entries for what was cut off. Raises OSError."""
        size = count * self.entry_bytes
        written = self._written_bytes()
        if size >= written:
            del self._pending[size - written :]
            return
        kept = self.entries(0, count)
        self.close()
        self.has_changed = True
        self._files.unlink(self.path)
        self._pending = bytearray(kept)
        self._written = 0
        self.write_pending()

    def write_pending(self) -> None:
        """Writes the waiting entries into the file. Raises OSError; they then still wait."""
        if not self._pending:
            return
        written, waiting = self._written_bytes(), len(self._pending)
        file = self._existing() if written else self._opened()
        if written and file.size() < written:
            self.close()
            raise IndexLost(self.path)
        self.has_changed = True
        write_fully(file, (bytes(self._pending),), waiting, written, self.path)
        self._written = written + waiting
        self._pending.clear()
        self.close()

    def seal(self) -> None:
        """Makes the file exactly its entries, also if there are none. Raises OSError."""
        tail = self.unwritten()
        tail.write(self._files)
        self.note_written(tail)

    def unwritten(self) -> FileTail:
        """The waiting entries. When they are in the file, it consists of exactly its entries."""
        return FileTail(self.path, self._written_bytes(), bytes(self._pending))

    def note_written(self, tail: FileTail) -> None:
        """A helper thread has written this tail to the file."""
        self.has_changed |= bool(tail.data)
        self._written = tail.end
        self._pending.clear()
        self.close()

    @property
    def is_lost(self) -> bool:
        """Whether entries that were in the file are not there any more. Raises OSError."""
        return self._written > 0 and self._size_bytes() < self._written

    def remake(self, entries: bytes) -> None:
        """Replaces all entries, in a new file. While the disk refuses them they wait in memory."""
        self.close()
        self.has_changed = True
        self._pending = bytearray(entries)
        self._written = 0
        try:
            if self._files.exists(self.path):
                self._files.unlink(self.path)
            self.write_pending()
        except OSError:
            return  # the next append or the seal tries again

    def reset(self) -> None:
        """Forgets all entries, before they are made again."""
        self._pending.clear()
        self._written = 0
        if self._files.exists(self.path) and self._files.status(self.path).size_bytes:
            self.has_changed = True
            self._opened().truncate(0)
            self.close()

    def close(self) -> None:
        """Closes the descriptor. The next use opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def has_odd_size(self) -> bool:
        """Whether the file does not end with a whole entry, or is not there."""
        size = self._size_bytes()
        if size < 0:
            return True
        odd_bytes = size % self.entry_bytes
        if self._written < 0:
            self._written = size - odd_bytes
        return odd_bytes != 0

    def _written_bytes(self) -> int:
        if self._written < 0:
            size = max(self._size_bytes(), 0)
            self._written = size - size % self.entry_bytes
        return self._written

    def _size_bytes(self) -> int:
        """The size of the file; -1 if there is none."""
        try:
            return self._files.status(self.path).size_bytes
        except FileNotFoundError:
            return -1

    def _existing(self) -> File:
        """The open file, which has entries already."""
        file = self._file
        if file is None:
            try:
                file = self._file = self._files.open(self.path, write=True)
            except FileNotFoundError:
                raise IndexLost(self.path) from None
        return file

    def _opened(self) -> File:
        """The open file, which is created if there is none."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path, create=True)
        return file
