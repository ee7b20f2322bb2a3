"""SyncGroup (14), versions 0 to 5: the leader hands out the assignment, everybody gets his part.

    1    throttle time
    3    static members (KIP-345)
    4    flexible
    5    the client must name protocol type and protocol, and gets them back (KIP-559)

Needs READ on the group. The answer comes when the leader's assignment is committed to the log.
"""

from __future__ import annotations

from typing import Final

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

NAMES_PROTOCOL_SINCE: Final = 5


def handle(
    services: GroupServices, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Pending[SyncGroupResponse]:
    if context.version >= NAMES_PROTOCOL_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return services.groups.sync(request)
