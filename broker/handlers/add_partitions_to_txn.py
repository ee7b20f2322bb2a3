"""AddPartitionsToTxn (24), versions 0 to 5: partitions enter a transaction, or are verified to be in it.

    0-3  a producer of version 0 or 1 of transactions adds partitions to its own (KIP-98); 1: throttled after
         the answer; 2: PRODUCER_FENCED may come; 3: flexible
    4    brokers verify, or add, for the producers that write to them; several transactions at once (KIP-890)
    5    TRANSACTION_ABORTABLE may come

A producer needs WRITE on its transactional id and on each topic; the coordinators' own topics are not for it.
One partition that it may not have, or that does not exist, and none is added: the others are told
OPERATION_NOT_ATTEMPTED. Brokers need CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Protocol

from broker.coordinator.transaction.transaction_metadata import EPOCH_BUMP_SINCE, TopicPartition
from broker.metadata.cache import INTERNAL_TOPICS
from broker.services import HasMetadata, HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, gather, then
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

OF_BROKERS_SINCE: Final = 4
FENCED_SINCE: Final = 2
"""Older producers know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH."""
PARTITIONS_PER_STEP: Final = 100

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
Errors = Mapping[TopicPartition, ErrorCode]


class AddPartitionsServices(HasTransactions, HasMetadata, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: AddPartitionsServices, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Turns[AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]]:
    if context.version < OF_BROKERS_SINCE:
        transaction = Transaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            request.v3_and_below_topics,
        )
        added = yield from _of_producer(services, context, transaction)
        return then(added, lambda topics: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results: list[Result | Pending[Result]] = []
    for transaction in request.transactions:
        of_broker = yield from _of_broker(services, transaction)
        results.append(then(of_broker, partial(Result, transaction.transactional_id)))
        yield None
    return gather(results, lambda found: AddPartitionsToTxnResponse(results_by_transaction=found))


def _of_producer(
    services: AddPartitionsServices, context: RequestContext, transaction: Transaction
) -> Turns[list[TopicResult] | Pending[list[TopicResult]]]:
    name, topics = transaction.transactional_id, transaction.topics
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return _told(topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    forbidden = set()
    for topic in topics:
        if topic.name in INTERNAL_TOPICS or not context.allows(
            Operation.WRITE, ResourceType.TOPIC, topic.name
        ):
            forbidden.add(topic.name)
        yield None
    wanted, errors = yield from _looked_up(services, topics, forbidden)
    if errors:
        return _results(topics, errors, ErrorCode.OPERATION_NOT_ATTEMPTED)
    added = services.transactions.add_partitions(
        name, (transaction.producer_id, transaction.producer_epoch), wanted, 0
    )

    def answer(error: ErrorCode) -> list[TopicResult]:
        if error is ErrorCode.PRODUCER_FENCED and context.version < FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return _told(topics, error)

    return then(added, answer)


def _of_broker(
    services: AddPartitionsServices, transaction: Transaction
) -> Turns[list[TopicResult] | Pending[list[TopicResult]]]:
    name, topics = transaction.transactional_id, transaction.topics
    wanted, errors = yield from _looked_up(services, topics, frozenset())
    if errors:
        return _results(topics, errors, ErrorCode.OPERATION_NOT_ATTEMPTED)
    producer = (transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        verified = services.transactions.verify_partitions(name, producer, wanted)
        return then(verified, lambda found: _results(topics, found, ErrorCode.NONE))
    added = services.transactions.add_partitions(name, producer, wanted, EPOCH_BUMP_SINCE)
    return then(added, lambda error: _told(topics, error))


def _looked_up(
    services: AddPartitionsServices, topics: Iterable[Topic], forbidden: Iterable[str]
) -> Turns[tuple[dict[TopicPartition, None], dict[TopicPartition, ErrorCode]]]:
    """All partitions that are named, and the errors of those that cannot be added."""
    wanted: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    looked_at = 0
    for topic in topics:
        for index in topic.partitions:
            looked_at += 1
            place = (topic.name, index)
            wanted[place] = None
            if topic.name in forbidden:
                errors[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif services.metadata.partition(topic.name, index) is None:
                errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if looked_at % PARTITIONS_PER_STEP == 0:
                yield None
        yield None
    return wanted, errors


def _told(topics: Iterable[Topic], error: ErrorCode) -> list[TopicResult]:
    """The same for all partitions."""
    return _results(topics, {}, error)


def _results(topics: Iterable[Topic], errors: Errors, otherwise: ErrorCode) -> list[TopicResult]:
    return [
        TopicResult(
            topic.name,
            [
                PartitionResult(index, errors.get((topic.name, index), otherwise))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
