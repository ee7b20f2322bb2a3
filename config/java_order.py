"""The order in which Java's hash tables yield texts.

Kafka names several faulty configs in one sentence, and the first of several faults, in the order of a
HashMap. People compare such sentences, so it is reproduced: a text's hash picks its bucket, and the table has
the smallest power of two that leaves a quarter of it free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LEAST_BUCKETS: Final = 16


def java_hash(text: str) -> int:
    """String.hashCode as an unsigned number: over UTF-16 units, modulo 2**32."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value


def hash_order(texts: Iterable[str]) -> list[str]:
    """The texts as a HashSet of them is walked; those that share a bucket keep their order."""
    distinct = list(dict.fromkeys(texts))
    buckets = _LEAST_BUCKETS
    while len(distinct) * 4 > buckets * 3:
        buckets *= 2

    def bucket(text: str) -> int:
        value = java_hash(text)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(distinct, key=bucket)
