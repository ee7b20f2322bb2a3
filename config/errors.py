"""What can be wrong with a setting.

All errors carry one line that a person can act upon: it names the key, the value and what is allowed. The
wording of `InvalidValue` is Kafka's, because it travels to admin clients inside INVALID_CONFIG answers, and
people search for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

NAMES_IN_SENTENCE: Final = 100
"""The most names in one error message; more of them help nobody, and do not fit into a string of the
protocol."""


class ConfigError(Exception):
    """A setting or a file of settings that cannot be used. Its text is one line; it stops the start."""


class InvalidValue(ConfigError):
    """A value that the config does not allow, with Kafka's sentence about it."""

    @classmethod
    def of(cls, name: str, value: object, reason: str) -> InvalidValue:
        """The error with Kafka's usual sentence; `value` is shown as Java would print it."""
        return cls(f"Invalid value {java_text(value)} for configuration {name}: {reason}")


class RefusedChange(InvalidValue):
    """A change of configs that is answered INVALID_REQUEST where other faults of that resource are
    INVALID_CONFIG: Kafka is not of one mind about which is which, and clients see it."""


class UnmetRequirement(ConfigError):
    """A relation between configs that does not hold, and that Kafka checks with Scala's `require`; where the
    sentence travels to a client it begins with the words of that function."""

    @property
    def in_kafkas_words(self) -> str:
        return f"requirement failed: {self}"


def some_of(names: Sequence[str], separator: str = ",") -> str:
    """The names as they stand in an error message: all of them as in Kafka, but cut off after some."""
    if len(names) <= NAMES_IN_SENTENCE:
        return separator.join(names)
    return separator.join(names[:NAMES_IN_SENTENCE]) + f" and {len(names) - NAMES_IN_SENTENCE} more"


def java_text(value: object) -> str:
    """The text with which Java prints a config's value: `null`, `true`, `[a, b]`, `2.0`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(java_text(item) for item in value) + "]"
    return str(value)


def java_double(value: float) -> str:
    """A double as Double.toString prints it: plain from 0.001 up to 10 million, else like `1.5E-4`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest
    sign = "-" if value < 0 else ""
    mantissa, _, exponent_text = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(exponent_text or "0") + len(whole) - 1
    digits = whole + fraction
    significant = digits.lstrip("0")
    exponent -= len(digits) - len(significant)
    significant = significant.rstrip("0") or "0"
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{exponent}"
