"""JoinGroup (11), versions 0 to 9: become a member by the classic protocol, or stay one.

    0    the rebalance timeout is the session timeout
    1    rebalance timeout of its own (KIP-62)
    2-3  throttle time
    4    a client without id is told one and comes again (KIP-394)
    5    static members (KIP-345)
    6    flexible
    7    protocol type and name in the answer (KIP-559)
    8    the client says why (KIP-800)
    9    a returning static leader may skip the assignment (KIP-814)

Needs READ on the group. The answer of a classic group comes when its join phase is over. A consumer group
(KIP-848) without members becomes a classic one; one with members takes the client in at once, if that offers
the protocol of consumers and a subscription that can be read (`broker.coordinator.consumer.classic_members`).
A group of a protocol that is not served is INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from broker.coordinator.group_operation import fitted, join_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: GroupServices, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Pending[JoinGroupResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return fitted(join_error("", ErrorCode.GROUP_AUTHORIZATION_FAILED), context.version)
    return services.groups.join(request, context)
