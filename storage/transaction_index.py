"""`.txnindex`: the aborted transactions whose marker lies in a segment, in the order of the markers.

    int16  version (0)
    int64  producer id
    int64  first offset           of the transaction's first batch
    int64  last offset            of its marker
    int64  last stable offset     of the log, right after the marker

The file is made with its first entry: most segments never have one. New entries wait in memory until the
segment is sealed, as those of the other indexes do; after a crash they are found again from the markers. The
last entry field bounds the search: an aborted transaction that began below an offset ends in an entry before
the first one whose last stable offset is at or above it.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct
from typing import Final, NamedTuple

from config.ports import Files
from storage.index_file import FileTail

ENTRY_BYTES: Final = 34

_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Entries ascend by last offset. Methods that touch the file raise OSError."""

    __slots__ = ("_entries", "_files", "_path", "_written_count", "has_changed")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        """The entries; None while the file has not been read."""
        self._written_count = 0
        self.has_changed = False
        """Whether this process has changed the file."""

    @property
    def path(self) -> str:
        return self._path

    @property
    def known(self) -> list[AbortedTransaction] | None:
        """All of them, for who only looks; None while the file has not been read."""
        return self._entries

    def entries(self) -> list[AbortedTransaction]:
        """All entries, up to one that is incomplete or of another version."""
        if self._entries is None:
            self._entries = decode_entries(self._read())
            self._written_count = len(self._entries)
        return self._entries

    def _read(self) -> bytes:
        try:
            return self._files.read_bytes(self._path)
        except FileNotFoundError:
            return b""

    def is_sane(self, base_offset: int) -> bool:
        """What can be checked without reading the log: the file consists of whole entries, for ascending
        markers of a segment that begins at this offset. Raises OSError."""
        data = self._read()
        lasts = [entry.last_offset for entry in decode_entries(data)]
        if len(lasts) * ENTRY_BYTES != len(data) or lasts != sorted(lasts):
            return False
        return not lasts or lasts[0] >= base_offset

    def append(self, aborted: AbortedTransaction) -> None:
        self.entries().append(aborted)

    def collect(self, from_offset: int, upper_bound_offset: int, into: list[AbortedTransaction]) -> bool:
        """Adds the transactions that concern records in [from_offset, upper_bound_offset). Returns whether no
        later segment can have more."""
        entries = self.entries()
        first = bisect_left(entries, from_offset, key=lambda each: each.last_offset)
        for number in range(first, len(entries)):
            entry = entries[number]
            if entry.first_offset < upper_bound_offset:
                into.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drops the transactions whose marker lies at or above `offset`.

        The remaining ones are written into a new file: after a power cut the old one must not come back with
        transactions that were truncated.
        """
        entries = self.entries()
        while entries and entries[-1].last_offset >= offset:
            entries.pop()
        if self._written_count > len(entries):
            self.has_changed = True
            self._files.unlink(self._path)
            self._written_count = 0
            self.write()

    def reset(self) -> None:
        """Forgets all entries, before they are made again from the batches. The file goes in any case."""
        self._entries = []
        self._written_count = 0
        if self._files.exists(self._path):
            self.has_changed = True
            self._files.unlink(self._path)

    def unwritten(self) -> FileTail | None:
        """The entries that are not in the file yet, None if all are."""
        if self._entries is None or self._written_count == len(self._entries):
            return None
        data = encode_entries(self._entries[self._written_count :])
        return FileTail(self._path, self._written_count * ENTRY_BYTES, data)

    def note_written(self, tail: FileTail) -> None:
        self._written_count = tail.end // ENTRY_BYTES
        self.has_changed = True

    def write(self) -> None:
        """Writes the entries that are only in memory to the file."""
        tail = self.unwritten()
        if tail is not None:
            tail.write(self._files)
            self.note_written(tail)


def encode_entries(entries: list[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_entries(data: bytes) -> list[AbortedTransaction]:
    """The whole entries at the beginning, up to the first one that is not valid."""
    whole = len(data) - len(data) % ENTRY_BYTES
    entries: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(memoryview(data)[:whole]):
        entry = AbortedTransaction(*fields)
        if version > _VERSION or version < 0 or entry.first_offset > entry.last_offset:
            break
        entries.append(entry)
    return entries
