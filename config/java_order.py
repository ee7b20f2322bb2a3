"""The order in which Java's hash tables yield texts and other keys.

Kafka names several faulty configs in one sentence, and the first of several faults, in the order of a
HashMap. People compare such sentences, so it is reproduced: a text's hash picks its bucket, and the table has
the smallest power of two that leaves a quarter of it free.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import mul
from typing import Final, TypeVar

LEAST_BUCKETS: Final = 16
_NATIVE_UTF_16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"

KeyT = TypeVar("KeyT")


def java_hash(text: str) -> int:
    """Java's String.hashCode of the text, as an unsigned number: over its UTF-16 units, modulo 2**32."""
    units = memoryview(text.encode(_NATIVE_UTF_16, "surrogatepass")).cast("H")
    value: int = sum(map(mul, units, _powers(len(units))))
    return value & 0xFFFFFFFF


@lru_cache(maxsize=64)
def _powers(count: int) -> tuple[int, ...]:
    """The powers of 31 modulo 2**32 with which a text's units are multiplied, from the first unit's down to
    1."""
    powers = [1]
    for _ in range(count - 1):
        powers.append(powers[-1] * 31 & 0xFFFFFFFF)
    return tuple(reversed(powers[:count]))


def hash_order(texts: Iterable[str]) -> list[str]:
    """The texts in the order in which Java's HashSet iterates over them; texts in one bucket keep their
    order."""
    distinct = list(dict.fromkeys(texts))
    buckets = LEAST_BUCKETS
    while len(distinct) * 4 > buckets * 3:
        buckets *= 2
    return bucket_order(distinct, java_hash, buckets)


def bucket_order(keys: Iterable[KeyT], hash_of: Callable[[KeyT], int], buckets: int) -> list[KeyT]:
    """Distinct keys in the order of a table with so many buckets, a power of two.

    hash_of: Java's hashCode of a key, as an unsigned number.
    """

    def bucket(key: KeyT) -> int:
        value = hash_of(key)
        # HashMap.hash mixes the upper 16 bits into the lower; the mask is the modulo of a power of two.
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(keys, key=bucket)
