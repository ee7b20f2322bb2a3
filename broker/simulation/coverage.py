"""What a run met: a simulation that never truncates a log says nothing about truncation."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Coverage"]


class Coverage:
    """Counts by name. Transitions are `Follower > Prospective`, answers `Fetch: FENCED_LEADER_EPOCH`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def longest(self, name: str, number: int) -> None:
        """Keeps the largest; the name begins with `longest`."""
        self.counts[name] = max(number, self.counts.get(name, 0))

    def add(self, counts: Mapping[str, int]) -> None:
        """Another run's."""
        for name, number in counts.items():
            if name.startswith("longest"):
                self.longest(name, number)
            else:
                self.counts[name] = self.counts.get(name, 0) + number

    def lines(self) -> list[str]:
        """One a line, by name."""
        return [f"{number:>12,}  {name}" for name, number in sorted(self.counts.items())]
