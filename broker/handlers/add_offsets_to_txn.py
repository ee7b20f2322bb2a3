"""AddOffsetsToTxn (25), versions 0 to 4: a group's offsets become part of a producer's transaction. KIP-98.

    1    throttled after the answer
    2    PRODUCER_FENCED may come
    3    flexible
    4    TRANSACTION_ABORTABLE may come

What enters is the partition of `__consumer_offsets` that the group belongs to. Producers of version 2 of
transactions do not ask: TxnOffsetCommit adds it. Needs WRITE on the transactional id and READ on the group.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupServices
from broker.services import HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext

FENCED_SINCE: Final = 2
"""Older producers know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH."""


class AddOffsetsServices(HasTransactions, GroupServices, Protocol):
    """What this handler needs of the broker's services."""


def handle(
    services: AddOffsetsServices, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partition = (GROUP_TOPIC, services.groups.partition_for(request.group_id))
    producer = (request.producer_id, request.producer_epoch)
    added = services.transactions.add_partitions(request.transactional_id, producer, [partition], 0)

    def answer(error: ErrorCode) -> AddOffsetsToTxnResponse:
        if error is ErrorCode.PRODUCER_FENCED and context.version < FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=error)

    return then(added, answer)
