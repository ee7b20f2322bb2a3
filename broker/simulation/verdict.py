"""How a simulated run ends: with every rule held, or with the rule that was broken."""

from __future__ import annotations

import gc
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from protocol.errors import InvariantViolated

__all__ = [
    "THE_NODE_FAILS",
    "ContainedError",
    "Failure",
    "Violation",
    "only_contained_errors",
    "rare_collections",
    "without_logs",
]

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
        return cls(THE_NODE_FAILS, _told(error), at)

    @property
    def kind(self) -> str:
        """Two failures of one kind have, most likely, the same cause: the same rule, or an exception with the
        same words but for the numbers in it."""
        return re.sub(r"\d+", "#", self.text) if self.rule == THE_NODE_FAILS else self.rule


def _told(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"


@contextmanager
def without_logs(up_to: int = logging.CRITICAL) -> Iterator[None]:
    """What the product logs in simulated lives, up to this level, says nothing to anybody."""
    before = logging.root.manager.disable
    logging.disable(up_to)
    try:
        yield
    finally:
        logging.disable(before)


class ContainedError(NamedTuple):
    """What the product has logged of an exception, and then gone on. is_of_system: it is one of a call to the
    operating system, as on a disk that fails."""

    text: str
    is_of_system: bool = False


class _ContainedErrors(logging.Handler):
    """Tells of exceptions of the product that it logs, and after which it goes on."""

    def __init__(self, tell: Callable[[ContainedError], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text = f"{record.getMessage()}: {_told(error)}"
            self._tell(ContainedError(text, is_of_system=isinstance(error, OSError)))


@contextmanager
def only_contained_errors(tell: Callable[[ContainedError], None]) -> Iterator[None]:
    """As `without_logs`, but `tell` is given each exception that the product contains."""
    handler = _ContainedErrors(tell)
    logging.root.addHandler(handler)
    try:
        with without_logs(up_to=logging.WARNING):
            yield
    finally:
        logging.root.removeHandler(handler)


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
