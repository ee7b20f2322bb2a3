"""EndTxn (26), versions 0 to 5: a producer commits or aborts its transaction. KIP-98, KIP-890.

    1    throttled after the answer
    2    PRODUCER_FENCED may come
    3    flexible
    4    TRANSACTION_ABORTABLE may come
    5    each transaction has an epoch of its own; the answer names the next one (version 2 of transactions)

Needs WRITE on the transactional id. The answer comes when the outcome is stored; the markers follow (see
`coordinator.transaction.end_transaction`).
"""

from __future__ import annotations

from typing import Final

from broker.coordinator.transaction.transaction_metadata import EPOCH_BUMP_SINCE
from broker.services import HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext

FENCED_SINCE: Final = 2
"""Older producers know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH."""
RAISES_EPOCH_SINCE: Final = 5


def handle(
    services: HasTransactions, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Pending[EndTxnResponse]:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    client_version = EPOCH_BUMP_SINCE if context.version >= RAISES_EPOCH_SINCE else 0
    answer = services.transactions.end_transaction(request, client_version)
    return then(answer, _known_errors) if context.version < FENCED_SINCE else answer


def _known_errors(response: EndTxnResponse) -> EndTxnResponse:
    if response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response
