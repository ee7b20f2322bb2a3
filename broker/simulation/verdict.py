"""How a simulated run ends: with every rule held, or with the rule that was broken."""

from __future__ import annotations

import gc
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
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
    "ways_in",
    "without_logs",
    "without_numbers",
]

_COLLECTOR_THRESHOLDS: Final = (50_000, 10, 10)

THE_NODE_FAILS: Final = "the node does not fail"


class Violation(InvariantViolated):
    """A rule does not hold; `rule` is its short name. signs: of a rule that can be broken in several ways, in
    which it was; without what differs from run to run."""

    def __init__(self, rule: str, text: str, signs: Iterable[str] = ()) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.signs = tuple(signs)


class Failure(msgspec.Struct, frozen=True):
    """rule: its name; at: simulated microseconds. signs: see `Violation`."""

    rule: str
    text: str
    at: int
    signs: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: Exception, at: int) -> Failure:
        """Whatever a node raises is a finding, too."""
        if isinstance(error, Violation):
            return cls(error.rule, str(error), at, error.signs)
        told = _told(error)
        return cls(THE_NODE_FAILS, told, at, (without_numbers(told),))

    def recurs_in(self, other: Failure | None) -> bool:
        """Whether another run has failed as this one, most likely for the same cause: the same rule is broken
        there, and in all the ways in which it is broken here."""
        return other is not None and other.rule == self.rule and set(self.signs) <= set(other.signs)


def without_numbers(text: str) -> str:
    """As two runs would say it that have failed for the same reason."""
    return re.sub(r"\d+", "#", text)


def ways_in(reasons: str) -> list[str]:
    """What sentences with semicolons between them say, without names, numbers, and what is behind a colon."""
    sentences = [reason.partition(":")[0].split() for reason in reasons.split("; ")]
    plain = [[word.strip(",") for word in words if _is_plain(word)] for words in sentences]
    return list(dict.fromkeys(" ".join(words) for words in plain))


def _is_plain(word: str) -> bool:
    return word.strip(",").isalpha() and word.islower()


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
    """What the product has logged of an exception, and then gone on. error: the exception itself.
    is_of_system: it is one of a call to the operating system, as on a disk that fails."""

    message: str
    error: str
    is_of_system: bool = False

    def __str__(self) -> str:
        return f"{self.message}: {self.error}"


class _ContainedErrors(logging.Handler):
    """Tells of exceptions of the product that it logs, and after which it goes on."""

    def __init__(self, tell: Callable[[ContainedError], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            is_of_system = isinstance(error, OSError)
            self._tell(ContainedError(record.getMessage(), _told(error), is_of_system=is_of_system))


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
