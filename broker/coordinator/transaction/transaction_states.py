"""The life of a transactional id, as a table.

       InitProducerId            partitions are added
        ┌────────┐                 ┌───────────┐
        ▼        │                 ▼           │
       Empty ────┴─────────────► Ongoing ──────┘
        ▲  ▲                       │   │
        │  │        commit is asked│   │abort is asked, or the producer is fenced
        │  │                       ▼   ▼
        │  │           PrepareCommit   PrepareAbort ◄── an abort is asked in Empty, CompleteCommit
        │  │   markers are   │           │              or CompleteAbort (version 2 of transactions)
        │  │   written       ▼           ▼
        │  └── CompleteCommit           │
        └──────────────────────── CompleteAbort         the next transaction begins in CompleteCommit
                  InitProducerId                        or CompleteAbort as it does in Empty

       Empty, CompleteCommit, CompleteAbort ──► Dead: nobody has used the id for long; a tombstone

In Prepare* the outcome is decided and stored, and nothing but the markers is awaited: requests for the id are
told CONCURRENT_TRANSACTIONS meanwhile.

Two states are never recorded. Dead is the absence of a record. PrepareEpochFence is what Kafka's coordinator
is in while it raises the epoch of a producer in order to abort its transaction; here the raised epoch and the
abort are one step. Both have numbers and names since lists can be filtered by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class TransactionState(IntEnum):
    """The values are those of `TransactionStatus` in the records of `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that DescribeTransactions and ListTransactions show, such as `CompleteCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and the markers are awaited."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether the id may be forgotten when no producer has used it for long."""
        return (self, TransactionCause.EXPIRED) in TRANSITIONS


class TransactionCause(IntEnum):
    """The reason for which a transactional id changes its state."""

    INITIALIZED = 0
    """InitProducerId has given the producer an epoch."""
    PARTITIONS_ADDED = 1
    """Partitions were added by AddPartitionsToTxn, AddOffsetsToTxn or a first write."""
    COMMIT_ASKED = 2
    ABORT_ASKED = 3
    FENCED = 4
    """A newer producer has come, or the transaction has taken too long, so it is aborted with a new epoch."""
    EMPTY_ABORT_ASKED = 5
    """An abort was asked for without a transaction. In version 2 of transactions it raises the epoch."""
    MARKERS_WRITTEN = 6
    """Every partition of the transaction has its marker."""
    EXPIRED = 7
    """No producer has used the id for `transactional.id.expiration.ms`."""


_State = TransactionState
_Cause = TransactionCause
TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionCause], TransactionState]] = MappingProxyType(
    {
        (_State.EMPTY, _Cause.INITIALIZED): _State.EMPTY,
        (_State.EMPTY, _Cause.PARTITIONS_ADDED): _State.ONGOING,
        (_State.EMPTY, _Cause.EMPTY_ABORT_ASKED): _State.PREPARE_ABORT,
        (_State.EMPTY, _Cause.EXPIRED): _State.DEAD,
        (_State.ONGOING, _Cause.PARTITIONS_ADDED): _State.ONGOING,
        (_State.ONGOING, _Cause.COMMIT_ASKED): _State.PREPARE_COMMIT,
        (_State.ONGOING, _Cause.ABORT_ASKED): _State.PREPARE_ABORT,
        (_State.ONGOING, _Cause.FENCED): _State.PREPARE_ABORT,
        (_State.PREPARE_COMMIT, _Cause.MARKERS_WRITTEN): _State.COMPLETE_COMMIT,
        (_State.PREPARE_ABORT, _Cause.MARKERS_WRITTEN): _State.COMPLETE_ABORT,
        (_State.COMPLETE_COMMIT, _Cause.INITIALIZED): _State.EMPTY,
        (_State.COMPLETE_COMMIT, _Cause.PARTITIONS_ADDED): _State.ONGOING,
        (_State.COMPLETE_COMMIT, _Cause.EMPTY_ABORT_ASKED): _State.PREPARE_ABORT,
        (_State.COMPLETE_COMMIT, _Cause.EXPIRED): _State.DEAD,
        (_State.COMPLETE_ABORT, _Cause.INITIALIZED): _State.EMPTY,
        (_State.COMPLETE_ABORT, _Cause.PARTITIONS_ADDED): _State.ONGOING,
        (_State.COMPLETE_ABORT, _Cause.EMPTY_ABORT_ASKED): _State.PREPARE_ABORT,
        (_State.COMPLETE_ABORT, _Cause.EXPIRED): _State.DEAD,
    }
)
"""The state to which each cause leads. A pair that is not here cannot happen, and stops the broker if it
does."""

STATES_BY_LABEL: Final[Mapping[str, TransactionState]] = MappingProxyType(
    {state.label: state for state in TransactionState}
)
