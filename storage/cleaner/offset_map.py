"""The last offset of each key, in a bounded amount of memory.

It is a dictionary while that takes an eighth of the memory at most, because a table that is written in Python
takes five times as long. Then it is a table of slots of 24 bytes with open addressing and linear probing:

    uint64, uint64   the key: itself if it has up to 15 bytes, else a hash of 128 bits
    int64            offset + 1, 0 for an empty slot

Two long keys with the same hash would count as one key, and the record of the older one would be lost. With
2^128 values that does not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from mmap import mmap
from struct import Struct
from typing import Final

SLOT_BYTES: Final = 24

ENTRY_BYTES: Final = 120
"""The memory that an entry of a dictionary takes beside the key's own bytes: two objects, and its share of
the table."""

_SMALL_SHARE: Final = 8
_KEY: Final = Struct("=QQ")
_LONGEST_PLAIN_KEY: Final = 15
_PADDING: Final = tuple(b"\0" * (_LONGEST_PLAIN_KEY - size) + bytes((size,)) for size in range(16))


class OffsetMap:
    """The last offset of each key. latest_offset: the offset up to which the log was read to fill the map, -1
    for none."""

    __slots__ = ("_capacity", "_known", "_longest_key", "_size_bytes", "_table", "latest_offset")

    def __init__(self, size_bytes: int, load_factor: float = 0.9) -> None:
        """size_bytes: memory for at least a few slots. load_factor: the share of the table that may be
        full."""
        self._size_bytes = max(size_bytes, 8 * SLOT_BYTES)
        self._capacity = max(int(self._size_bytes // SLOT_BYTES * min(load_factor, 0.95)), 1)
        self._known: dict[bytes, int] = {}
        self._longest_key = 0
        self._table: _Table | None = None
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._known) if self._table is None else self._table.count

    @property
    def get(self) -> Callable[[bytes, int], int]:
        """A function that returns the last offset of a key, or the default if the key was not met. Ask for it
        anew after a `put_all`."""
        return self._known.get if self._table is None else self._table.get

    def put_all(self, entries: Sequence[tuple[bytes, int]]) -> bool:
        """Adds keys and offsets in the order of the log. False if a key is new and there is no room for it;
        those before it are added."""
        if not entries:
            return True
        if self._table is None and self._is_small_with(entries):
            self._known.update(entries)
            self.latest_offset = max(self.latest_offset, entries[-1][1])
            return True
        table = self._table or self._spread()
        for key, offset in entries:
            if not table.put(key, offset):
                return False
            self.latest_offset = max(self.latest_offset, offset)
        return True

    def _is_small_with(self, entries: Sequence[tuple[bytes, int]]) -> bool:
        count = len(self._known) + len(entries)
        self._longest_key = max(self._longest_key, max(len(key) for key, _ in entries))
        entry_bytes = ENTRY_BYTES + self._longest_key
        return count * entry_bytes <= self._size_bytes // _SMALL_SHARE and count <= self._capacity

    def _spread(self) -> _Table:
        """Moves all keys from the dictionary into the table, which has room for them. Meanwhile both take
        memory."""
        table = self._table = _Table(self._size_bytes // SLOT_BYTES, self._capacity)
        while self._known:
            table.put(*self._known.popitem())
        return table


class _Table:
    """The table of slots. It lies in an anonymous mapping, whose pages take no memory before they are written
    to."""

    __slots__ = ("_capacity", "_cells", "_slots", "count")

    def __init__(self, slots: int, capacity: int) -> None:
        self._slots = slots
        self._capacity = capacity
        self._cells = memoryview(mmap(-1, slots * SLOT_BYTES)).cast("Q")
        self.count = 0

    def put(self, key: bytes, offset: int) -> bool:
        """Adds a key. False if it is new and there is no room for it."""
        cell, first, second = self._find(key)
        cells = self._cells
        if not cells[cell + 2]:
            if self.count >= self._capacity:
                return False
            self.count += 1
            cells[cell] = first
            cells[cell + 1] = second
        cells[cell + 2] = offset + 1
        return True

    def get(self, key: bytes, default: int) -> int:
        last = self._cells[self._find(key)[0] + 2]
        return last - 1 if last else default

    def _find(self, key: bytes) -> tuple[int, int, int]:
        """The slot in which the key is or belongs, and its two numbers."""
        size = len(key)
        if size <= _LONGEST_PLAIN_KEY:
            first, second = _KEY.unpack(key + _PADDING[size])
        else:
            first, second = _KEY.unpack(blake2b(key, digest_size=16).digest())
        cells = self._cells
        cell = hash(key) % self._slots * 3
        end = len(cells)
        while cells[cell + 2] and (cells[cell] != first or cells[cell + 1] != second):
            cell += 3
            if cell == end:
                cell = 0
        return cell, first, second
