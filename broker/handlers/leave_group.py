"""LeaveGroup (13), versions 0 to 5: members go.

    0-2  one member, one error
    1    throttle time
    3    several members with an error each; static ones by their instance id alone (KIP-345)
    4    flexible
    5    each says why (KIP-800)

Needs READ on the group.
"""

from __future__ import annotations

from typing import Final

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext

SEVERAL_SINCE: Final = 3


def handle(
    services: GroupServices, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.version >= SEVERAL_SINCE:
        return services.groups.leave(request.group_id, request.members)
    alone = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    return then(services.groups.leave(request.group_id, alone), _of_one)


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """The answer to a single member has that member's error as its own."""
    error = response.error_code
    if response.members and not error:
        error = response.members[0].error_code
    return LeaveGroupResponse(error_code=error)
