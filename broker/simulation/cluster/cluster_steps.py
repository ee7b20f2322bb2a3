"""The steps of a run: what befalls a cluster, and when.

A step is a time, a verb, a number for whom, and a number of random bits. All steps of a run are drawn before
it begins, from streams of their own, so a step that is left out changes none of the others. A step says all
that it needs, its duration too: what it has broken heals by itself, and a step that finds nothing to do at
its moment does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from broker.simulation.seeded_random import SeededRandom

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["ClusterStep", "Verb", "draw_steps"]

_BITS: Final = 1 << 32


class ClusterStep(msgspec.Struct, frozen=True):
    """at_ms: after the beginning of the trouble."""

    at_ms: int
    verb: str
    whom: int
    random_bits: int

    def __str__(self) -> str:
        return f"{self.at_ms / 1e3:10.3f}  {self.verb} {self.whom} {self.random_bits}"

    def random(self) -> SeededRandom:
        """Random numbers of this step alone, for durations and the like."""
        return SeededRandom(self.random_bits, self.verb)


class Verb(msgspec.Struct, frozen=True):
    """Something that can befall a cluster.

    play: does it, and says in a few words what it did; None if it found nothing to do. weight: how often it
    is drawn beside the others, where a plan has it. heal: ends at once whatever it has begun and not yet
    ended; it may be called at any time.
    """

    play: Callable[[ClusterRun, ClusterStep], str | None]
    weight: int
    heal: Callable[[ClusterRun], None] | None = None


def draw_steps(seed: int, weights: Mapping[str, int], duration_ms: int, gap_ms: int) -> list[ClusterStep]:
    """The seed's own steps, in order; none without weights."""
    random = SeededRandom(seed, "steps")
    verbs = sorted(weights)
    steps: list[ClusterStep] = []
    at_ms = 0
    while verbs:
        at_ms += random.between(1, 2 * gap_ms)
        if at_ms >= duration_ms:
            break
        verb = verbs[random.weighted([weights[each] for each in verbs])]
        steps.append(ClusterStep(at_ms, verb, random.below(_BITS), random.below(_BITS)))
    return steps
