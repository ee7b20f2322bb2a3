"""The faults that are at work at the moment, each with its end.

A fault ends by itself after the time that its step has drawn, or when its kind is healed, whichever comes
first; it ends once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.event_loop import EventLoop

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["ActiveFaults", "healing"]

_MS: Final = 1_000_000


class ActiveFaults:
    """Of one world."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._ends: dict[int, tuple[str, Callable[[], None]]] = {}
        self._number = 0

    def begin(self, kind: str, duration_ms: int, end: Callable[[], None]) -> None:
        """A fault of this kind has begun. end: mends it."""
        self._number += 1
        self._ends[self._number] = (kind, end)
        self._loop.call_later(duration_ms * _MS, partial(self._end, self._number))

    def _end(self, number: int) -> None:
        _, end = self._ends.pop(number, ("", None))
        if end is not None:
            end()

    def end_all(self, kind: str) -> None:
        for number in [each for each, (its_kind, _) in self._ends.items() if its_kind == kind]:
            self._end(number)

    def kinds(self) -> list[str]:
        """Those at work, in the order in which they have begun."""
        return [kind for kind, _ in self._ends.values()]


def healing(kind: str) -> Callable[[ClusterRun], None]:
    """For `Verb.heal` of a fault that is known here under this name."""

    def heal(run: ClusterRun) -> None:
        run.world.faults.end_all(kind)

    return heal
