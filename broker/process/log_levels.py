"""The loggers of this process, by the names and levels that Kafka's tools use.

`root` is Python's root logger; the others are named as in the log's last column (`barnabas.storage`), and
`barnabas` stands above all of ours. FATAL is Python's CRITICAL, WARN its WARNING; TRACE lies below DEBUG.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import Final

from config.log_levels import ROOT

TRACE: Final = 5

_NUMBERS: Final = MappingProxyType(
    {
        "TRACE": TRACE,
        "DEBUG": logging.DEBUG,
        "INFO": logging.INFO,
        "WARN": logging.WARNING,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
    }
)


class ProcessLoggers:
    """`config.log_levels.Loggers` over Python's logging."""

    def __init__(self) -> None:
        logging.addLevelName(TRACE, "TRACE")
        logging.getLogger("barnabas")

    def levels(self) -> dict[str, str]:
        known = {ROOT: level_name(logging.getLogger().level)}
        for name, logger in sorted(logging.root.manager.loggerDict.items()):
            if isinstance(logger, logging.Logger):
                known[name] = level_name(logger.getEffectiveLevel())
        return known

    def set_level(self, name: str, level: str) -> None:
        _logger(name).setLevel(_NUMBERS[level])

    def inherit_level(self, name: str) -> None:
        _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def level_name(number: int) -> str:
    """The lowest of Kafka's levels that lets the same records through."""
    return next((name for name, least in _NUMBERS.items() if number <= least), "FATAL")
