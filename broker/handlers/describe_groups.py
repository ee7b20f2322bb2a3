"""DescribeGroups (15), versions 0 to 6: state and members of classic groups.

    1    throttle time
    3    authorized operations, if asked for (KIP-430)
    4    instance ids of static members (KIP-345)
    5    flexible
    6    an unknown group is an error with a message, no longer a dead group (KIP-1043)

Needs DESCRIBE on each group. The empty group id may be asked for: very old clients commit under it.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.authorized_operations import authorized_operations
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: GroupServices, context: RequestContext, request: DescribeGroupsRequest
) -> Turns[DescribeGroupsResponse]:
    allowed: list[str] = []
    for group_id in request.groups:
        if context.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
            yield None
        else:
            yield DescribeGroupsResponse.DescribedGroup(
                group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
    for group_id in allowed:
        group = services.groups.describe(group_id, context.version)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
        yield group
    return DescribeGroupsResponse()
