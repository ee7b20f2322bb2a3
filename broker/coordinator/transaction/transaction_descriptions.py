"""DescribeTransactions and ListTransactions: transactional ids as administrators see them (KIP-664).

A list can be filtered by states, producer ids, by how long the transaction has been open (KIP-994) and by a
pattern of the id (KIP-1152); what is shown passes all filters. As in Kafka an id without a start counts as
open since the beginning of time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from broker.coordinator.transaction.transaction_metadata import TransactionMetadata
from broker.coordinator.transaction.transaction_records import partitions_by_topic
from broker.coordinator.transaction.transaction_states import STATES_BY_LABEL
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsResponse
from protocol.messages.list_transactions import ListTransactionsResponse

TransactionDescription = DescribeTransactionsResponse.TransactionState
ListedTransaction = ListTransactionsResponse.TransactionState


class TransactionFilter(NamedTuple):
    """What a list shows. Empty collections, a negative duration and no pattern exclude nothing.

    matches: whether the whole transactional id matches the pattern.
    """

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1
    matches: Callable[[str], bool] | None = None


def describe_transaction(
    transactional_id: str, metadata: TransactionMetadata | None
) -> DescribeTransactionsResponse.TransactionState:
    """Describes the id with the partitions of its open transaction, or says why it cannot be described."""
    if not transactional_id:
        return TransactionDescription(ErrorCode.INVALID_REQUEST, transactional_id)
    if metadata is None:
        return TransactionDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return TransactionDescription(
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic, indexes)
            for topic, indexes in partitions_by_topic(metadata.partitions).items()
        ],
    )


def unknown_states(wanted: Collection[str]) -> list[str]:
    """The filters that name no state, each once. The client is told of them."""
    return [state for state in dict.fromkeys(wanted) if state not in STATES_BY_LABEL]


def list_transactions(
    by_id: Mapping[str, TransactionMetadata], wanted: TransactionFilter, now_ms: int
) -> Iterator[ListTransactionsResponse.TransactionState | None]:
    """The ids that pass all filters, as they are at the first step; None for each that does not. A filter of
    unknown states alone shows nothing, as in Kafka."""
    states = {STATES_BY_LABEL[state] for state in wanted.states if state in STATES_BY_LABEL}
    for transactional_id, metadata in list(by_id.items()):
        if (
            (wanted.producer_ids and metadata.producer_id not in wanted.producer_ids)
            or (wanted.states and metadata.state not in states)
            or (wanted.longer_than_ms >= 0 and now_ms - metadata.start_ms <= wanted.longer_than_ms)
            or (wanted.matches is not None and not wanted.matches(transactional_id))
        ):
            yield None
        else:
            yield ListedTransaction(transactional_id, metadata.producer_id, metadata.state.label)
