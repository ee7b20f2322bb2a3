"""``barnabas simulate --cluster``: whole nodes and their clients under one seed, from the wire to the disk.

    barnabas simulate --cluster --seed 7 --minutes 10             ten simulated minutes of trouble
    barnabas simulate --cluster --seed 1 --seeds 100              a hundred seeds, one after the other
    barnabas simulate --cluster --seed 7 --shrink                 a failure is made as small as it can be
    barnabas simulate --cluster --replay seed-7.json --trace      the run in that file again, told as a story

A run that breaks a rule is written to a file, from which `--replay` plays it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from broker.simulation.cluster.cluster_run import VERBS
from broker.simulation.cluster.cluster_running import ClusterRecipe, ClusterResult, play, recipe_of
from broker.simulation.cluster.cluster_shrinking import shrink_cluster
from broker.simulation.coverage import Coverage

DEFAULT_MINUTES: Final = 10.0
LARGEST_STORY_LINES: Final = 400
"""The number of lines, the last ones, that are printed of a run."""


def simulate_cluster(options: argparse.Namespace) -> int:
    """0 if every rule held, 1 after telling the first run in which one did not, 2 for a file that is none."""
    coverage = Coverage()
    began = time.monotonic()
    simulated_ms = events = 0
    result = None
    for recipe in _recipes(options):
        if recipe is None:
            return 2
        result = play(recipe, is_told=options.trace)
        coverage.add(result.coverage)
        simulated_ms += result.simulated_ms
        events += result.events
        if result.failure is not None:
            _tell_failure(result, options)
            return 1
        if options.trace:
            print("\n".join(result.lines))
        _write_history(result, options)
    if options.coverage:
        print("\n".join(_coverage_lines(coverage)))
    passed = max(time.monotonic() - began, 0.001)
    last = "" if result is None else f" (the last with digest {result.digest[:16]})"
    print(
        f"{options.seeds} seed{'s' if options.seeds != 1 else ''}{last}: every rule held in {events:,} turns "
        f"and {simulated_ms / 60_000:,.1f} simulated minutes, {events / passed:,.0f} turns and "
        f"{simulated_ms / 1_000 / passed:,.0f} simulated seconds a second"
    )
    return 0


def _recipes(options: argparse.Namespace) -> Iterator[ClusterRecipe | None]:
    """What is to be played; None where the file cannot be."""
    if options.replay is not None:
        try:
            yield ClusterRecipe.read(Path(options.replay))
        except (ValueError, OSError) as error:
            print(f"barnabas simulate: {error}", file=sys.stderr)
            yield None
        return
    hours = options.hours if options.hours is not None else (options.minutes or DEFAULT_MINUTES) / 60
    for seed in range(options.seed, options.seed + options.seeds):
        yield recipe_of(seed, int(hours * 3_600_000), options.nodes)


def _coverage_lines(coverage: Coverage) -> list[str]:
    """What was met, and which steps never were."""
    never = [verb for verb in VERBS if not coverage.counts.get(f"step: {verb}")]
    return [*coverage.lines(), f"steps that no seed has taken: {', '.join(never) or 'none'}"]


def _write_history(result: ClusterResult, options: argparse.Namespace) -> None:
    if options.history is not None:
        encoder = msgspec.json.Encoder()
        Path(options.history).write_bytes(encoder.encode_lines(result.history))


def _tell_failure(result: ClusterResult, options: argparse.Namespace) -> None:
    seed = result.seed
    print(f"seed {seed} broke a rule: {result.failure}", file=sys.stderr)
    if options.shrink:
        print("looking for the smallest run that fails in the same way …", file=sys.stderr)
        told = shrink_cluster(result)
    else:
        told = play(result.recipe, is_told=True)
    plan = told.recipe.plan
    print(
        f"{len(told.recipe.steps)} steps, {len(plan.places)} nodes, {len(plan.clients)} clients, "
        f"{told.simulated_ms / 1_000:.1f} simulated seconds\n"
    )
    print("\n".join(str(step) for step in told.recipe.steps))
    print()
    print("\n".join(told.lines[-LARGEST_STORY_LINES:]))
    _write_history(told, options)
    path = Path(f"simulated-seed-{seed}.json")
    told.recipe.write(path)
    print(f"\nagain: barnabas simulate --cluster --replay {path} --trace")
