"""What some seeds of a whole cluster come to: every interpreter must print the same.

    python -m tests.simulation.cluster_digests FIRST COUNT SECONDS

`.ci/newest` compares two versions of Python by it, and a test compares two PYTHONHASHSEEDs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker.simulation.cluster.cluster_running import run_cluster


def digests(first: int, count: int, seconds: int) -> list[str]:
    """A line for each seed, with a digest of every byte that arrived anywhere and its time."""
    lines = []
    for seed in range(first, first + count):
        result = run_cluster(seed, seconds * 1_000)
        lines.append(f"{seed} {result.events} {result.simulated_ms} {result.digest} {result.failure}")
    return lines


def main(arguments: Sequence[str]) -> None:
    first, count, seconds = (int(each) for each in arguments)
    print("\n".join(digests(first, count, seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
