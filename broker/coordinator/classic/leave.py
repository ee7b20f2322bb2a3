"""LeaveGroup: a member leaves, or an administrator removes several of them.

A static member can be named by its instance id alone; that is how administrators remove it. Each member has
its own error, and the group rebalances once, after all have gone (KIP-345).
"""

from __future__ import annotations

from broker.coordinator.classic.classic_group import ClassicGroup
from broker.coordinator.classic.rebalance import complete_if_all_joined, rebalance_or_complete, take_out
from broker.coordinator.classic.states import GroupState
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import DeadlineKind, GroupOperation
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def leave_group(
    groups: GroupMetadataManager,
    group_id: str,
    members: list[LeaveGroupRequest.MemberIdentity],
    operation: GroupOperation,
) -> LeaveGroupResponse:
    """Removes the named members."""
    group = groups.get(group_id) or ClassicGroup(group_id)
    if group.state is GroupState.DEAD:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    response = LeaveGroupResponse()
    gone: list[str] = []
    for identity in members:
        error = _leave_one(group, identity, operation)
        if error is ErrorCode.NONE:
            gone.append(identity.member_id or identity.group_instance_id or "")
        response.members.append(
            LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    if gone:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance_or_complete(group, operation, f"{', '.join(gone)} left")
        else:
            complete_if_all_joined(group, operation)
    return response


def _leave_one(
    group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity, operation: GroupOperation
) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id == "":
        holder = group.static_members.get(instance_id) if instance_id is not None else None
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = holder
    elif member_id in group.pending_members:
        group.remove(member_id)
        operation.cancel(DeadlineKind.SESSION, group, member_id)
        return ErrorCode.NONE
    else:
        error = group.error_for(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
    take_out(group, group.members[member_id], operation)
    return ErrorCode.NONE
