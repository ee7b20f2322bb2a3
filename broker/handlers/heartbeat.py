"""Heartbeat (12), versions 0 to 4: a member lives, and hears whether it must join again.

    1    throttle time
    3    static members (KIP-345)
    4    flexible

Needs READ on the group. While the coordinator is loading every heartbeat is welcome.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext


def handle(services: GroupServices, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return services.groups.heartbeat(request)
