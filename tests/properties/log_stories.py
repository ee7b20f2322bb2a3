"""The long run: many stories of logs beside their models, in several niced processes.

    nice python -m tests.properties.log_stories --first 1 --stories 20000 --processes 2 --report x.txt

`BARNABAS_LOG_SEEDS=N` tells the test how many it shall run. A story that fails is made short and printed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from tests.support.log_story.shrink import Outcome, run_seed, shrunk

AT_ONCE: Final = 100

MUST_BE_MET: Final = (
    "kill", "power", "EIO", "ENOSPC", "short", "torn write", "torn at a sector", "zeros behind", "names lost",
    "unsynced lost", "batches lost", "unanswered there", "start struck", "offline", "passes",
    "write fails", "rename fails", "sync fails", "open fails", "truncate fails",
    "dies at write", "dies at rename", "dies at sync", "dies at truncate",
    "cuts that may come back", "damage cut",
)  # fmt: skip
"""What a run of some hundred stories must have met, or it says nothing."""


def run_some(first: int, count: int) -> tuple[Counter[str], int, list[Outcome]]:
    """Counts of what was met, steps, and what failed."""
    counts: Counter[str] = Counter()
    steps = 0
    failed = []
    for seed in range(first, first + count):
        outcome = run_seed(seed)
        counts.update(outcome.counts)
        counts["effects"] += outcome.effects
        steps += outcome.steps_done
        if outcome.kind:
            failed.append(outcome)
    return counts, steps, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--stories", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report", type=Path)
    asked = parser.parse_args()
    os.nice(5)
    began = time.monotonic()
    counts: Counter[str] = Counter()
    steps = stories = 0
    failed: list[Outcome] = []
    with ProcessPoolExecutor(asked.processes) as pool:
        last = asked.first + asked.stories
        firsts = range(asked.first, last, AT_ONCE)
        sizes = [min(AT_ONCE, last - first) for first in firsts]
        for size, (some, taken, problems) in zip(sizes, pool.map(run_some, firsts, sizes), strict=True):
            counts += some
            steps += taken
            stories += size
            failed += problems
            if asked.report is not None:
                asked.report.write_text(
                    _report(asked.first, stories, steps, time.monotonic() - began, counts, failed)
                )
    print(_report(asked.first, stories, steps, time.monotonic() - began, counts, failed))
    kinds: dict[str, Outcome] = {}
    for outcome in failed:
        kinds.setdefault(outcome.failure.split(",")[0], outcome)
    for outcome in kinds.values():
        print(shrunk(outcome).text() + "\n")
    return 1 if failed else 0


def _report(
    first: int, stories: int, steps: int, seconds: float, counts: Counter[str], failed: list[Outcome]
) -> str:
    lines = [
        (
            f"{stories} stories from seed {first} on, {steps} steps, {counts['effects']} effects, "
            f"{seconds:.0f} s, {len(failed)} failed"
        ),
        *(f"seed {each.seed}: {each.failure[:200]}" for each in failed[:50]),
        *(f"{name:32} {count}" for name, count in sorted(counts.items())),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
