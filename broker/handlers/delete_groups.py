"""DeleteGroups (42), versions 0 to 2: forget groups that have no members, with all their offsets (KIP-229).

    1    throttle time
    2    flexible

Needs DELETE on each group. Each group has its own error (a group with members: NON_EMPTY_GROUP; one that is
not there: GROUP_ID_NOT_FOUND), a group that is named twice has one answer, and those that one may not delete
come last. The answer comes when the tombstones are committed to the log.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, gather
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: GroupServices, context: RequestContext, request: DeleteGroupsRequest
) -> Turns[DeleteGroupsResponse | Pending[DeleteGroupsResponse]]:
    allowed: list[str] = []
    refused: list[str] = []
    names: dict[str, None] = {}
    for name in request.groups_names:
        names[name] = None
        yield None
    for name in names:
        may_delete = context.allows(Operation.DELETE, ResourceType.GROUP, name)
        (allowed if may_delete else refused).append(name)
        yield None

    def answer(errors: list[ErrorCode]) -> DeleteGroupsResponse:
        results = [*zip(allowed, errors, strict=True)]
        results += [(name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in refused]
        return DeleteGroupsResponse(
            results=[DeleteGroupsResponse.DeletableGroupResult(name, error) for name, error in results]
        )

    outcomes: list[ErrorCode | Pending[ErrorCode]] = []
    for name in allowed:
        outcomes.append(services.groups.delete_group(name))
        yield None
    return gather(outcomes, answer)
