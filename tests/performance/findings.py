"""What the benchmarks by turns have found: figures of single runs, and the table that is made of them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

SIDES: Final = ("Barnabas", "Apache Kafka")
S = TypeVar("S")


class Finding(NamedTuple):
    """One figure of one run."""

    side: str
    what: str
    unit: str
    value: float


def in_turn(sides: Sequence[S], number: int) -> list[S]:
    """The one that begins changes from round to round."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def table(findings: Sequence[Finding]) -> str:
    """Medians, with the least and the most of the runs."""
    runs: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in findings:
        runs[each.what, each.unit][each.side].append(each.value)
    lines = [f"| | | {' | '.join(SIDES)} | ratio |", "|---|---|---|---|---|"]
    for (what, unit), sides in runs.items():
        ours, theirs = (sides.get(name, []) for name in SIDES)
        has_ratio = ours and theirs and statistics.median(theirs)
        ratio = f"**{statistics.median(ours) / statistics.median(theirs):.2f}**" if has_ratio else ""
        lines.append(f"| {what} | {unit} | {_spread(ours)} | {_spread(theirs)} | {ratio} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle = statistics.median(values)
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
