"""FindCoordinator (10), versions 0 to 6: which broker coordinates a group, or a
transactional id.

    0    a group
    1    groups and transactional ids (KIP-98); throttle time and a message
    3    flexible
    4    several keys at once (KIP-699)
    5    errors of the newer transactions (KIP-890); nothing changes here
    6    keys of share groups (KIP-932)

Needs DESCRIBE on the group (or the transactional id). `__consumer_offsets` is made when the first group is
asked for, `__transaction_state` with the first transactional id, and the client tries again meanwhile. There
is no share coordinator yet.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.coordinator.group_coordinator import GroupServices
from broker.coordinator.ports import CoordinatorEndpoint
from broker.services import HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

SEVERAL_KEYS_SINCE: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
NOWHERE: Final = CoordinatorEndpoint(-1, "", -1)


class CoordinatorServices(GroupServices, HasTransactions, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: CoordinatorServices, context: RequestContext, request: FindCoordinatorRequest
) -> Turns[FindCoordinatorResponse]:
    if context.version >= SEVERAL_KEYS_SINCE:
        for key in request.coordinator_keys:
            yield _find(services, context, request.key_type, key)
        return FindCoordinatorResponse()
    found = _find(services, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        # The single answer has always carried the error's sentence, "NONE" included.
        error_message=found.error_message or ErrorCode(found.error_code).message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(
    services: CoordinatorServices, context: RequestContext, key_type: int, key: str
) -> FindCoordinatorResponse.Coordinator:
    message = ""
    found: CoordinatorEndpoint | ErrorCode
    if key_type == GROUP:
        if context.allows(Operation.DESCRIBE, ResourceType.GROUP, key):
            found = services.groups.locate(key, context.session.listener)
        else:
            found = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif key_type == TRANSACTION:
        if context.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            found = services.transactions.locate(key, context.session.listener)
        else:
            found = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        found = ErrorCode.INVALID_REQUEST
        message = found.message
    where, error = (NOWHERE, found) if isinstance(found, ErrorCode) else (found, ErrorCode.NONE)
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=where.node_id,
        host=where.host,
        port=where.port,
        error_code=error,
        error_message=message,
    )
