"""`.index`: from an offset to a place in the segment, by one entry per `index.interval.bytes` or so.

    int32  offset less the segment's base offset     the last offset of a batch
    int32  position                                  where that batch starts in the .log

A look-up gives the last entry at or below the offset; from its position on the batch is found by reading
headers, 4 KiB or so. The file is read in pages of 512 entries and the last few pages are remembered: some
consumers that read a segment from end to end, each at its own place, load each page once, and an idle log
keeps nothing in memory.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeAlias

from config.ports import Files
from storage.index_file import IndexFile, OffsetOverflow

ENTRY_BYTES: Final = 8

_ENTRY: Final = Struct(">ii")
_OFFSET: Final = Struct(">i")
_PAGE_ENTRIES: Final = 512
_NO_LIMIT: Final = 1 << 62
_REMEMBERED_PAGES: Final = 16
"""The largest number of pages of 4 KiB that are kept, and so the number of readers at different places that
do not disturb each other."""


_Page: TypeAlias = "tuple[array[int], array[int], int]"
"""Relative offsets, positions, and the relative offset from which on another page must be read."""


class OffsetIndex:
    """Entries in ascending order of offsets and positions. Reading them raises IndexLost if they are gone."""

    __slots__ = ("_file", "_other_pages", "_page_limit", "_page_offsets", "_page_positions", "base_offset")

    def __init__(self, files: Files, path: str, base_offset: int, *, fresh: bool) -> None:
        self.base_offset = base_offset
        self._file = IndexFile(files, path, ENTRY_BYTES, fresh=fresh)
        self._page_offsets = array("i")
        self._page_positions = array("i")
        self._page_limit = 0
        """The relative offset of the entry behind the page. From there on another page must be read."""
        self._other_pages: tuple[_Page, ...] = ()
        """Pages that were read before, the last one first. None of them can get further entries, because a
        page with the last entry of all is not used for offsets behind that."""

    @property
    def file(self) -> IndexFile:
        return self._file

    @property
    def count(self) -> int:
        return self._file.count

    def append(self, offset: int, position: int) -> None:
        """Adds an entry. `offset` is the last one of the batch that starts at `position`. Raises
        OffsetOverflow."""
        relative = offset - self.base_offset
        try:
            entry = _ENTRY.pack(relative, position)
        except struct_error:
            raise OffsetOverflow(self._file.path, offset) from None
        self._file.append(entry)
        if relative < self._page_limit:
            self._page_limit = relative

    def last(self) -> tuple[int, int]:
        """Offset and position of the last entry, or the base offset and 0."""
        count = self._file.count
        if not count:
            return self.base_offset, 0
        entry = self._entry(count - 1)
        self._file.close()
        return entry

    def lookup(self, offset: int) -> int:
        """The position at which to begin to look for the batch with `offset`: it starts there or later."""
        return self.lookup_with_next(offset)[0]

    def lookup_with_next(self, offset: int) -> tuple[int, int]:
        """Does as `lookup`, and also returns the position of the next entry if the batch may begin with
        `offset` there, because the entry before is for the offset before it. Otherwise 0."""
        relative = offset - self.base_offset
        offsets = self._page_offsets
        if not offsets or not offsets[0] <= relative < self._page_limit:
            if not self._load_page(relative):
                return 0, 0
            offsets = self._page_offsets
        found = bisect_right(offsets, relative)
        if not found:
            return 0, 0
        positions = self._page_positions
        may_be_next = offsets[found - 1] == relative - 1 and found < len(positions)
        return positions[found - 1], positions[found] if may_be_next else 0

    def offset_behind(self, position: int) -> int | None:
        """The offset of the first entry at or behind a position; None if no entry is."""
        count = self._file.count
        first = bisect_left(range(count), position, key=lambda number: self._entry(number)[1])
        found = self._entry(first)[0] if first < count else None
        self._file.close()
        return found

    def entries(self) -> list[tuple[int, int]]:
        """Offset and position of all entries."""
        data = self._file.entries(0, self._file.count)
        self._file.close()
        return [(self.base_offset + relative, position) for relative, position in _ENTRY.iter_unpack(data)]

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or above `offset`."""
        kept = bisect_left(range(self._file.count), offset, key=lambda number: self._entry(number)[0])
        self._file.truncate(kept)
        self._file.close()
        self._forget_pages()

    def remake(self, entries: list[tuple[int, int]]) -> None:
        """Replaces all entries by these pairs of offset and position. Raises OffsetOverflow."""
        base_offset = self.base_offset
        try:
            data = b"".join([_ENTRY.pack(offset - base_offset, position) for offset, position in entries])
        except struct_error:
            raise OffsetOverflow(self._file.path, entries[-1][0]) from None
        self._file.remake(data)
        self._forget_pages()

    def reset(self) -> None:
        self._file.reset()
        self._forget_pages()

    def is_sane(self, log_bytes: int) -> bool:
        """What can be checked without reading the log: the size of the index, and that its last entry
        fits."""
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
        """Reads the page whose first entry is the last start of a page at or below `relative`."""
        others = self._put_page_aside()
        for number, (offsets, positions, limit) in enumerate(others):
            if offsets[0] <= relative < limit:
                self._page_offsets, self._page_positions, self._page_limit = offsets, positions, limit
                self._other_pages = others[:number] + others[number + 1 :]
                return True
        written = self._file.written_count
        count = self._file.count
        if written < count and self._first_of(written) <= relative:
            return self._set_page(written, count - written)
        page_starts = range(0, written, _PAGE_ENTRIES)
        behind = bisect_right(page_starts, relative, key=self._first_of)
        if behind == 0:
            self._file.close()
            return False
        first = page_starts[behind - 1]
        return self._set_page(first, min(_PAGE_ENTRIES, written - first))

    def _put_page_aside(self) -> tuple[_Page, ...]:
        """Puts the current page in front of the other ones, and returns all of them."""
        others = self._other_pages
        if self._page_offsets:
            limit = self._page_limit if self._page_limit != _NO_LIMIT else self._page_offsets[-1] + 1
            page = (self._page_offsets, self._page_positions, limit)
            others = self._other_pages = (page, *others[: _REMEMBERED_PAGES - 2])
        self._page_offsets = array("i")
        return others

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

    def _forget_pages(self) -> None:
        self._other_pages = ()
        self._page_offsets = array("i")
        self._page_positions = array("i")
