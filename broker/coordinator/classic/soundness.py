"""After an error of ours: whether a group is still whole, and what becomes of one that is not.

An operation that raised has recorded nothing, but it may have changed half of a group in memory: a member
that waits and is counted nowhere, a join phase without an end. Such a group would hang for ever, so it ends,
and an empty one of the same generation stands in its place: whoever waits is answered, and members hear that
nobody knows them and join anew. Offsets are not touched.
"""

from __future__ import annotations

from broker.coordinator.classic.classic_group import ClassicGroup, ClassicGroupMember
from broker.coordinator.classic.group_records import group_record
from broker.coordinator.classic.rebalance import free_everybody
from broker.coordinator.classic.states import GroupState
from broker.coordinator.group_operation import DeadlineKind, GroupOperation
from protocol.errors import ErrorCode


def is_sound(group: ClassicGroup, operation: GroupOperation) -> bool:
    """Whether the parts of the group fit each other, and everything that waits has a deadline."""
    members = group.members
    instances = {
        m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None
    }
    leads = group.leader_id in members if members else group.leader_id is None
    return (
        leads
        and group.awaiting_join == sum(member.parked_join is not None for member in members.values())
        and group.static_members == instances
        and group.pending_sync.keys() <= members.keys()
        and members.keys().isdisjoint(group.pending_members)
        and all(_has_session(group, member, operation) for member in members.values())
        and all(
            operation.is_due(DeadlineKind.SESSION, group, member_id) for member_id in group.pending_members
        )
        and _has_end(group, operation)
    )


def _has_session(group: ClassicGroup, member: ClassicGroupMember, operation: GroupOperation) -> bool:
    is_waiting = member.parked_join is not None or member.parked_sync is not None
    return is_waiting or operation.is_due(DeadlineKind.SESSION, group, member.member_id)


def _has_end(group: ClassicGroup, operation: GroupOperation) -> bool:
    """Whether the group may stay in its state, or the state's deadline is set."""
    if group.state is GroupState.PREPARING_REBALANCE:
        return operation.is_due(DeadlineKind.JOIN_PHASE, group)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # If every member has synced, only a pending write ends this state, and writes are not known here.
        return bool(group.pending_sync) and operation.is_due(DeadlineKind.SYNC_PHASE, group)
    return (group.state is GroupState.EMPTY) == (not group.members)


def end_group(group: ClassicGroup, operation: GroupOperation) -> ClassicGroup:
    """The empty group that replaces one that is not sound. Its record is written, so that a new coordinator
    does not bring back members that were told to join anew."""
    free_everybody(group, operation, ErrorCode.UNKNOWN_SERVER_ERROR)
    fresh = ClassicGroup(
        group.group_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        state_timestamp_ms=operation.now.wall_ms,
    )
    fresh.refresh_topics()
    operation.result.write(lambda: group_record(fresh, {}))
    return fresh
