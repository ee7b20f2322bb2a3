"""`.index`: from an offset to a place in the segment, by one entry per `index.interval.bytes` or so.

    int32  offset less the segment's base offset     the last offset of a batch
    int32  position                                  where that batch starts in the .log

A look-up gives the last entry at or below the offset; from its position on the batch is found by reading
headers, 4 KiB or so. The file is read in pages of 512 entries and the last page is remembered: a consumer
that reads a segment from end to end loads each page once, and an idle log keeps nothing in memory.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final

from config.ports import Files
from storage.index_file import IndexFile

ENTRY_BYTES: Final = 8

_ENTRY: Final = Struct(">ii")
_OFFSET: Final = Struct(">i")
_PAGE_ENTRIES: Final = 512
_NO_LIMIT: Final = 1 << 62


class OffsetIndex:
    """Entries in ascending order of both numbers. Reading them raises IndexLost where they are gone."""

    __slots__ = ("_file", "_page_limit", "_page_offsets", "_page_positions", "base_offset")

    def __init__(self, files: Files, path: str, base_offset: int, *, fresh: bool) -> None:
        self.base_offset = base_offset
        self._file = IndexFile(files, path, ENTRY_BYTES, fresh=fresh)
        self._page_offsets = array("i")
        self._page_positions = array("i")
        self._page_limit = 0
        """The relative offset of the entry behind the page: from there on another page answers."""

    @property
    def file(self) -> IndexFile:
        return self._file

    @property
    def count(self) -> int:
        return self._file.count

    def append(self, offset: int, position: int) -> None:
        """`offset` is the last one of the batch that starts at `position`."""
        relative = offset - self.base_offset
        self._file.append(_ENTRY.pack(relative, position))
        if relative < self._page_limit:
            self._page_limit = relative

    def last(self) -> tuple[int, int]:
        """(offset, position) of the last entry, or (base offset, 0)."""
        count = self._file.count
        if not count:
            return self.base_offset, 0
        entry = self._entry(count - 1)
        self._file.close()
        return entry

    def lookup(self, offset: int) -> int:
        """Where to begin to look for the batch with `offset`: it starts there or later."""
        relative = offset - self.base_offset
        offsets = self._page_offsets
        if not offsets or not offsets[0] <= relative < self._page_limit:
            if not self._load_page(relative):
                return 0
            offsets = self._page_offsets
        found = bisect_right(offsets, relative)
        return self._page_positions[found - 1] if found else 0

    def offset_behind(self, position: int) -> int | None:
        """The offset of the first entry at or behind a position; None if no entry is."""
        low, high = 0, self._file.count
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        found = self._entry(low)[0] if low < self._file.count else None
        self._file.close()
        return found

    def entries(self) -> list[tuple[int, int]]:
        """(offset, position) of all."""
        data = self._file.entries(0, self._file.count)
        self._file.close()
        return [(self.base_offset + relative, position) for relative, position in _ENTRY.iter_unpack(data)]

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or above `offset`."""
        low, high = 0, self._file.count
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] < offset:
                low = middle + 1
            else:
                high = middle
        self._file.truncate(low)
        self._file.close()
        self._forget_page()

    def remake(self, entries: list[tuple[int, int]]) -> None:
        """These (offset, position) are all from now on."""
        base_offset = self.base_offset
        self._file.remake(
            b"".join([_ENTRY.pack(offset - base_offset, position) for offset, position in entries])
        )
        self._forget_page()

    def reset(self) -> None:
        self._file.reset()
        self._forget_page()

    def is_sane(self, log_bytes: int) -> bool:
        """What can be seen of an index without reading the log: its size, and that its last entry fits."""
        if self._file.has_odd_size():
            return False
        if self._file.count == 0:
            return True
        offset, position = self.last()
        return offset > self.base_offset and 0 <= position < log_bytes

    def _entry(self, number: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack(self._file.entry(number))
        return self.base_offset + relative, position

    def _load_page(self, relative: int) -> bool:
        """Makes the page current whose first entry is the last page start at or below `relative`."""
        written = self._file.written_count
        count = self._file.count
        if written < count and self._first_of(written) <= relative:
            return self._set_page(written, count - written)
        low, high = 0, (written + _PAGE_ENTRIES - 1) // _PAGE_ENTRIES
        while low < high:
            middle = (low + high) // 2
            if self._first_of(middle * _PAGE_ENTRIES) <= relative:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            self._file.close()
            return False
        first = (low - 1) * _PAGE_ENTRIES
        return self._set_page(first, min(_PAGE_ENTRIES, written - first))

    def _set_page(self, first: int, count: int) -> bool:
        numbers = array("i", self._file.entries(first, count + 1))
        self._file.close()
        if sys.byteorder == "little":
            numbers.byteswap()
        self._page_offsets = numbers[0 : 2 * count : 2]
        self._page_positions = numbers[1 : 2 * count : 2]
        self._page_limit = numbers[2 * count] if len(numbers) > 2 * count else _NO_LIMIT
        return True

    def _first_of(self, number: int) -> int:
        relative: int = _OFFSET.unpack_from(self._file.entry(number))[0]
        return relative

    def _forget_page(self) -> None:
        self._page_offsets = array("i")
        self._page_positions = array("i")
