"""ListTransactions (66), versions 0 to 2: the transactional ids that this broker coordinates. KIP-664.

    0    by states and producer ids
    1    those whose transaction has been open for longer than a time (KIP-994)
    2    those whose id matches an expression in the syntax of RE2 (KIP-1152)

Shows those that one may DESCRIBE. States that do not exist are named in the answer. As long as one of its
partitions of `__transaction_state` is loading, the broker answers COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from broker.coordinator.expressions import WrongExpression, matcher
from broker.coordinator.transaction.transaction_descriptions import TransactionFilter, unknown_states
from broker.services import HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: HasTransactions, context: RequestContext, request: ListTransactionsRequest
) -> Turns[ListTransactionsResponse]:
    matches = None
    if request.transactional_id_pattern:
        try:
            matches = matcher(request.transactional_id_pattern)
        except WrongExpression:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = set()
    for state in request.state_filters:
        states.add(state)
        yield None
    producer_ids = set()
    for producer_id in request.producer_id_filters:
        producer_ids.add(producer_id)
        yield None
    wanted = TransactionFilter(states, producer_ids, request.duration_filter, matches)
    found = services.transactions.list_transactions(wanted)
    if found is None:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for listed in found:
        if listed is not None and not context.allows(
            Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, listed.transactional_id
        ):
            listed = None
        yield listed
    return ListTransactionsResponse(unknown_state_filters=unknown_states(request.state_filters))
