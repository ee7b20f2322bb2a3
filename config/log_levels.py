"""Levels of loggers, changed while the broker runs (resource type BROKER_LOGGER, KIP-412).

The loggers belong to a process and not to a node, so they stand behind a port; here are the rules. Levels are
Log4j's, by name, and are not stored: after a restart the broker is as it was set up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from config.errors import InvalidValue, RefusedChange

ROOT: Final = "root"
LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class Loggers(Protocol):
    """The loggers of this process, whose levels can be read and changed."""

    def levels(self) -> dict[str, str]:
        """The level in force of each logger by name; `root` is the root logger."""
        ...

    def set_level(self, name: str, level: str) -> None: ...

    def inherit_level(self, name: str) -> None:
        """Removes the logger's own level, so that the one of its parent applies."""
        ...


class LevelChange(NamedTuple):
    """SET of a level, or DELETE. `operation` is the operation's name; None for a code that nobody has."""

    name: str
    operation: str | None
    level: str | None


def validate_levels(changes: Iterable[LevelChange], loggers: Loggers) -> None:
    """Raises `InvalidValue` (INVALID_CONFIG) or `RefusedChange` (INVALID_REQUEST) in Kafka's words."""
    known = loggers.levels()
    for name, operation, level in changes:
        if operation not in ("SET", "DELETE"):
            raise RefusedChange(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if name not in known:
            raise InvalidValue(f"Logger {name} does not exist!")
        if operation == "SET" and level not in LEVELS:
            raise InvalidValue(
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )
        if operation == "DELETE" and name == ROOT:
            raise RefusedChange("Removing the log level of the root logger is not allowed")


def apply_levels(changes: Iterable[LevelChange], loggers: Loggers) -> None:
    """Applies changes that `validate_levels` has accepted."""
    for name, operation, level in changes:
        if operation == "DELETE" or level is None:
            loggers.inherit_level(name)
        else:
            loggers.set_level(name, level)
