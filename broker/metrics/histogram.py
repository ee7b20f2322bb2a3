"""Times in fixed buckets.

A histogram is a plain list of counts, so that recording is one line wherever it happens:

    buckets[bisect_left(BOUNDS_NS, elapsed_ns)] += 1

The bounds grow by the fourth root of two from 1 µs to some 134 s: a quantile is off by a fifth at most, and
two histograms are added by adding their lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_FIRST_NS: Final = 1_000
_STEPS: Final = 109

BOUNDS_NS: Final = tuple(round(_FIRST_NS * 2 ** (step / 4)) for step in range(_STEPS))
"""The upper bounds of the buckets, inclusive. The last bucket holds everything beyond them."""


def new_buckets() -> list[int]:
    return [0] * (len(BOUNDS_NS) + 1)


def quantiles_ms(buckets: Sequence[int], fractions: Sequence[float], zeros: int = 0) -> list[float]:
    """The times below which the fractions (ascending) of all samples lie; 0 where there are no samples.

    zeros: samples of no time at all, which were counted and not recorded.
    """
    total = sum(buckets) + zeros
    result: list[float] = []
    for fraction in fractions:
        rank = fraction * total
        result.append(_value_at(buckets, rank - zeros) / 1e6 if rank > zeros else 0.0)
    return result


def _value_at(buckets: Sequence[int], rank: float) -> float:
    edges = (0, *BOUNDS_NS, BOUNDS_NS[-1])
    seen = 0
    for count, (low, high) in zip(buckets, pairwise(edges), strict=True):
        if seen + count >= rank and count:
            return low + (high - low) * (rank - seen) / count
        seen += count
    return float(BOUNDS_NS[-1])
