"""Whole nodes in one thread: what happens comes from the seed alone, whatever Python's hashes are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def told(hash_seed: int, *seeds: int, story: str = "three_nodes") -> str:
    """What is printed of the stories."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.simulation.{story}", *map(str, seeds)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("power cut: ") == len(seeds)
    return done.stdout


def digests(output: str) -> list[str]:
    """The last lines of the stories, each with the digest of all messages."""
    return [line for line in output.splitlines() if " arrivals, " in line]


def test_a_power_cut_in_the_middle_of_an_append_is_the_same_story_each_time() -> None:
    output = told(0, 1, 1, 2)
    assert output.count("produced and read further") == 3
    first, again, other = digests(output)
    assert first == again
    assert first != other
    assert digests(told(1, 1, 2)) == [first, other]


def test_replicas_are_the_same_after_their_leader_has_lost_its_power() -> None:
    seeds = range(9, 17)
    output = told(0, *seeds, story="replicated_topic")
    assert output.count("are the same on all nodes") == len(seeds)
    assert 0 < output.count("node 1 has bytes that no other node has") < len(seeds)
    assert digests(told(1, *seeds[:2], story="replicated_topic")) == digests(output)[:2]
