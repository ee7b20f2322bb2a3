"""Whole nodes in one thread: what happens comes from the seed alone, whatever Python's hashes are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def told(hash_seed: int, *seeds: int) -> list[str]:
    """The last lines of the stories, each with the digest of all messages."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.three_nodes", *map(str, seeds)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("power cut: ") == len(seeds)
    assert done.stdout.count("produced and read further") == len(seeds)
    return [line for line in done.stdout.splitlines() if " arrivals, " in line]


def test_a_power_cut_in_the_middle_of_an_append_is_the_same_story_each_time() -> None:
    first, again, other = told(0, 1, 1, 2)
    assert first == again
    assert first != other
    assert told(1, 1, 2) == [first, other]
