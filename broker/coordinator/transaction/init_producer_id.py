"""InitProducerId with a transactional id: one producer at a time may use it, the newest.

    state                 what is done                                         answer
    (no such id)          a new producer id                                    it, with epoch 0
    Empty, Complete*      the next epoch; if exhausted a new producer id       id and epoch
    Ongoing               the transaction is aborted with a higher epoch       CONCURRENT_TRANSACTIONS
    Prepare*              nothing                                              CONCURRENT_TRANSACTIONS

Told CONCURRENT_TRANSACTIONS a client asks again, and gets its epoch when the markers are written. A producer
that goes on after an error names the id and epoch that it had (KIP-360). It is fenced (PRODUCER_FENCED)
unless

    * they are the present ones, or
    * the epoch is the one before the present one: it has not heard the last answer and gets it again, or
    * they are the previous producer id and an exhausted epoch: the same, when the producer id has changed, or
    * the id is not known at all.

Where the present epoch is exhausted, Kafka answers UNKNOWN_SERVER_ERROR to a producer that names another
epoch. Here it is fenced, or gets the last answer again, as with any other epoch.
"""

from __future__ import annotations

from broker.coordinator.transaction.end_transaction import fence
from broker.coordinator.transaction.transaction_metadata import (
    NEVER_TIMES_OUT_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    is_exhausted,
    new_id,
    with_new_producer_id,
    with_next_epoch,
)
from broker.coordinator.transaction.transaction_operation import TransactionOperation, Transactions
from broker.coordinator.transaction.transaction_states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(
    transactions: Transactions,
    transactional_id: str,
    request: InitProducerIdRequest,
    operation: TransactionOperation,
) -> InitProducerIdResponse:
    """Gives a producer its epoch. Returns the response, which holds when the operation's records are stored.
    `request` is for this id, and names either both a producer id and an epoch or neither."""
    error = _refusal(request, operation)
    if error:
        return refused(error)
    timeout_ms = NEVER_TIMES_OUT_MS if request.enable2_pc else request.transaction_timeout_ms
    present = transactions.by_id.get(transactional_id)
    expected = _expected(request)
    if present is not None:
        if present.state.is_prepared:
            return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _may_name(expected, present):
            return refused(ErrorCode.PRODUCER_FENCED)
        if present.state is TransactionState.ONGOING:
            error = fence(transactions, transactional_id, present, operation)
            return refused(error or ErrorCode.CONCURRENT_TRANSACTIONS)
    following = _following(present, timeout_ms, expected, operation)
    if isinstance(following, ErrorCode):
        return refused(following)
    operation.write(transactions, transactional_id, following)
    return InitProducerIdResponse(producer_id=following.producer_id, producer_epoch=following.producer_epoch)


def refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def _refusal(request: InitProducerIdRequest, operation: TransactionOperation) -> ErrorCode:
    """The error for a request that is refused whatever the state of its id; NONE if it is not."""
    settings = operation.settings
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.enable2_pc and not settings.transaction_two_phase_commit_enable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if (
        not request.enable2_pc
        and not 0 < request.transaction_timeout_ms <= settings.transaction_max_timeout_ms
    ):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _expected(request: InitProducerIdRequest) -> tuple[int, int] | None:
    """The producer id and epoch that the producer says it has."""
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return request.producer_id, request.producer_epoch


def _may_name(expected: tuple[int, int], present: TransactionMetadata) -> bool:
    """Whether the request may name this producer id. Its epoch is looked at when that is raised."""
    producer_id, epoch = expected
    return producer_id == present.producer_id or (
        producer_id == present.previous_producer_id and is_exhausted(epoch)
    )


def _following(
    present: TransactionMetadata | None,
    timeout_ms: int,
    expected: tuple[int, int] | None,
    operation: TransactionOperation,
) -> TransactionMetadata | ErrorCode:
    """The next value of an id that is new or in the state Empty, CompleteCommit or CompleteAbort."""
    now_ms = operation.now.wall_ms
    expected_epoch = None if expected is None else expected[1]
    if present is None:
        producer_id = operation.take_producer_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return with_next_epoch(new_id(producer_id, timeout_ms, now_ms), timeout_ms, expected_epoch, now_ms)
    if not present.is_epoch_exhausted or expected_epoch not in (None, present.producer_epoch):
        return with_next_epoch(present, timeout_ms, expected_epoch, now_ms)
    producer_id = operation.take_producer_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return with_new_producer_id(
        present, producer_id, timeout_ms, now_ms, keep_last_epoch=expected is not None
    )
