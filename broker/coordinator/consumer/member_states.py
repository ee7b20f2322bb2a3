"""The states of a consumer group and of its members, and how a member comes from one to the next.

A group has three epochs. The *group epoch* grows with every change of members, subscriptions or topics. The
*assignment epoch* is the group epoch for which the target assignment was made. A *member's epoch* is the
assignment epoch that it has reached; it reaches one when it has given up what that assignment takes from it.

    group state     members    group epoch            members
    Empty           none
    Assigning       some       > assignment epoch
    Reconciling     some       = assignment epoch     not all are Stable in this epoch
    Stable          some       = assignment epoch     all are Stable in this epoch

A member's heartbeat finds it in a situation, and the table tells what is done. To *advance* means to compare
what the member has with its target:

    still has to give up something        UnrevokedPartitions    keeps its epoch
    else, others have to give it some     UnreleasedPartitions   in the target's epoch, with what is free
    else                                  Stable                 in the target's epoch

To *trim* means to take from it, in its epoch, topics that it subscribes no longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final


class ConsumerGroupState(Enum):
    """The values are the words that ConsumerGroupDescribe and ListGroups show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The states of a member, with the numbers of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member was told to give up partitions, and has not said yet that it has."""
    UNRELEASED_PARTITIONS = 2
    """Partitions of its target belong to members that have not given them up."""
    UNKNOWN = 127
    """A newer coordinator has written a state that this one does not know."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Situation(Enum):
    """The situation in which a heartbeat finds a member."""

    RECONCILED = "the target is reached"
    RESUBSCRIBED = "the target is reached, and the member has changed what it subscribes"
    BEHIND = "there is a newer target"
    HOLDING = "the member does not say that it has given up what it must"
    HOLDING_RESUBSCRIBED = "nor this, and it has changed what it subscribes"
    RELEASED = "the member says that it has given up what it must"
    WAITING = "others may have given up partitions meanwhile"
    OWNING = "the member owns partitions, or does not say what it owns"
    OWNING_NOTHING = "the member says that it owns nothing"


class ReconciliationStep(Enum):
    """What is done in a situation, see the head of this module."""

    STAY = "stay"
    TRIM = "trim"
    ADVANCE = "advance"
    START_ANEW = "advance, as if the target's epoch had been reached before"
    FENCE = "fence"


STEPS: Final[Mapping[tuple[MemberState, Situation], ReconciliationStep]] = MappingProxyType(
    {
        (MemberState.STABLE, Situation.RECONCILED): ReconciliationStep.STAY,
        (MemberState.STABLE, Situation.RESUBSCRIBED): ReconciliationStep.TRIM,
        (MemberState.STABLE, Situation.BEHIND): ReconciliationStep.ADVANCE,
        (MemberState.UNREVOKED_PARTITIONS, Situation.HOLDING): ReconciliationStep.STAY,
        (MemberState.UNREVOKED_PARTITIONS, Situation.HOLDING_RESUBSCRIBED): ReconciliationStep.TRIM,
        (MemberState.UNREVOKED_PARTITIONS, Situation.RELEASED): ReconciliationStep.ADVANCE,
        (MemberState.UNRELEASED_PARTITIONS, Situation.WAITING): ReconciliationStep.ADVANCE,
        (MemberState.UNKNOWN, Situation.OWNING_NOTHING): ReconciliationStep.START_ANEW,
        (MemberState.UNKNOWN, Situation.OWNING): ReconciliationStep.FENCE,
    }
)
"""The step for each situation. A pair that is not here cannot occur."""
