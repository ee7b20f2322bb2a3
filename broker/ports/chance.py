"""Randomness of the operating system: ids must not be guessable, jitter needs no more than that."""

from __future__ import annotations

import os
import random

from protocol.errors import invariant


class SystemChance:
    """`config.ports.Chance` over `os.urandom`."""

    __slots__ = ("_generator",)

    def __init__(self) -> None:
        self._generator = random.SystemRandom()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def below(self, bound: int) -> int:
        invariant(bound >= 1, "a choice needs at least one possibility", bound=bound)
        return self._generator.randrange(bound)

    def fraction(self) -> float:
        return self._generator.random()
