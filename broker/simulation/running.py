"""One seed from its beginning to its verdict, and a failing one down to its shortest story.

outcome = run(seed, events=2_000)
outcome.failure                 None, or what rule was broken and how
tell(seed, ...)                 the same run again, with its transcript
shrink(outcome)                 fewer steps, fewer replicas, better weather, and still the same rule broken
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.simulation.dice import Dice
from broker.simulation.history import Violation
from broker.simulation.shrinking import shortest
from broker.simulation.steps import Step
from broker.simulation.story import Story
from broker.simulation.weather import Weather, draw
from broker.simulation.world import World

__all__ = ["Failure", "Outcome", "run", "shrink", "weather_of"]

THE_NODE_FAILS: Final = "the node does not fail"
LARGEST_TRIALS: Final = 300


class Failure(msgspec.Struct, frozen=True):
    """rule: its name; at: simulated microseconds."""

    rule: str
    text: str
    at: int


class Outcome(msgspec.Struct, frozen=True):
    """What became of one run. Two runs of a seed have the same fingerprint."""

    seed: int
    weather: Weather
    wanted_events: int
    events: int
    simulated_ms: int
    fingerprint: int
    steps: Sequence[Step]
    coverage: Mapping[str, int]
    failure: Failure | None
    lines: Sequence[str] = ()
    digest: str = ""
    """Of the whole transcript, where one was made."""


def weather_of(seed: int, voters: int | None = None) -> Weather:
    return draw(Dice(seed, "weather"), voters)


def run(
    seed: int,
    events: int,
    *,
    weather: Weather | None = None,
    steps: Sequence[Step] | None = None,
    story: Story | None = None,
) -> Outcome:
    """At least so many events. weather: None draws the seed's own; steps: None makes up the seed's own."""
    if weather is None:
        weather = weather_of(seed)
    world = World(seed, weather, steps, story)
    failure = None
    try:
        world.run(events)
    except Violation as violation:
        failure = Failure(violation.rule, str(violation), world.now)
    except Exception as error:  # whatever the node raises is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        failure = Failure(THE_NODE_FAILS, text, world.now)
        if story is not None:
            story.lines += traceback.format_exc().splitlines()[-12:]
    return Outcome(
        seed=seed,
        weather=weather,
        wanted_events=events,
        events=world.events,
        simulated_ms=world.now // 1_000,
        fingerprint=world.watch.fingerprint,
        steps=world.steps,
        coverage=world.coverage.counts,
        failure=failure,
        lines=story.lines if story is not None else (),
        digest=story.digest if story is not None else "",
    )


def shrink(outcome: Outcome, largest_trials: int = LARGEST_TRIALS) -> Outcome:
    """The shortest story found that breaks the same rule, told."""
    failure = outcome.failure
    if failure is None:
        return outcome
    weather = outcome.weather
    events = outcome.events

    def fails(steps: Sequence[Step], under: Weather) -> bool:
        again = run(outcome.seed, events, weather=under, steps=steps)
        return again.failure is not None and again.failure.rule == failure.rule

    steps = list(outcome.steps)
    if not fails(steps, weather):  # should not be; then it is told as it was
        return run(outcome.seed, outcome.wanted_events, weather=weather, story=Story())
    steps = shortest(steps, lambda fewer: fails(fewer, weather), largest_trials)
    for name, value in _SIMPLER:
        simpler = msgspec.structs.replace(weather, **{name: value})
        if simpler != weather and fails(steps, simpler):
            weather = simpler
    steps = shortest(steps, lambda fewer: fails(fewer, weather), largest_trials)
    return run(outcome.seed, events, weather=weather, steps=steps, story=Story())


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
"""What a story can do without, in the order in which it is tried."""
