"""The roles of a hosted partition and the states of its ISR: every way from one to another, with its cause.

A change that is in neither table cannot happen; if it does, the broker has a bug and stops.

The role is what this broker is for the partition in a leader epoch::

                       elected                        elected in a later epoch
    start ──▶ FOLLOWER ───────▶ LEADER                (LEADER ──▶ LEADER)
                 │  ▲              │
                 │  └──────────────┤  the image names another leader, or none
                 │                 │
                 └──▶ OFFLINE ◀────┘  the log failed

A partition without a leader is a follower of nobody. OFFLINE is never left: when the disk works again, the
replica manager makes a new partition.

The ISR is the leader's own picture of who is in sync. Only the controller changes it, so a leader that wants
another ISR asks with AlterPartition (KIP-497) and waits::

    COMMITTED ──a replica caught up──▶ PENDING_EXPAND ──┐
        │ ▲                                             ├──▶ COMMITTED   confirmed, rejected, or overtaken
        │ └─────────────────────────────────────────────┤               by the metadata log
        └─────a replica fell behind──▶ PENDING_SHRINK ──┘

A leader asks for one change at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = [
    "ISR_TRANSITIONS",
    "STARTING_ROLE",
    "TRANSITIONS",
    "IsrCause",
    "IsrState",
    "Role",
    "RoleCause",
]


class Role(Enum):
    """The role of this broker for a partition that it hosts."""

    LEADER = "leader"
    FOLLOWER = "follower"
    """The broker copies from the leader, or waits until there is one."""
    OFFLINE = "offline"
    """The log cannot be used any more."""


class RoleCause(Enum):
    """The reason for which a partition changes its role, or begins the same one anew."""

    ELECTED = "the metadata log names this broker as the leader of a new epoch"
    LEADER_CHANGED = "the metadata log names another leader, a later epoch of it, or no leader"
    RETIRED = "the partition is hosted here no longer; whoever still holds it finds no leader"
    LOG_FAILED = "the disk failed under the log"


STARTING_ROLE: Final = Role.FOLLOWER

TRANSITIONS: Final[Mapping[tuple[Role, Role], frozenset[RoleCause]]] = MappingProxyType(
    {
        (Role.FOLLOWER, Role.LEADER): frozenset({RoleCause.ELECTED}),
        (Role.FOLLOWER, Role.FOLLOWER): frozenset({RoleCause.LEADER_CHANGED, RoleCause.RETIRED}),
        (Role.FOLLOWER, Role.OFFLINE): frozenset({RoleCause.LOG_FAILED}),
        (Role.LEADER, Role.LEADER): frozenset({RoleCause.ELECTED}),
        (Role.LEADER, Role.FOLLOWER): frozenset({RoleCause.LEADER_CHANGED, RoleCause.RETIRED}),
        (Role.LEADER, Role.OFFLINE): frozenset({RoleCause.LOG_FAILED}),
    }
)


class IsrState(Enum):
    """What a leader knows about its ISR."""

    COMMITTED = "committed"
    """The ISR is the one in the metadata log, and the leader has not asked for another."""
    PENDING_EXPAND = "pending expand"
    """The leader has asked to take a replica in and has no answer yet."""
    PENDING_SHRINK = "pending shrink"
    """The leader has asked to take replicas out and has no answer yet."""


class IsrCause(Enum):
    """The reason for which the state of an ISR changes."""

    CAUGHT_UP = "a replica outside the ISR has caught up with the leader"
    FELL_BEHIND = "replicas in the ISR have not caught up for longer than replica.lag.time.max.ms"
    CONFIRMED = "the controller answered with the ISR that is in force now"
    REJECTED = "the controller answered that it has not made the change, and will not"
    IMAGE = "the metadata log tells the ISR in force; an answer that is still on its way is ignored"


_COMMITTED_AGAIN: Final = frozenset({IsrCause.CONFIRMED, IsrCause.REJECTED, IsrCause.IMAGE})

ISR_TRANSITIONS: Final[Mapping[tuple[IsrState, IsrState], frozenset[IsrCause]]] = MappingProxyType(
    {
        (IsrState.COMMITTED, IsrState.COMMITTED): frozenset({IsrCause.IMAGE}),
        (IsrState.COMMITTED, IsrState.PENDING_EXPAND): frozenset({IsrCause.CAUGHT_UP}),
        (IsrState.COMMITTED, IsrState.PENDING_SHRINK): frozenset({IsrCause.FELL_BEHIND}),
        (IsrState.PENDING_EXPAND, IsrState.COMMITTED): _COMMITTED_AGAIN,
        (IsrState.PENDING_SHRINK, IsrState.COMMITTED): _COMMITTED_AGAIN,
    }
)
