"""Chance from a seed: the same numbers on every machine, in every release of Python, in every process.

A stream of 64-bit words is the output of SHAKE-128 over `seed/name/block`, up to 8 KiB at a time, so a word
costs some 40 ns. Streams with different names are independent: the network throws other numbers than the
disks, and a fault that is taken out of a run (see `shrinking`) leaves the others as they were. Nothing here
is secret; nothing here asks the operating system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import shake_128
from struct import Struct
from typing import Final, TypeVar

T = TypeVar("T")

_FIRST_WORDS: Final = Struct("<64Q")
_WORDS: Final = Struct("<1024Q")
_SCALE: Final = 1.0 / (1 << 64)


class SeededRandom:
    """One named stream; also a side of `config.ports.RandomSource`."""

    __slots__ = ("_next", "name")

    def __init__(self, seed: int, name: str) -> None:
        self.name = f"{seed}/{name}"
        self._next = _words(self.name).__next__

    def word(self) -> int:
        """64 bits."""
        return self._next()

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""
        return self._next() % bound

    def between(self, least: int, most: int) -> int:
        """A whole number in [least, most]."""
        return least + self._next() % (most - least + 1)

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return (self._next() >> 11) * (1.0 / (1 << 53))

    def happens(self, probability: float) -> bool:
        return self._next() * _SCALE < probability

    def one_of(self, things: Sequence[T]) -> T:
        return things[self._next() % len(things)]

    def weighted(self, weights: Sequence[int]) -> int:
        """An index, each as often as its weight says; their sum is at least 1."""
        point = self._next() % sum(weights)
        for index, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return index
        return len(weights) - 1

    def random_bytes(self, count: int) -> bytes:
        return b"".join(self._next().to_bytes(8, "little") for _ in range(count // 8 + 1))[:count]


def _words(name: str) -> Iterator[int]:
    yield from _FIRST_WORDS.unpack(shake_128(f"{name}/0".encode()).digest(_FIRST_WORDS.size))
    block = 1
    while True:
        yield from _WORDS.unpack(shake_128(f"{name}/{block}".encode()).digest(_WORDS.size))
        block += 1
