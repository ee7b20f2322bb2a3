"""Kafka's nine types of config values: from text to value and back.

A value in this package is one of six Python kinds: bool, int, float, str, a tuple of str (LIST), or None
(Kafka's null: a config without value). The rules are those of Kafka's ConfigDef, so that a text means here
what it means there: blanks around a value do not count, `TRUE` is true, `+5` is 5, `1_000` is nothing.
"""

from __future__ import annotations

import enum
import re
from types import MappingProxyType
from typing import Final

from config.errors import ConfigError, InvalidValue, java_double

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(enum.IntEnum):
    """Types with the codes that DescribeConfigs sends; UNKNOWN is that of a key nobody has defined."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


HIDDEN: Final = "[hidden]"
"""The text that is shown in place of a secret."""

_BLANKS: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes: those up to the space."""

_MOST_DIGITS: Final = 40
"""Numbers with more digits are refused unread; the largest LONG has 19 digits."""

# Patterns are compiled on first use (`re` remembers them): most starts need none.
_COMMA: Final = r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*"
_DECIMAL: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?"
_HEXADECIMAL: Final = r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
_NAMED: Final = r"[+-]?(NaN|Infinity)"

_BITS: Final = MappingProxyType({ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64})


def trimmed(text: str) -> str:
    """The text without white space at its ends, as Java trims it."""
    return text.strip(_BLANKS)


def parse_value(name: str, text: str | None, kind: ConfigType) -> Value:
    """The value that `text` means for a config of this type; raises `InvalidValue` in Kafka's words.

    Validators are not asked here. A PASSWORD is a plain str: whoever prints must look at the type.
    """
    if text is None:
        return None
    if kind is ConfigType.PASSWORD or kind is ConfigType.UNKNOWN:
        return text
    stripped = trimmed(text)
    if kind is ConfigType.STRING:
        return stripped
    if kind is ConfigType.LIST:
        return split_list(stripped)
    if kind is ConfigType.BOOLEAN:
        lowered = stripped.lower()
        if lowered not in ("true", "false"):
            raise InvalidValue.of(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind is ConfigType.DOUBLE:
        return _double(name, text, stripped)
    if kind is ConfigType.CLASS:
        if not stripped:
            raise InvalidValue.of(name, text, "Class  could not be found.")
        return stripped
    return _whole(name, text, stripped, kind)


def java_whole(text: str, bits: int = 32) -> int | None:
    """The number that Java's parseInt (or parseShort, parseLong, by `bits`) reads; None where it throws: at
    blanks, at `1_000`, at digits outside of Unicode's basic plane."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or len(digits) > _MOST_DIGITS or max(digits) > "\uffff":
        return None
    number = int(text)
    half = 1 << (bits - 1)
    return number if -half <= number < half else None


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list; an empty text is an empty list, `a,` has an empty second item."""
    stripped = trimmed(text)
    if "," not in stripped:
        return (stripped,) if stripped else ()
    return tuple(re.split(_COMMA, stripped))


def split_map(name: str, text: str, form: str) -> list[tuple[str, str]]:
    """The pairs of a text `key:value,…`, in which keys may have colons; empty items at the end do not count.
    Raises ConfigError for an item that is not of this form, such as HOST:LIMIT."""
    items = list(split_list(text))
    while items and not items[-1]:
        items.pop()
    pairs = []
    for item in items:
        key, colon, value = item.rpartition(":")
        if not colon:
            raise ConfigError(f"Error parsing configuration property '{name}': {item} is not {form}")
        pairs.append((trimmed(key), trimmed(value)))
    return pairs


def text_of(value: Value, kind: ConfigType) -> str | None:
    """The value as text, as admin clients see it; None for null, and `[hidden]` for a password."""
    if value is None:
        return None
    if kind is ConfigType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _whole(name: str, text: str, stripped: str, kind: ConfigType) -> int:
    number = java_whole(stripped, _BITS[kind])
    if number is not None:
        return number
    raise InvalidValue.of(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str, stripped: str) -> float:
    if re.fullmatch(_DECIMAL, stripped):
        return float(stripped.rstrip("fFdD"))
    if re.fullmatch(_NAMED, stripped):
        return float(stripped)
    if re.fullmatch(_HEXADECIMAL, stripped):
        try:
            return float.fromhex(stripped.rstrip("fFdD"))
        except OverflowError:
            return float("-inf") if stripped.startswith("-") else float("inf")
    raise InvalidValue.of(name, text, "Not a number of type DOUBLE")
