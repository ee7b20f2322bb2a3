"""``barnabas simulate``: a whole quorum under one seed, with everything going wrong that can.

    barnabas simulate --seed 7 --nodes 5 --events 100000
    barnabas simulate --seed 1 --seeds 500                 five hundred seeds, one after the other

The same seed is the same run, everywhere and always: what fails here fails wherever the seed is told again. A
failure is shrunk to a short story and printed.
"""

from __future__ import annotations

import argparse
import sys
import time

from broker.simulation.coverage import Coverage
from broker.simulation.running import Outcome, run, shrink, weather_of
from broker.simulation.story import Story

LARGEST_STORY_LINES = 400
"""Of a failure, the last so many."""


def simulate(options: argparse.Namespace) -> int:
    """0 if every rule held, 1 after printing the first story in which one did not."""
    coverage = Coverage()
    began = time.monotonic()
    events = 0
    outcome = None
    for seed in range(options.seed, options.seed + options.seeds):
        story = Story() if options.story else None
        outcome = run(seed, options.events, weather=weather_of(seed, options.nodes), story=story)
        coverage.add(outcome.coverage)
        events += outcome.events
        if story is not None:
            print("\n".join(outcome.lines))
        if outcome.failure is not None:
            _tell_failure(outcome, options)
            return 1
    passed = time.monotonic() - began
    if options.coverage:
        print("\n".join(coverage.lines()))
    last = "" if outcome is None else f" ({_summary(outcome)})"
    print(
        f"{options.seeds} seed{'s' if options.seeds != 1 else ''} from {options.seed}{last}: "
        f"every rule held in {events:,} events, {events / max(passed, 0.001):,.0f} a second"
    )
    return 0


def _summary(outcome: Outcome) -> str:
    weather = outcome.weather
    kind = "dynamic" if weather.dynamic else "static"
    return (
        f"{weather.voters} {kind} voters, {weather.spares} more controllers, {weather.observers} observers, "
        f"{outcome.simulated_ms / 1000:.1f} simulated s, "
        f"fingerprint {outcome.fingerprint & 0xFFFFFFFFFFFFFFFF:016x}"
    )


def _tell_failure(outcome: Outcome, options: argparse.Namespace) -> None:
    print(f"seed {outcome.seed} broke a rule: {outcome.failure}", file=sys.stderr)
    print("looking for the shortest story …", file=sys.stderr)
    told = shrink(outcome)
    failure = told.failure
    print(f"\nThe shortest story found, of {len(told.steps)} steps; {_summary(told)}\n")
    print("\n".join(told.lines[-LARGEST_STORY_LINES:]))
    print(f"\n{failure.text if failure is not None else outcome.failure}")
    as_asked = "" if options.nodes is None else f" --nodes {options.nodes}"  # it changes what the seed draws
    print(f"again: barnabas simulate --seed {outcome.seed}{as_asked} --events {options.events}")
