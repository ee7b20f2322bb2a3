"""The states of a partition that is copied from its leader: every way from one to another, with its cause.

A change that is not in the table cannot happen; if it does, the broker has a bug and stops::

                                     out of range
    start ───────────▶ FETCHING ──────────────────▶ FINDING_OFFSET
                        │ ▲ │ ▲  ▲                     │      │
     records wait for a │ │ │ │  └── nothing to cut ───┘      │
     helper thread      ▼ │ │ │                               │
               APPENDING ─┘ │ └───────── cut ─┐               │ the leader's log ends
                   diverged │                 │               │ before, or begins after
                            └───────────▶ TRUNCATING ◀────────┘
    start ───────────────────────────────────▲
      the epochs of the log are not known

    any of them ──▶ FAILED     the log failed, or the leader knows a later epoch

FAILED is left only with the partition: the metadata log names a new leader epoch, or this broker hosts the
partition no longer. A partition that is tried again later stays in its state and is delayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["STARTING_STATES", "TRANSITIONS", "FetchCause", "FetchState"]


class FetchState(Enum):
    """What a fetcher does for a partition now."""

    TRUNCATING = "truncating"
    """The log is to be truncated before anything is fetched. Nothing is asked of the leader."""
    FETCHING = "fetching"
    """The partition is in each fetch, unless it is delayed."""
    APPENDING = "appending"
    """The fetched records wait for a helper thread. The next fetch must name the offset behind them."""
    FINDING_OFFSET = "finding offset"
    """The leader does not have the fetch offset, and is asked where its log begins and ends."""
    FAILED = "failed"
    """The partition is not fetched any more in this leader epoch."""


class FetchCause(Enum):
    """The reason for which the state of a partition changes."""

    APPEND_WAITS = "the disk is slow, or the topic asks for a sync: the records wait for a helper thread"
    APPENDED = "the records are in the log"
    APPEND_FAILED = "the records are not in the log, and are fetched again later"
    DIVERGED = "the leader has other records than this log"
    OUT_OF_RANGE = "the leader does not have the fetch offset"
    OFFSET_FOUND = "the leader has told where its log begins and ends"
    NO_OFFSET_FOUND = "the leader did not tell where its log begins and ends; it is asked again later"
    TRUNCATED = "the log was cut"
    FENCED = "the leader knows a later epoch; the metadata log will tell it"
    LOG_FAILED = "the log cannot be written or cut"


STARTING_STATES: Final = frozenset({FetchState.FETCHING, FetchState.TRUNCATING})

_GIVEN_UP: Final = frozenset({FetchCause.FENCED, FetchCause.LOG_FAILED})

TRANSITIONS: Final[Mapping[tuple[FetchState, FetchState], frozenset[FetchCause]]] = MappingProxyType(
    {
        (FetchState.FETCHING, FetchState.FETCHING): frozenset({FetchCause.APPENDED}),
        (FetchState.FETCHING, FetchState.APPENDING): frozenset({FetchCause.APPEND_WAITS}),
        (FetchState.FETCHING, FetchState.TRUNCATING): frozenset({FetchCause.DIVERGED}),
        (FetchState.FETCHING, FetchState.FINDING_OFFSET): frozenset({FetchCause.OUT_OF_RANGE}),
        (FetchState.FETCHING, FetchState.FAILED): _GIVEN_UP,
        (FetchState.APPENDING, FetchState.FETCHING): frozenset(
            {FetchCause.APPENDED, FetchCause.APPEND_FAILED}
        ),
        (FetchState.APPENDING, FetchState.FAILED): frozenset({FetchCause.LOG_FAILED}),
        (FetchState.FINDING_OFFSET, FetchState.FETCHING): frozenset(
            {FetchCause.OFFSET_FOUND, FetchCause.NO_OFFSET_FOUND}
        ),
        (FetchState.FINDING_OFFSET, FetchState.TRUNCATING): frozenset({FetchCause.OFFSET_FOUND}),
        (FetchState.FINDING_OFFSET, FetchState.FAILED): _GIVEN_UP,
        (FetchState.TRUNCATING, FetchState.FETCHING): frozenset({FetchCause.TRUNCATED}),
        (FetchState.TRUNCATING, FetchState.FAILED): frozenset({FetchCause.LOG_FAILED}),
    }
)
