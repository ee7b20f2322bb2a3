"""A story that fails, made short: steps and faults are left out as long as it still fails."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace

from tests.support.log_story.story import Step, Story, steps_of


@dataclass
class Outcome:
    """What became of one story. A failure has its kind, its text and the story in words."""

    seed: int
    failure: str = ""
    kind: str = ""
    told: list[str] = field(default_factory=list)
    steps_done: int = 0
    effects: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        return "\n".join([f"seed {self.seed}: {self.failure}", *("  " + line for line in self.told)])


def run_steps(seed: int, steps: list[Step]) -> Outcome:
    """Never raises."""
    logging.disable(logging.CRITICAL)
    outcome = Outcome(seed)
    story = None
    try:
        story = Story(seed)
        for step in steps:
            story.run(step)
            outcome.steps_done += 1
    except BaseException as error:  # whatever it is, it is what the story has found
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        outcome.kind = f"{type(error).__name__} at {last.name}"
        outcome.failure = (
            f"{type(error).__name__}: {error} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"
        )
    finally:
        logging.disable(logging.NOTSET)
    if story is not None:
        outcome.told, outcome.counts, outcome.effects = story.told, story.counts, story.files.effects
    return outcome


def run_seed(seed: int) -> Outcome:
    return run_steps(seed, steps_of(seed))


def shrunk(outcome: Outcome, tries: int = 400) -> Outcome:
    """The shortest story found that fails in the same way."""
    best = outcome
    steps = steps_of(outcome.seed)[: outcome.steps_done + 1]
    size = max(len(steps) // 2, 1)
    while tries > 0:
        position, removed = 0, False
        while position < len(steps) and tries > 0:
            trial = steps[:position] + steps[position + size :]
            tries -= 1
            found = run_steps(outcome.seed, trial)
            if found.kind == outcome.kind:
                steps, best, removed = trial, found, True
            else:
                position += size
        if size == 1 and not removed:
            break
        size = max(size // 2, 1)
    for number, step in enumerate(steps):
        if step.fault is not None:
            trial = [*steps[:number], replace(step, fault=None), *steps[number + 1 :]]
            found = run_steps(outcome.seed, trial)
            if found.kind == outcome.kind:
                steps, best = trial, found
    return best
