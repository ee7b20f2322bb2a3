"""The life of a classic group, as a table.

                        first member joins
          ┌───────┐ ─────────────────────────► ┌────────────────────┐
          │ Empty │                            │ PreparingRebalance │◄──────────────┐
          └───────┘ ◄───────────────────────── └────────────────────┘               │
                        nobody is left                   │                          │
                                                         │ all have joined,         │ membership changes:
                                                         │ or time is up            │ a member joins, leaves,
                                                         ▼                          │ expires, or changes what
                                               ┌─────────────────────┐              │ it supports; the leader
                                               │ CompletingRebalance │──────────────┤ joins again; somebody
                                               └─────────────────────┘              │ never synced; an
                                                         │                          │ assignment was not
                                                         │ the leader's             │ stored
                                                         │ assignment is stored     │
                                                         ▼                          │
                                                    ┌────────┐                      │
                                                    │ Stable │──────────────────────┘
                                                    └────────┘
     any state ──► Dead: the group was deleted, or its partition has another coordinator

What clients see of a state:

    PreparingRebalance    Join is parked; Sync and Heartbeat say REBALANCE_IN_PROGRESS, so members come.
    CompletingRebalance   Join with unchanged metadata answers the current generation; followers' Sync is
                          parked until the leader's is stored; commits say REBALANCE_IN_PROGRESS.
    Stable                Sync answers the member's assignment; Heartbeat says all is well.
    Empty                 No members, perhaps offsets. Anyone without a generation may commit.
    Dead                  Only seen by who holds the group at that moment; COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class GroupState(Enum):
    """The values are the words that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupStateCause(Enum):
    """The reason for which a group changes its state."""

    FIRST_MEMBER_JOINED = "first member joined"
    MEMBERSHIP_CHANGED = "membership changed"
    ALL_JOINED = "all members have joined or time is up"
    NOBODY_LEFT = "nobody is left"
    ASSIGNMENT_STORED = "the leader's assignment is stored"
    REMOVED = "deleted, or coordinated elsewhere"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupStateCause], GroupState]] = MappingProxyType(
    {
        (GroupState.EMPTY, GroupStateCause.FIRST_MEMBER_JOINED): GroupState.PREPARING_REBALANCE,
        (GroupState.EMPTY, GroupStateCause.REMOVED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, GroupStateCause.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupStateCause.NOBODY_LEFT): GroupState.EMPTY,
        (GroupState.PREPARING_REBALANCE, GroupStateCause.REMOVED): GroupState.DEAD,
        (GroupState.COMPLETING_REBALANCE, GroupStateCause.ASSIGNMENT_STORED): GroupState.STABLE,
        (GroupState.COMPLETING_REBALANCE, GroupStateCause.MEMBERSHIP_CHANGED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, GroupStateCause.REMOVED): GroupState.DEAD,
        (GroupState.STABLE, GroupStateCause.MEMBERSHIP_CHANGED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, GroupStateCause.REMOVED): GroupState.DEAD,
        (GroupState.DEAD, GroupStateCause.REMOVED): GroupState.DEAD,
    }
)
"""The state to which each cause leads. A pair that is not here cannot happen, and stops the broker if it
does."""
