"""``barnabas simulate``: a whole quorum under one seed, with everything going wrong that can.

    barnabas simulate --seed 7 --nodes 5 --events 100000
    barnabas simulate --seed 1 --seeds 500                 five hundred seeds, one after the other
    barnabas simulate --seed 1 --real-driver               with the driver and disk code of production
    barnabas simulate --cluster --seed 1                   whole nodes and their clients: `simulate_cluster`

The same seed is the same run, everywhere and always: what fails here fails wherever the seed is told again. A
failure is shrunk to a short run, whose trace is printed.
"""

from __future__ import annotations

import argparse
import sys
import time

from broker.simulation.coverage import Coverage
from broker.simulation.quorum.running import SimulationResult, fault_plan_of, run, shrink
from broker.simulation.quorum.trace import Trace

LARGEST_STORY_LINES = 400
"""The number of lines, the last ones, that are printed of a failed simulation's trace."""


def simulate(options: argparse.Namespace) -> int:
    """0 if every rule held, 1 after printing the first run in which one did not."""
    coverage = Coverage()
    began = time.monotonic()
    events = 0
    result = None
    for seed in range(options.seed, options.seed + options.seeds):
        trace = Trace() if options.trace else None
        result = run(
            seed,
            options.events,
            fault_plan=fault_plan_of(seed, options.nodes),
            trace=trace,
            real_driver=options.real_driver,
        )
        coverage.add(result.coverage)
        events += result.events
        if trace is not None:
            print("\n".join(result.lines))
        if result.failure is not None:
            _tell_failure(result, options)
            return 1
    passed = time.monotonic() - began
    if options.coverage:
        print("\n".join(coverage.lines()))
    last = "" if result is None else f" ({_summary(result)})"
    print(
        f"{options.seeds} seed{'s' if options.seeds != 1 else ''} from {options.seed}{last}: "
        f"every rule held in {events:,} events, {events / max(passed, 0.001):,.0f} a second"
    )
    return 0


def _summary(result: SimulationResult) -> str:
    plan = result.fault_plan
    kind = "dynamic" if plan.dynamic else "static"
    return (
        f"{plan.voters} {kind} voters, {plan.spares} more controllers, {plan.observers} observers, "
        f"{result.simulated_ms / 1000:.1f} simulated s, "
        f"fingerprint {result.fingerprint & 0xFFFFFFFFFFFFFFFF:016x}"
    )


def _tell_failure(result: SimulationResult, options: argparse.Namespace) -> None:
    print(f"seed {result.seed} broke a rule: {result.failure}", file=sys.stderr)
    print("looking for the shortest failing run …", file=sys.stderr)
    told = shrink(result)
    failure = told.failure
    print(f"\nThe shortest failing run found, of {len(told.steps)} steps; {_summary(told)}\n")
    print("\n".join(told.lines[-LARGEST_STORY_LINES:]))
    print(f"\n{failure.text if failure is not None else result.failure}")
    # The number of voters changes the random numbers that the seed gives.
    as_asked = "" if options.nodes is None else f" --nodes {options.nodes}"
    as_asked += " --real-driver" if options.real_driver else ""
    print(f"again: barnabas simulate --seed {result.seed}{as_asked} --events {options.events}")
