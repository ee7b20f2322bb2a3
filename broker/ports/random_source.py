"""Randomness of the operating system: ids must not be guessable, jitter needs no more than that.

It is drawn a page at a time: a system call for each partition that is placed would cost more than the
placing.
"""

from __future__ import annotations

import os
from typing import Final

from protocol.errors import invariant

_PAGE_BYTES: Final = 4096
_DRAW_BYTES: Final = 8
_FRACTION_BITS: Final = 53


class SystemRandomSource:
    """`config.ports.RandomSource` over `os.urandom`. A byte is given out once."""

    __slots__ = ("_page", "_position")

    def __init__(self) -> None:
        self._page = b""
        self._position = 0

    def random_bytes(self, count: int) -> bytes:
        if count > _PAGE_BYTES:
            return os.urandom(count)
        end = self._position + count
        if end > len(self._page):
            self._page = os.urandom(_PAGE_BYTES)
            end = count
        self._position = end
        return self._page[end - count : end]

    def below(self, bound: int) -> int:
        invariant(bound >= 1, "a choice needs at least one possibility", bound=bound)
        width = max(_DRAW_BYTES, (bound.bit_length() + 7) // 8 + 1)
        fair = (1 << 8 * width) - (1 << 8 * width) % bound
        while True:
            drawn = int.from_bytes(self.random_bytes(width))
            if drawn < fair:
                return drawn % bound

    def fraction(self) -> float:
        drawn = int.from_bytes(self.random_bytes(_DRAW_BYTES))
        return (drawn >> (8 * _DRAW_BYTES - _FRACTION_BITS)) / (1 << _FRACTION_BITS)
