"""`.timeindex`: from a timestamp to an offset.

    int64  timestamp                                 the largest in the segment up to here
    int32  offset less the segment's base offset     the last offset of the batch that holds it

Timestamps only rise from entry to entry. A record with timestamp T or later lies behind the last entry
below T, so a look-up gives an offset to begin from. When a segment is sealed its largest timestamp is
added if it is not there yet: the last entry then says when the segment has expired.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from struct import error as struct_error
from typing import Final

from config.ports import Files
from storage.index_file import IndexFile, OffsetOverflow

ENTRY_BYTES: Final = 12
NO_TIMESTAMP: Final = -1

_ENTRY: Final = Struct(">qi")


class TimeIndex:
    """Entries in ascending order of timestamps and of offsets. Reading them raises IndexLost if they are
    gone."""

    __slots__ = ("_file", "_last", "base_offset")

    def __init__(self, files: Files, path: str, base_offset: int, *, fresh: bool) -> None:
        self.base_offset = base_offset
        self._file = IndexFile(files, path, ENTRY_BYTES, fresh=fresh)
        self._last: tuple[int, int] | None = None

    @property
    def file(self) -> IndexFile:
        return self._file

    @property
    def count(self) -> int:
        return self._file.count

    def last(self) -> tuple[int, int]:
        """Timestamp and offset of the last entry, or -1 and the base offset."""
        if self._last is None:
            count = self._file.count
            self._last = self._entry(count - 1) if count else (NO_TIMESTAMP, self.base_offset)
            self._file.close()
        return self._last

    def entries(self) -> list[tuple[int, int]]:
        """Timestamp and offset of all entries."""
        data = self._file.entries(0, self._file.count)
        self._file.close()
        return [(timestamp, self.base_offset + relative) for timestamp, relative in _ENTRY.iter_unpack(data)]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if its timestamp is above the last one's. Raises OffsetOverflow."""
        if timestamp > (self._last or self.last())[0]:
            try:
                entry = _ENTRY.pack(timestamp, offset - self.base_offset)
            except struct_error:
                raise OffsetOverflow(self._file.path, offset) from None
            self._file.append(entry)
            self._last = (timestamp, offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry with a timestamp at or below the given one, or -1 and the base offset."""
        behind = bisect_right(range(self._file.count), timestamp, key=lambda number: self._entry(number)[0])
        found = self._entry(behind - 1) if behind else (NO_TIMESTAMP, self.base_offset)
        self._file.close()
        return found

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or above `offset`."""
        kept = bisect_left(range(self._file.count), offset, key=lambda number: self._entry(number)[1])
        self._file.truncate(kept)
        self._file.close()
        self._last = None

    def remake(self, entries: list[tuple[int, int]]) -> None:
        """Replaces all entries by these pairs of timestamp and offset. Raises OffsetOverflow."""
        base_offset = self.base_offset
        try:
            data = b"".join([_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in entries])
        except struct_error:
            raise OffsetOverflow(self._file.path, entries[-1][1]) from None
        self._file.remake(data)
        self._last = None

    def reset(self) -> None:
        self._file.reset()
        self._last = None

    def is_sane(self) -> bool:
        """What can be checked without reading the log: the size of the index, and that its last entry is
        one."""
        if self._file.has_odd_size():
            return False
        if self._file.count == 0:
            return True
        timestamp, offset = self.last()
        first_timestamp = self._entry(0)[0]
        self._file.close()
        return timestamp >= first_timestamp and offset >= self.base_offset and timestamp > NO_TIMESTAMP

    def _entry(self, number: int) -> tuple[int, int]:
        timestamp, relative = _ENTRY.unpack(self._file.entry(number))
        return timestamp, self.base_offset + relative
