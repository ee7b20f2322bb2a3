"""Which partitions belong to a transaction: adding them, and answering brokers that verify it.

Adding begins a transaction where none is open. What is already in needs no record. The offsets of a group
enter as the partition of `__consumer_offsets` that holds them.

    AddPartitionsToTxn 0-3    from producers of version 0 and 1 of transactions
    AddPartitionsToTxn 4, 5   from brokers: several transactions, each to be added to (5: version 2 of
                              transactions) or only to be verified
    AddOffsetsToTxn           from producers of version 0 and 1
"""

from __future__ import annotations

from collections.abc import Collection

from broker.coordinator.transaction.transaction_metadata import (
    TopicPartition,
    TransactionMetadata,
    with_partitions,
)
from broker.coordinator.transaction.transaction_operation import TransactionOperation, Transactions
from broker.coordinator.transaction.transaction_states import TransactionState
from protocol.errors import ErrorCode


def add_partitions(
    transactions: Transactions,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Collection[TopicPartition],
    client_version: int,
    operation: TransactionOperation,
) -> ErrorCode:
    """Adds partitions. There is one answer for all of them. producer: producer id and epoch."""
    present = transactions.by_id.get(transactional_id)
    if present is not None and present.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _refusal(transactional_id, present, producer)
    if present is None or error:
        return error
    if present.state is TransactionState.ONGOING and present.partitions.issuperset(partitions):
        return ErrorCode.NONE
    following = with_partitions(present, partitions, client_version, operation.now.wall_ms)
    operation.write(transactions, transactional_id, following)
    return ErrorCode.NONE


def verify_partitions(
    transactions: Transactions,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Collection[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition belongs to the open transaction. If one does not, asking again does not help:
    the producer must abort (TRANSACTION_ABORTABLE)."""
    present = transactions.by_id.get(transactional_id)
    error = _refusal(transactional_id, present, producer)
    if present is not None and present.state.is_prepared:
        error = error or ErrorCode.CONCURRENT_TRANSACTIONS
    if present is None or error:
        return dict.fromkeys(partitions, error)
    return {
        each: ErrorCode.NONE if each in present.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _refusal(
    transactional_id: str, present: TransactionMetadata | None, producer: tuple[int, int]
) -> ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if present is None or present.producer_id != producer[0]:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if present.producer_epoch != producer[1]:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE
