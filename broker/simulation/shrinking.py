"""From a long run that fails to a short one that still does.

Delta debugging (Zeller): leave out a half of the steps, then quarters, then eighths …, and keep whatever
still fails. A step left out moves everything after it, so this is a search and no proof: the result is a
run from which no single step can be taken, found within a bounded number of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

__all__ = ["shortest"]


def shortest(steps: Sequence[T], still_fails: Callable[[list[T]], bool], largest_trials: int) -> list[T]:
    """A part of `steps`, in order, for which `still_fails` says yes; the whole if nothing can be left out."""
    kept = list(steps)
    trials = 0
    size = max(1, len(kept) // 2)
    while kept and trials < largest_trials:
        position = len(kept)
        shortened = False
        while position > 0 and trials < largest_trials:
            begin = max(0, position - size)
            candidate = kept[:begin] + kept[position:]
            trials += 1
            if still_fails(candidate):
                kept = candidate
                shortened = True
            position = begin
        if size == 1 and not shortened:
            break
        size = max(1, size // 2)
    return kept
