"""The records of a TLS session as they come from the wire, given out a few at a time.

The session handles in one go all records that it has, and not each of them brings plaintext: one that asks
for new keys takes 27 bytes of wire and some twenty microseconds. The headers of records are not encrypted, so
it can be counted here how many the session gets.
"""

from __future__ import annotations

from typing import Final

__all__ = ["RecordQueue"]

_HEADER_BYTES: Final = 5
_NOTHING: Final = memoryview(b"")


class RecordQueue:
    """Holds what has arrived and was not given to the session yet: at most what was put in at once, and the
    part of a header before it.

    has_more: whether `take` has something to give. taken_records: how many records began in what it gave
    last.
    """

    __slots__ = ("_left", "_to_header", "has_more", "taken_records")

    def __init__(self) -> None:
        self._left = _NOTHING
        """It begins with a header, as far as that has come."""
        self._to_header = 0
        """What is still to come before the next header, while nothing is left."""
        self.has_more = False
        self.taken_records = 0

    def take(self, most_records: int, arrived: memoryview | None = None) -> memoryview:
        """The next bytes, with so many headers at most: of what is left, or, once `has_more` is False, of
        that and of what has just arrived. The buffer of `arrived` is shared until `keep`, or until `has_more`
        is False."""
        data = self._left
        if arrived is not None:
            data = memoryview(bytes(data) + arrived) if data else arrived
        end, header, left = len(data), self._to_header, most_records
        while left and header + _HEADER_BYTES <= end:
            header += _HEADER_BYTES + (data[header + 3] << 8 | data[header + 4])
            left -= 1
        self.taken_records = most_records - left
        if header >= end:
            self._left, self._to_header, self.has_more = _NOTHING, header - end, False
            return data
        self._left, self._to_header = data[header:], 0
        self.has_more = end - header >= _HEADER_BYTES
        if not self.has_more:
            self.keep()  # more may arrive in the same buffer now
        return data[:header]

    def keep(self) -> None:
        """Copies what is left, because the buffer that it lies in will be used for others."""
        if self._left and not self._left.readonly:
            self._left = memoryview(bytes(self._left))
