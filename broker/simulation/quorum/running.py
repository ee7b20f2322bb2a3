"""One seed from its beginning to its verdict, and a failing one down to the shortest one that still fails.

outcome = run(seed, events=2_000)
outcome.failure                 None, or what rule was broken and how
tell(seed, ...)                 the same run again, with its transcript
shrink(result)                  fewer steps, fewer replicas, fewer faults, and still the same rule broken
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.simulation.quorum.driver_machine import DriverMachine
from broker.simulation.quorum.fault_plan import FaultPlan, draw
from broker.simulation.quorum.model_machine import ModelMachine
from broker.simulation.quorum.steps import Step
from broker.simulation.quorum.trace import Trace
from broker.simulation.quorum.world import World
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.shrinking import shortest
from broker.simulation.verdict import Failure, Violation, without_logs

__all__ = ["SimulationResult", "fault_plan_of", "run", "shrink"]

LARGEST_TRIALS: Final = 300


class SimulationResult(msgspec.Struct, frozen=True):
    """What became of one run. Two runs of a seed have the same fingerprint."""

    seed: int
    fault_plan: FaultPlan
    wanted_events: int
    events: int
    simulated_ms: int
    fingerprint: int
    steps: Sequence[Step]
    coverage: Mapping[str, int]
    failure: Failure | None
    lines: Sequence[str] = ()
    real_driver: bool = False
    digest: str = ""
    """Of the whole transcript, where one was made."""


def fault_plan_of(seed: int, voters: int | None = None) -> FaultPlan:
    return draw(SeededRandom(seed, "weather"), voters)


def run(
    seed: int,
    events: int,
    *,
    fault_plan: FaultPlan | None = None,
    steps: Sequence[Step] | None = None,
    trace: Trace | None = None,
    real_driver: bool = False,
) -> SimulationResult:
    """At least so many events. fault_plan: None draws the seed's own; steps: None makes up the seed's own.
    real_driver: the replicas run the product's driver and disk code, in the place of the models."""
    if fault_plan is None:
        fault_plan = fault_plan_of(seed)
    world = World(seed, fault_plan, steps, trace, DriverMachine if real_driver else ModelMachine)
    failure = None
    try:
        with without_logs():
            world.run(events)
    except Exception as error:
        failure = Failure.of(error, world.now)
        if trace is not None and not isinstance(error, Violation):
            trace.lines += traceback.format_exc().splitlines()[-12:]
    return SimulationResult(
        seed=seed,
        fault_plan=fault_plan,
        wanted_events=events,
        events=world.events,
        simulated_ms=world.now // 1_000,
        fingerprint=world.invariants.fingerprint,
        steps=world.steps,
        coverage=world.coverage.counts,
        failure=failure,
        lines=trace.lines if trace is not None else (),
        real_driver=real_driver,
        digest=trace.digest if trace is not None else "",
    )


def shrink(result: SimulationResult, largest_trials: int = LARGEST_TRIALS) -> SimulationResult:
    """The shortest run found that fails in the same way, told."""
    failure = result.failure
    if failure is None:
        return result
    fault_plan = result.fault_plan
    events = result.events
    real_driver = result.real_driver

    def fails(steps: Sequence[Step], under: FaultPlan) -> bool:
        again = run(result.seed, events, fault_plan=under, steps=steps, real_driver=real_driver)
        return failure.recurs_in(again.failure)

    steps = list(result.steps)
    if not fails(steps, fault_plan):  # should not be; then it is told as it was
        events = result.wanted_events
        return run(result.seed, events, fault_plan=fault_plan, trace=Trace(), real_driver=real_driver)
    steps = shortest(steps, lambda fewer: fails(fewer, fault_plan), largest_trials)
    for name, value in _SIMPLER:
        simpler = msgspec.structs.replace(fault_plan, **{name: value})
        if simpler != fault_plan and fails(steps, simpler):
            fault_plan = simpler
    steps = shortest(steps, lambda fewer: fails(fewer, fault_plan), largest_trials)
    return run(
        result.seed, events, fault_plan=fault_plan, steps=steps, trace=Trace(), real_driver=real_driver
    )


_SIMPLER: Final[tuple[tuple[str, int | bool], ...]] = (
    ("observers", 0),
    ("spares", 0),
    ("spares", 1),
    ("voters", 1),
    ("voters", 3),
    ("voters", 5),
    ("dynamic", False),
    ("auto_join", False),
    ("drop", 0),
    ("repeat", 0),
    ("slow", 0),
    ("corrupt", 0),
    ("stall", 0),
    ("jitter", 100),
    ("latency", 100),
    ("sync", 100),
    ("chunk_bytes", 1 << 20),
    ("fetch_bytes", 1 << 20),
)
"""What a run can do without, in the order in which it is tried."""
