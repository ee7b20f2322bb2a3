"""SyncGroup and Heartbeat: the leader distributes the partitions, the other members ask for theirs, and all
show that they are alive.

The leader's assignment counts when it is in the log: until then all members wait, the leader too. If the
membership changes meanwhile, the stored assignment is void; the next generation overwrites it. The record is
replayed at once, like every live record, but members are given their assignments when it is committed.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.coordinator.classic.classic_group import ClassicGroup
from broker.coordinator.classic.group_records import group_record
from broker.coordinator.classic.rebalance import has_synced, rebalance_or_complete, refuse_syncs
from broker.coordinator.classic.states import GroupState, GroupStateCause
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import GroupOperation
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.result import CoordinatorResult, response_error
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.serving.pending import Pending

LOG: Final = logging.getLogger("barnabas.groups")


def sync_group(
    groups: GroupMetadataManager,
    request: SyncGroupRequest,
    waiting: Pending[SyncGroupResponse],
    operation: GroupOperation,
) -> None:
    """Handles a SyncGroup. It is answered, or parked in its member."""
    group = groups.get(request.group_id)
    error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _sync_error(group, request)
    if group is None or error is not ErrorCode.NONE:
        operation.result.answer(waiting, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    has_synced(group, request.member_id, operation)
    if group.state is GroupState.STABLE:
        operation.result.answer(waiting, assigned(group, member.assignment))
        return
    if member.parked_sync is not None:
        operation.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.parked_sync = waiting
    if request.member_id == group.leader_id:
        _store_assignment(group, request, operation)


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.error_for(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(named: str | None, actual: str | None) -> bool:
    """Whether the request names another protocol than the group's. Versions before 5 name none."""
    return named is not None and actual is not None and named != actual


def assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _store_assignment(group: ClassicGroup, request: SyncGroupRequest, operation: GroupOperation) -> None:
    """Stores the leader's assignment, then answers all members. A member that is not in it gets an empty
    one."""
    given = {entry.member_id: bytes(entry.assignment) for entry in request.assignments}
    assignment = {member_id: given.get(member_id, b"") for member_id in group.members}
    without = [member_id for member_id in group.members if member_id not in given]
    if without:
        LOG.warning("group %s: the leader assigned nothing to %s", group.group_id, ", ".join(without))
    operation.result.write(lambda: group_record(group, assignment))
    generation = group.generation

    def stored(error: ErrorCode, now: CurrentTime) -> CoordinatorResult[None]:
        after = operation.later(now)
        if group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation:
            if error is ErrorCode.NONE:
                _distribute(group, assignment, after)
            else:
                refuse_syncs(group, after, response_error(error))
                rebalance_or_complete(group, after, f"its assignment was not stored: {error.name}")
        return after.result

    operation.result.on_stored = stored


def _distribute(group: ClassicGroup, assignment: dict[str, bytes], operation: GroupOperation) -> None:
    group.move(GroupStateCause.ASSIGNMENT_STORED, operation.now.wall_ms)
    for member in group.members.values():
        member.assignment = assignment.get(member.member_id, b"")
        if operation.answer_sync(member, assigned(group, member.assignment)):
            # While the answer was out, the session's end was ignored; now it begins anew.
            operation.refresh_session(group, member)


def heartbeat(
    groups: GroupMetadataManager, request: HeartbeatRequest, operation: GroupOperation
) -> ErrorCode:
    """Notes that the member is alive, and tells it whether it must join again."""
    group = groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.error_for(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    operation.refresh_session(group, group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
