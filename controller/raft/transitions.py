"""The roles of a replica, and every way from one to another with its cause: what is not here cannot be.

                    ┌────────── higher epoch, from anywhere ◀───────────────────────────────┐
                    ▼                                                                       │
    start ──▶ UNATTACHED ──election timeout──▶ PROSPECTIVE ──pre-votes──▶ CANDIDATE ──votes──▶ LEADER
                    │  ▲                         │   ▲   ▲                    │               │
                    │  └──── pre-votes refused ──┘   │   └── votes refused ───┘          resigns
                leader known                   fetch timeout                                  ▼
                    └──────────────▶ FOLLOWER ───────┘              UNATTACHED ◀──timeout── RESIGNED

An *observer* is no role of its own: it is a replica that is not among the voters, and so never leaves
UNATTACHED and FOLLOWER by a timeout. Whether it is one can change with any record of its log, in the middle
of a role; so it is a property (`RaftNode.is_observer`), as in Kafka. Likewise "voted" is a fact of the
epoch and no role.

Sources: KIP-595 (roles), KIP-996 (PROSPECTIVE), KIP-853 (observers that become voters).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["STARTING_ROLES", "TRANSITIONS", "Role", "RoleCause"]


class Role(Enum):
    """The role of a replica in its epoch."""

    UNATTACHED = "unattached"
    """The replica knows no leader that it could follow. It waits for an election, and looks for a leader."""
    PROSPECTIVE = "prospective"
    """The replica asks whether it would get votes, without beginning a new epoch."""
    CANDIDATE = "candidate"
    """The replica has begun a new epoch and asks for votes in it."""
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"
    """The replica has led this epoch and does not any more. It can neither append nor vote in it."""


class RoleCause(Enum):
    """The reason for which a replica changes its role, or begins the same one anew."""

    HIGHER_EPOCH = "a message is of a later epoch, and names no leader to follow"
    LEADER_KNOWN = "a message names the leader of this epoch or a later one"
    VOTED = "a vote was given in this epoch"
    ELECTION_TIMEOUT = "no leader was found in time"
    FETCH_TIMEOUT = "the leader was not reached in time"
    PRE_VOTES_GRANTED = "a majority would vote for it"
    PRE_VOTES_REFUSED = "no majority would vote for it, or not in time"
    VOTES_GRANTED = "a majority voted for it"
    VOTES_REFUSED = "no majority voted for it, and it has backed off"
    RESIGNED = "shutting down, out of the voters, asked to, or without a majority that fetches"
    RESIGNATION_OVER = "nobody was elected after it resigned: the next epoch begins without a leader"


_R: Final = Role
_C: Final = RoleCause

STARTING_ROLES: Final = frozenset({_R.UNATTACHED, _R.FOLLOWER, _R.RESIGNED})
"""A former leader begins as RESIGNED in its epoch. It may have lost records that were not synced, so it must
neither write other records in that epoch nor vote in it. A former candidate does not continue its election,
because the votes were given to a log that may have been longer."""

TRANSITIONS: Final[Mapping[tuple[Role, Role], frozenset[RoleCause]]] = MappingProxyType(
    {
        (_R.UNATTACHED, _R.UNATTACHED): frozenset({_C.HIGHER_EPOCH, _C.VOTED}),
        (_R.UNATTACHED, _R.FOLLOWER): frozenset({_C.LEADER_KNOWN}),
        (_R.UNATTACHED, _R.PROSPECTIVE): frozenset({_C.ELECTION_TIMEOUT}),
        (_R.PROSPECTIVE, _R.UNATTACHED): frozenset({_C.HIGHER_EPOCH, _C.PRE_VOTES_REFUSED}),
        (_R.PROSPECTIVE, _R.PROSPECTIVE): frozenset({_C.VOTED}),
        (_R.PROSPECTIVE, _R.FOLLOWER): frozenset({_C.LEADER_KNOWN, _C.PRE_VOTES_REFUSED}),
        (_R.PROSPECTIVE, _R.CANDIDATE): frozenset({_C.PRE_VOTES_GRANTED}),
        (_R.CANDIDATE, _R.UNATTACHED): frozenset({_C.HIGHER_EPOCH}),
        (_R.CANDIDATE, _R.FOLLOWER): frozenset({_C.LEADER_KNOWN}),
        (_R.CANDIDATE, _R.PROSPECTIVE): frozenset({_C.VOTES_REFUSED}),
        (_R.CANDIDATE, _R.LEADER): frozenset({_C.VOTES_GRANTED}),
        (_R.LEADER, _R.UNATTACHED): frozenset({_C.HIGHER_EPOCH}),
        (_R.LEADER, _R.FOLLOWER): frozenset({_C.LEADER_KNOWN}),
        (_R.LEADER, _R.RESIGNED): frozenset({_C.RESIGNED}),
        (_R.FOLLOWER, _R.UNATTACHED): frozenset({_C.HIGHER_EPOCH}),
        (_R.FOLLOWER, _R.FOLLOWER): frozenset({_C.LEADER_KNOWN}),
        (_R.FOLLOWER, _R.PROSPECTIVE): frozenset({_C.FETCH_TIMEOUT}),
        (_R.RESIGNED, _R.UNATTACHED): frozenset({_C.HIGHER_EPOCH, _C.RESIGNATION_OVER}),
        (_R.RESIGNED, _R.FOLLOWER): frozenset({_C.LEADER_KNOWN}),
    }
)
