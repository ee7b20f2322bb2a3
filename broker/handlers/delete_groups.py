"""DeleteGroups (42), versions 0 to 2: forget groups that have no members, with all their offsets (KIP-229).

    1    throttle time
    2    flexible

Needs DELETE on each group. Each group has its own error (a group with members: NON_EMPTY_GROUP; one that is
not there: GROUP_ID_NOT_FOUND), a group that is named twice has one answer, and those that one may not delete
come last. The answer comes when the tombstones are committed to the log.
"""

from __future__ import annotations

from broker.coordinator.group.coordinator import GroupServices
from broker.coordinator.waiting import gather
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.registry import ApiKey
from protocol.serving import Operation, Pending, RequestContext, ResourceType, serves


@serves(ApiKey.DELETE_GROUPS)
def handle(
    services: GroupServices, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Pending[DeleteGroupsResponse]:
    allowed: list[str] = []
    refused: list[str] = []
    for name in dict.fromkeys(request.groups_names):
        may_delete = context.allows(Operation.DELETE, ResourceType.GROUP, name)
        (allowed if may_delete else refused).append(name)

    def answer(errors: list[ErrorCode]) -> DeleteGroupsResponse:
        results = [*zip(allowed, errors, strict=True)]
        results += [(name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in refused]
        return DeleteGroupsResponse(
            results=[DeleteGroupsResponse.DeletableGroupResult(name, error) for name, error in results]
        )

    return gather([services.groups.delete_group(name) for name in allowed], answer)
