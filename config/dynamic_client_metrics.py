"""The checks of a subscription to client metrics (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from config.catalogue import CLIENT_METRICS
from config.errors import InvalidValue, RefusedChange
from config.values import split_list

_MATCH_KEYS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_INTERVAL_MS: Final = (100, 3_600_000)


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """A subscription: known names, an interval that does not hurt, patterns that compile.

    Raises `RefusedChange` (INVALID_REQUEST) for a name or an interval, `InvalidValue` (INVALID_CONFIG) for
    what is no number or no pattern.
    """
    for name in overrides:
        if name not in CLIENT_METRICS:
            raise RefusedChange(f"Unknown client metrics configuration: {name}")
    if "interval.ms" in overrides:
        value = CLIENT_METRICS["interval.ms"].parse(overrides["interval.ms"])
        if not isinstance(value, int) or not _INTERVAL_MS[0] <= value <= _INTERVAL_MS[1]:
            raise RefusedChange(
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
    for pattern in split_list(overrides.get("match", "")):
        key, equals, expression = pattern.partition("=")
        valid = bool(equals) and key in _MATCH_KEYS and bool(expression) and "=" not in expression
        if not valid or not _compiles(expression):
            raise InvalidValue(f"Illegal client matching pattern: {pattern}")


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except (re.error, ValueError, OverflowError, RecursionError):
        # The last three are for flags that contradict each other, large repetitions and deep groups.
        return False
    return True
