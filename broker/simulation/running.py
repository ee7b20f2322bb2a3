"""One seed from its beginning to its verdict, and a failing one down to the shortest one that still fails.

outcome = run(seed, events=2_000)
outcome.failure                 None, or what rule was broken and how
tell(seed, ...)                 the same run again, with its transcript
shrink(result)                  fewer steps, fewer replicas, fewer faults, and still the same rule broken
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from broker.simulation.driver_machine import DriverMachine
from broker.simulation.fault_plan import FaultPlan, draw
from broker.simulation.history import Violation
from broker.simulation.model_machine import ModelMachine
from broker.simulation.seeded_random import SeededRandom
from broker.simulation.shrinking import shortest
from broker.simulation.steps import Step
from broker.simulation.trace import Trace
from broker.simulation.world import World

__all__ = ["Failure", "SimulationResult", "fault_plan_of", "run", "shrink"]

THE_NODE_FAILS: Final = "the node does not fail"
LARGEST_TRIALS: Final = 300


class Failure(msgspec.Struct, frozen=True):
    """rule: its name; at: simulated microseconds."""

    rule: str
    text: str
    at: int

    @property
    def kind(self) -> str:
        """Two failures of one kind have, most likely, the same cause: the same rule, or an exception with the
        same words but for the numbers in it."""
        return re.sub(r"\d+", "#", self.text) if self.rule == THE_NODE_FAILS else self.rule


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
        with _without_logs():
            world.run(events)
    except Violation as violation:
        failure = Failure(violation.rule, str(violation), world.now)
    except Exception as error:  # whatever the node raises is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        failure = Failure(THE_NODE_FAILS, text, world.now)
        if trace is not None:
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


@contextmanager
def _without_logs() -> Iterator[None]:
    """What the product logs in simulated lives says nothing to anybody."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def shrink(result: SimulationResult, largest_trials: int = LARGEST_TRIALS) -> SimulationResult:
    """The shortest run found that breaks the same rule, told."""
    failure = result.failure
    if failure is None:
        return result
    fault_plan = result.fault_plan
    events = result.events
    real_driver = result.real_driver

    def fails(steps: Sequence[Step], under: FaultPlan) -> bool:
        again = run(result.seed, events, fault_plan=under, steps=steps, real_driver=real_driver)
        return again.failure is not None and again.failure.kind == failure.kind

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
