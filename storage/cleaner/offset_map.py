"""The last offset of each key, in a fixed amount of memory.

A table of slots of 24 bytes, open addressing, one probe after the other:

    uint64, uint64   the key: itself if it has up to 15 bytes, else a hash of 128 bits
    int64            offset + 1, 0 for an empty slot

A dictionary would take eight times as much. Two long keys with the same hash would be one key, and the older
one's record be lost: with 2^128 values that does not happen by chance, and by intent not with a keyed hash.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

SLOT_BYTES: Final = 24

_KEY: Final = Struct("=QQ")
_LONGEST_PLAIN_KEY: Final = 15
_PADDING: Final = tuple(b"\0" * (_LONGEST_PLAIN_KEY - size) + bytes((size,)) for size in range(16))


class OffsetMap:
    """latest_offset: up to where the log was read to fill it, -1 for nowhere."""

    __slots__ = ("_capacity", "_cells", "_count", "_secret", "_slots", "latest_offset")

    def __init__(self, size_bytes: int, load_factor: float = 0.9, secret: bytes = b"") -> None:
        """size_bytes: at least a few slots. secret: 16 bytes or none, for the hash of long keys."""
        self._slots = max(size_bytes // SLOT_BYTES, 8)
        self._capacity = max(int(self._slots * min(load_factor, 0.95)), 1)
        self._cells = memoryview(bytearray(self._slots * SLOT_BYTES)).cast("Q")
        self._secret = secret
        self._count = 0
        self.latest_offset = -1

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """`offset` is the key's last one so far. False if the key is new and there is no room for it."""
        cell, first, second = self._find(key)
        cells = self._cells
        if not cells[cell + 2]:
            if self._count >= self._capacity:
                return False
            self._count += 1
            cells[cell] = first
            cells[cell + 1] = second
        cells[cell + 2] = offset + 1
        if offset > self.latest_offset:
            self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """The key's last offset, -1 if it was not met."""
        return self._cells[self._find(key)[0] + 2] - 1

    def _find(self, key: bytes) -> tuple[int, int, int]:
        """The cell where the key is or belongs, and its two numbers."""
        size = len(key)
        if size <= _LONGEST_PLAIN_KEY:
            first, second = _KEY.unpack(key + _PADDING[size])
        else:
            first, second = _KEY.unpack(blake2b(key, digest_size=16, key=self._secret).digest())
        cells = self._cells
        cell = hash(key) % self._slots * 3
        end = len(cells)
        while cells[cell + 2] and (cells[cell] != first or cells[cell + 1] != second):
            cell += 3
            if cell == end:
                cell = 0
        return cell, first, second
