"""The join phase: how a group comes from one generation to the next.

A rebalance begins when the membership changes (`prepare`): whoever waits for an assignment is sent back to
join, and joins are parked. It ends (`complete`) when every member has joined and no id that was given out is
missing, or when the rebalance timeout has passed; then dynamic members that did not come are dropped (static
ones keep their place until their session ends), the generation grows, and all are told at once. If nobody
came, it waits on: it looks again after another rebalance timeout. Kafka does so at once, without end, where
clients named a time-out of 0 (a processor and fifty megabytes of log a second); here a pause lies between two
looks, and a member that comes meanwhile has the next one brought forward, so that clients notice nothing.

The first rebalance of an empty group is different: its members are not known yet. It waits
`group.initial.rebalance.delay.ms`, and again as long as new members keep coming, up to the rebalance timeout
(KIP-134).
"""

from __future__ import annotations

import logging
from typing import Final

from broker.coordinator.classic.classic_group import ClassicGroup, ClassicGroupMember
from broker.coordinator.classic.group_records import group_record
from broker.coordinator.classic.states import GroupState, GroupStateCause
from broker.coordinator.group_operation import DeadlineKind, GroupOperation, join_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

LOG: Final = logging.getLogger("barnabas.groups")
WAITING_ON_PAUSE_MS: Final = 1_000
"""The least pause between two looks at a join phase that no member has joined."""


def rebalance_or_complete(group: ClassicGroup, operation: GroupOperation, reason: str) -> None:
    """Begins a rebalance because the membership has changed, or looks whether the running one can end."""
    if group.can_rebalance:
        prepare(group, operation, reason)
    else:
        complete_if_all_joined(group, operation)


def prepare(group: ClassicGroup, operation: GroupOperation, reason: str) -> None:
    """Begins a rebalance."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        refuse_syncs(group, operation, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    operation.cancel(DeadlineKind.SYNC_PHASE, group)
    is_first = group.state is GroupState.EMPTY
    group.move(
        GroupStateCause.FIRST_MEMBER_JOINED if is_first else GroupStateCause.MEMBERSHIP_CHANGED,
        operation.now.wall_ms,
    )
    LOG.info("group %s rebalances, generation %d: %s", group.group_id, group.generation, reason)
    if is_first:
        delay = operation.settings.group_initial_rebalance_delay_ms
        group.initial_delay = (delay, max(group.rebalance_timeout_ms - delay, 0))
        group.new_member_added = False
        operation.schedule(DeadlineKind.JOIN_PHASE, group, delay)
    elif group.all_joined:
        complete(group, operation)
    else:
        operation.schedule(DeadlineKind.JOIN_PHASE, group, group.rebalance_timeout_ms)


def complete_if_all_joined(group: ClassicGroup, operation: GroupOperation) -> None:
    """Ends the running join phase if no member is missing. The first one of an empty group ends only by its
    delay. One whose time was over before any member had joined ends soon after one has."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.previous_state is not GroupState.EMPTY and group.all_joined:
        complete(group, operation)
    elif group.waits_on and group.awaiting_join:
        operation.bring_forward(DeadlineKind.JOIN_PHASE, group, group.rebalance_timeout_ms)


def complete(group: ClassicGroup, operation: GroupOperation) -> None:
    """Ends the join phase with the next generation, or extends it if no member has joined again."""
    operation.cancel(DeadlineKind.JOIN_PHASE, group)
    for member in [
        m for m in group.members.values() if m.parked_join is None and m.group_instance_id is None
    ]:
        LOG.info("group %s: %s did not join again and is out", group.group_id, member.member_id)
        group.remove(member.member_id)
        operation.cancel(DeadlineKind.SESSION, group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        if not group.waits_on:
            LOG.warning("group %s: no member has joined again, waiting on", group.group_id)
        group.waits_on = True
        group.initial_delay = None
        operation.schedule(
            DeadlineKind.JOIN_PHASE, group, max(group.rebalance_timeout_ms, WAITING_ON_PAUSE_MS)
        )
        return
    group.next_generation(operation.now.wall_ms)
    if group.state is GroupState.EMPTY:
        LOG.info("group %s is empty, generation %d", group.group_id, group.generation)
        operation.result.write(lambda: group_record(group, {}))
        return
    LOG.info("group %s: generation %d of %d members", group.group_id, group.generation, len(group.members))
    for member in list(group.members.values()):
        operation.answer_join(group, member, joined(group, member.member_id))
        operation.refresh_session(group, member)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    operation.schedule(DeadlineKind.SYNC_PHASE, group, group.rebalance_timeout_ms)


def joined(group: ClassicGroup, member_id: str, *, with_members: bool = True) -> JoinGroupResponse:
    """The answer to a member of the current generation. Only the leader gets the list of members."""
    is_leader = member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
        if is_leader and with_members
        else [],
    )


def refuse_syncs(group: ClassicGroup, operation: GroupOperation, error: ErrorCode) -> None:
    """Tells waiting members an error, because the generation's assignment will not come, and forgets their
    old assignments."""
    for member in group.members.values():
        member.assignment = b""
        if operation.answer_sync(member, SyncGroupResponse(error_code=error)):
            operation.refresh_session(group, member)


def has_synced(group: ClassicGroup, member_id: str, operation: GroupOperation) -> None:
    """Notes that the member has sent SyncGroup. The sync phase ends with the last one."""
    group.pending_sync.pop(member_id, None)
    if not group.pending_sync:
        operation.cancel(DeadlineKind.SYNC_PHASE, group)


def take_out(group: ClassicGroup, member: ClassicGroupMember, operation: GroupOperation) -> None:
    """Removes a member. If its JoinGroup still waits it is told to join anew, because its client may well be
    alive."""
    operation.cancel(DeadlineKind.SESSION, group, member.member_id)
    operation.answer_join(group, member, join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
    operation.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)


# Deadlines


def join_phase_due(group: ClassicGroup, operation: GroupOperation) -> None:
    """Ends the join phase because its time is over, or extends it while an empty group gets members."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None:
        delay, remaining = group.initial_delay
        next_delay = min(operation.settings.group_initial_rebalance_delay_ms, remaining)
        if group.new_member_added and next_delay:
            group.new_member_added = False
            group.initial_delay = (next_delay, max(remaining - delay, 0))
            operation.schedule(DeadlineKind.JOIN_PHASE, group, next_delay)
            return
    complete(group, operation)


def sync_phase_due(group: ClassicGroup, operation: GroupOperation) -> None:
    """Removes the members that were told the generation and have never sent SyncGroup."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    silent = list(group.pending_sync)
    for member_id in silent:
        group.remove(member_id)
        operation.cancel(DeadlineKind.SESSION, group, member_id)
    prepare(group, operation, f"no SyncGroup from {', '.join(silent)}")


def session_due(group: ClassicGroup, member_id: str, operation: GroupOperation) -> None:
    """Removes a member, or an id that was given to a client, that has not been heard of for a session
    timeout.

    A member that waits for an answer stays; its session begins anew with the answer.
    """
    if member_id in group.pending_members:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            complete(group, operation)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    is_waiting = member.parked_join is not None or member.parked_sync is not None
    if is_waiting and not member.is_new:
        return
    LOG.info("group %s: the session of %s is over", group.group_id, member_id)
    take_out(group, member, operation)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance_or_complete(group, operation, f"the session of {member_id} is over")
    elif group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        complete(group, operation)


def free_everybody(group: ClassicGroup, operation: GroupOperation, error: ErrorCode) -> None:
    """Ends the group (it was deleted, moved, or never stored): answers all waiting members and stops its
    deadlines."""
    group.move(GroupStateCause.REMOVED, operation.now.wall_ms)
    for member in group.members.values():
        operation.answer_join(group, member, join_error(member.member_id, error))
        operation.answer_sync(member, SyncGroupResponse(error_code=error))
    for member_id in (*group.members, *group.pending_members):
        operation.cancel(DeadlineKind.SESSION, group, member_id)
    operation.cancel(DeadlineKind.JOIN_PHASE, group)
    operation.cancel(DeadlineKind.SYNC_PHASE, group)
