"""How a simulated run ends: with every rule held, or with the rule that was broken."""

from __future__ import annotations

import gc
import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from protocol.errors import InvariantViolated

__all__ = ["THE_NODE_FAILS", "Failure", "Violation", "rare_collections", "without_logs"]

_COLLECTOR_THRESHOLDS: Final = (50_000, 10, 10)

THE_NODE_FAILS: Final = "the node does not fail"


class Violation(InvariantViolated):
    """A rule does not hold; `rule` is its short name."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Failure(msgspec.Struct, frozen=True):
    """rule: its name; at: simulated microseconds."""

    rule: str
    text: str
    at: int

    @classmethod
    def of(cls, error: Exception, at: int) -> Failure:
        """Whatever a node raises is a finding, too."""
        if isinstance(error, Violation):
            return cls(error.rule, str(error), at)
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        return cls(THE_NODE_FAILS, text, at)

    @property
    def kind(self) -> str:
        """Two failures of one kind have, most likely, the same cause: the same rule, or an exception with the
        same words but for the numbers in it."""
        return re.sub(r"\d+", "#", self.text) if self.rule == THE_NODE_FAILS else self.rule


@contextmanager
def without_logs() -> Iterator[None]:
    """What the product logs in simulated lives says nothing to anybody."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Frees what was used before, and lets the garbage collector look rarely until the end.

    Python's own thresholds are for programs with little memory: a world of some hundred thousand objects that
    live long would be walked through again and again, for a tenth of all time.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
