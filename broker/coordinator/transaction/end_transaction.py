"""EndTxn, the abort of a transaction whose producer is fenced, and what follows either.

The outcome is recorded first (Prepare*), and the producer is answered when that is stored. Then every
partition gets its marker, and the end is recorded (Complete*):

    prepare(record) ── stored ──► markers are sent ── all written ──► complete(record)
          ▲                                                                │
          └──────────────────────── after a pause ◄── refused by the log ──┘

A decision that the log has refused is undone, as if nobody had asked. One that takes the log too long
stands: its producer is told to ask again, and what follows happens when it is stored.

What EndTxn does, by state, what is asked, and the producer's epoch. In version 2 of transactions each end
raises the epoch, so that the epoch before the present one (*earlier*) tells a repeated request from a new
one, if the last transaction was ended in version 2. Where the epochs were exhausted and the present one is 0
of a new producer id, the earlier one is 32766 of the previous producer id.

    version 0 and 1       commit               abort
    Empty                 INVALID_TXN_STATE    INVALID_TXN_STATE
    Ongoing               PrepareCommit        PrepareAbort
    CompleteCommit        NONE                 INVALID_TXN_STATE
    CompleteAbort         INVALID_TXN_STATE    NONE

    version 2             commit                                  abort
                          present epoch        earlier            present epoch        earlier
    Empty                 INVALID_TXN_STATE    PRODUCER_FENCED    PrepareAbort         PRODUCER_FENCED
    Ongoing               PrepareCommit        PRODUCER_FENCED    PrepareAbort         PRODUCER_FENCED
    CompleteCommit        INVALID_TXN_STATE    NONE               PrepareAbort         INVALID_TXN_STATE
    CompleteAbort         INVALID_TXN_STATE    INVALID_TXN_STATE  PrepareAbort         NONE

Apache Kafka does not ask how the last transaction was ended: where two producers with one transactional id
speak a version each, it gives the one that asks again the epoch of the other, and both write with it.

In Prepare* the answer is CONCURRENT_TRANSACTIONS. Another producer id is INVALID_PRODUCER_ID_MAPPING, any
other epoch PRODUCER_FENCED. Versions 0 and 1 look at these two first, version 2 at the state, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.result import CoordinatorResult
from broker.coordinator.transaction.transaction_metadata import (
    EPOCH_BUMP_SINCE,
    LAST_EPOCH_OF_A_PRODUCER,
    NO_PRODUCER_ID,
    TransactionMetadata,
    completed,
    fenced,
    prepared,
)
from broker.coordinator.transaction.transaction_operation import (
    SETTLE_AGAIN_MS,
    EndedTransaction,
    TransactionDeadline,
    TransactionOperation,
    Transactions,
)
from broker.coordinator.transaction.transaction_states import TransactionCause, TransactionState
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


class Asked(IntEnum):
    """What EndTxn asks for."""

    ABORT = 0
    COMMIT = 1


class Epoch(IntEnum):
    """The epoch of a request beside the present one of its transactional id."""

    EARLIER = 0
    PRESENT = 1
    OTHER = 2


Verdict: TypeAlias = TransactionCause | ErrorCode
"""Either the outcome that is decided, or the error for the producer."""

_S = TransactionState
_A, _C = Asked.ABORT, Asked.COMMIT
_OLD, _NOW = Epoch.EARLIER, Epoch.PRESENT
_INVALID, _FENCED, _DONE = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.NONE,
)
_COMMIT, _ABORT, _EMPTY_ABORT = (
    TransactionCause.COMMIT_ASKED,
    TransactionCause.ABORT_ASKED,
    TransactionCause.EMPTY_ABORT_ASKED,
)

VERDICTS_1: Final[Mapping[tuple[TransactionState, Asked], Verdict]] = MappingProxyType(
    {
        (_S.EMPTY, _C): _INVALID,
        (_S.EMPTY, _A): _INVALID,
        (_S.ONGOING, _C): _COMMIT,
        (_S.ONGOING, _A): _ABORT,
        (_S.COMPLETE_COMMIT, _C): _DONE,
        (_S.COMPLETE_COMMIT, _A): _INVALID,
        (_S.COMPLETE_ABORT, _C): _INVALID,
        (_S.COMPLETE_ABORT, _A): _DONE,
    }
)
"""The verdicts for versions 0 and 1 of transactions, for the present epoch."""

VERDICTS_2: Final[Mapping[tuple[TransactionState, Asked, Epoch], Verdict]] = MappingProxyType(
    {
        (_S.EMPTY, _C, _NOW): _INVALID,
        (_S.EMPTY, _C, _OLD): _FENCED,
        (_S.EMPTY, _A, _NOW): _EMPTY_ABORT,
        (_S.EMPTY, _A, _OLD): _FENCED,
        (_S.ONGOING, _C, _NOW): _COMMIT,
        (_S.ONGOING, _C, _OLD): _FENCED,
        (_S.ONGOING, _A, _NOW): _ABORT,
        (_S.ONGOING, _A, _OLD): _FENCED,
        (_S.COMPLETE_COMMIT, _C, _NOW): _INVALID,
        (_S.COMPLETE_COMMIT, _C, _OLD): _DONE,
        (_S.COMPLETE_COMMIT, _A, _NOW): _EMPTY_ABORT,
        (_S.COMPLETE_COMMIT, _A, _OLD): _INVALID,
        (_S.COMPLETE_ABORT, _C, _NOW): _INVALID,
        (_S.COMPLETE_ABORT, _C, _OLD): _INVALID,
        (_S.COMPLETE_ABORT, _A, _NOW): _EMPTY_ABORT,
        (_S.COMPLETE_ABORT, _A, _OLD): _DONE,
    }
)
"""The verdicts for version 2 of transactions."""


# Asked by a producer


def end_transaction(
    transactions: Transactions, request: EndTxnRequest, client_version: int, operation: TransactionOperation
) -> EndTxnResponse:
    """Commits or aborts a transaction. Returns the response, which holds when the operation's records are
    stored. From version 2 of transactions on it names the producer id and epoch of the producer's next
    transaction."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    present = transactions.by_id.get(request.transactional_id)
    if present is None:
        return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    raises_epoch = client_version >= EPOCH_BUMP_SINCE
    verdict = _verdict_2(present, request) if raises_epoch else _verdict_1(present, request)
    following = present
    if isinstance(verdict, TransactionCause):
        next_producer_id = NO_PRODUCER_ID
        if raises_epoch and present.is_epoch_exhausted:
            taken = operation.take_producer_id()
            if taken is None:
                return EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            next_producer_id = taken
        now_ms = operation.now.wall_ms
        version = client_version if raises_epoch else 0
        following = prepared(present, verdict, version, now_ms, next_producer_id)
        _decide(transactions, request.transactional_id, following, operation)
        following = completed(following, now_ms)
        verdict = ErrorCode.NONE
    if verdict or not raises_epoch:
        return EndTxnResponse(error_code=verdict)
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.producer_epoch)


def _verdict_1(present: TransactionMetadata, request: EndTxnRequest) -> Verdict:
    if present.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if present.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if present.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return VERDICTS_1[present.state, Asked(request.committed)]


def _verdict_2(present: TransactionMetadata, request: EndTxnRequest) -> Verdict:
    if present.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    repeats_the_last_epoch = (
        request.producer_id == present.previous_producer_id
        and request.producer_epoch == LAST_EPOCH_OF_A_PRODUCER
        and present.producer_epoch == 0
    )
    if present.producer_id != request.producer_id and not repeats_the_last_epoch:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    epoch = Epoch.OTHER
    was_raised = present.client_version >= EPOCH_BUMP_SINCE
    if repeats_the_last_epoch or (was_raised and request.producer_epoch + 1 == present.producer_epoch):
        epoch = Epoch.EARLIER
    elif request.producer_epoch == present.producer_epoch:
        epoch = Epoch.PRESENT
    return VERDICTS_2.get((present.state, Asked(request.committed), epoch), ErrorCode.PRODUCER_FENCED)


# Asked by the coordinator itself


def fence(
    transactions: Transactions,
    transactional_id: str,
    present: TransactionMetadata,
    operation: TransactionOperation,
) -> ErrorCode:
    """Aborts the open transaction with an epoch above its producer's. With an error nothing was done, because
    the broker has to get producer ids first."""
    next_producer_id = NO_PRODUCER_ID
    if operation.server_version >= EPOCH_BUMP_SINCE and present.is_epoch_exhausted:
        taken = operation.take_producer_id()
        if taken is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        next_producer_id = taken
    following = fenced(present, operation.server_version, operation.now.wall_ms, next_producer_id)
    _decide(transactions, transactional_id, following, operation)
    return ErrorCode.NONE


# What follows


def _decide(
    transactions: Transactions,
    transactional_id: str,
    metadata: TransactionMetadata,
    operation: TransactionOperation,
) -> None:
    """Records an outcome or the end, and has the next step done when that is stored."""
    operation.write(transactions, transactional_id, metadata)
    operation.result.on_stored = partial(_stored, transactions, transactional_id)
    operation.result.until_decided = True


def _stored(
    transactions: Transactions, transactional_id: str, error: ErrorCode, now: CurrentTime
) -> CoordinatorResult[None]:
    operation = transactions.begin(now)
    present = transactions.by_id.get(transactional_id)
    if present is None or not present.state.is_prepared:
        return operation.result
    if error:
        operation.schedule(TransactionDeadline.SETTLE, SETTLE_AGAIN_MS, transactional_id)
    else:
        _see_to_markers(transactions, transactional_id, present, operation)
    return operation.result


def _see_to_markers(
    transactions: Transactions,
    transactional_id: str,
    present: TransactionMetadata,
    operation: TransactionOperation,
) -> None:
    """Has the markers written, because the outcome is stored, or records the end if there are no
    partitions."""
    if not present.partitions:
        _decide(transactions, transactional_id, completed(present, operation.now.wall_ms), operation)
        return
    transactions.markers.send(
        EndedTransaction(
            transactional_id,
            present.producer_id,
            present.producer_epoch,
            present.state is TransactionState.PREPARE_COMMIT,
            present.partitions,
            present.client_version,
        )
    )


def markers_written(
    transactions: Transactions,
    transactional_id: str,
    producer: tuple[int, int],
    operation: TransactionOperation,
) -> None:
    """Records the end, because every partition has the marker of this producer id and epoch. Nothing is done
    if the id has gone on since."""
    present = transactions.by_id.get(transactional_id)
    if present is not None and present.state.is_prepared and present.identity == producer:
        _decide(transactions, transactional_id, completed(present, operation.now.wall_ms), operation)


def settle(transactions: Transactions, transactional_id: str, operation: TransactionOperation) -> None:
    """Writes an outcome again whose markers may not have been sent, or whose end the log has refused. When it
    is stored the markers are sent, perhaps once more, which does no harm."""
    present = transactions.by_id.get(transactional_id)
    if present is not None and present.state.is_prepared:
        _decide(transactions, transactional_id, present, operation)
