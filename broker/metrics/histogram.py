"""Times in fixed buckets.

A histogram is a plain list of counts, so that recording is one line wherever it happens:

    buckets[bisect_left(BOUNDS_NS, elapsed_ns)] += 1

The bounds grow by the fourth root of two from 1 µs to some 134 s: a quantile is off by a fifth at most, and
two histograms are added by adding their lists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_FIRST_NS: Final = 1_000
_STEPS: Final = 109

BOUNDS_NS: Final = tuple(round(_FIRST_NS * 2 ** (step / 4)) for step in range(_STEPS))
"""The upper bounds of the buckets, inclusive. The last bucket holds everything beyond them."""


WINDOW_MS: Final = 60_000
WINDOWS: Final = 5
RECENTLY: Final = "over the last 4 to 5 minutes"
"""What the last windows are, in the descriptions of metrics."""

_NO_SAMPLES: Final = (0,) * (len(BOUNDS_NS) + 1)


def new_buckets() -> list[int]:
    return list(_NO_SAMPLES)


class RecentBuckets:
    """The samples of the last minutes of a histogram. It is told when a window is over, and keeps what the
    histogram held at the end of each of the last windows; nothing is to be done when a sample is recorded.

    Quantiles of all samples since the start would not be moved for hours by a disk that becomes slow after
    some days. Kafka's are mostly of the last five minutes.
    """

    __slots__ = ("_before", "_buckets")

    def __init__(self, buckets: list[int]) -> None:
        self._buckets = buckets
        self._before: deque[Sequence[int]] = deque((_NO_SAMPLES,), WINDOWS)

    def end_window(self) -> None:
        self._before.append(tuple(self._buckets))

    def buckets(self) -> list[int]:
        """The histogram of the samples of the last windows and of the one that is not over yet."""
        return [count - before for count, before in zip(self._buckets, self._before[0], strict=True)]


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
