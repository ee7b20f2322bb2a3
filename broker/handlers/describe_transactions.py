"""DescribeTransactions (65), version 0: transactional ids as administrators see them. KIP-664.

Needs DESCRIBE on each transactional id, and on each topic of its transaction: those that one may not see are
left out.
"""

from __future__ import annotations

from broker.coordinator.transaction.transaction_descriptions import TransactionDescription
from broker.services import HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: HasTransactions, context: RequestContext, request: DescribeTransactionsRequest
) -> Turns[DescribeTransactionsResponse]:
    for name in request.transactional_ids:
        if not context.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            yield TransactionDescription(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, name)
            continue
        described = services.transactions.describe(name)
        described.topics = [
            topic
            for topic in described.topics
            if context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        ]
        yield described
    return DescribeTransactionsResponse()
