"""ListGroups (16), versions 0 to 5: the groups that this broker coordinates.

    1    throttle time
    3    flexible
    4    states, and a filter on them (KIP-518)
    5    types, and a filter on them (KIP-848): "classic" and "consumer"

Needs DESCRIBE on the cluster for all, otherwise shows the groups that one may DESCRIBE. Groups of protocols
that are not served are left out.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: GroupServices, context: RequestContext, request: ListGroupsRequest
) -> Turns[ListGroupsResponse]:
    response = services.groups.list_groups(request.states_filter, request.types_filter)
    if response.groups and not context.may_see_cluster(Operation.DESCRIBE):
        groups, response.groups = response.groups, []
        for group in groups:
            is_shown = context.may_see(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            yield group if is_shown else None
    return response
