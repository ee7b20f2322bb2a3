"""JoinGroup: a client wants to be a member, or says again that it is one.

A client without an id gets one. A dynamic client of version 4 and newer (KIP-394) is first only told the id
and must come again with it, so that a client that gave up leaves no member behind. A static member (it names
an instance id, KIP-345) that comes without an id takes the place of the member with the same instance id,
which is fenced from then on; if the group is stable and would choose the same protocol, nobody else notices.

As in Kafka a member is in memory alone until its generation has an assignment (see `sync`). The one record
that a JoinGroup writes is that of a new group, or of a static member's new id.
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker.coordinator.classic.classic_group import ClassicGroup, ClassicGroupMember, ParkedJoin, Protocols
from broker.coordinator.classic.group_records import group_record, new_group_record
from broker.coordinator.classic.rebalance import (
    complete_if_all_joined,
    free_everybody,
    has_synced,
    joined,
    prepare,
    rebalance_or_complete,
)
from broker.coordinator.classic.states import GroupState
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import DeadlineKind, GroupOperation, join_error
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.result import CoordinatorResult, response_error
from protocol.codec.reading import MAX_STRING_BYTES
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.primitives import Uuid

SKIPS_ASSIGNMENT_SINCE: Final = 9
ASKS_FOR_MEMBER_ID_SINCE: Final = 4


class Joining(msgspec.Struct, gc=False, eq=False):
    """A JoinGroup request, with what is known of its client."""

    parked: ParkedJoin
    """The place to which the answer goes."""
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str

    @property
    def version(self) -> int:
        return self.parked.version


def join_group(
    groups: GroupMetadataManager, group_id: str, joining: Joining, operation: GroupOperation
) -> None:
    """Handles a JoinGroup. It is answered, or parked in a member."""
    group = groups.get(group_id)
    if group is not None:
        _join(group, joining, operation)
    elif groups.is_newer(group_id):
        _refuse(joining, operation, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif joining.member_id:
        _refuse(joining, operation, ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        group = groups.add_new(group_id, operation)
        _join(group, joining, operation)
        _store_new(groups, group, operation)


def _store_new(groups: GroupMetadataManager, group: ClassicGroup, operation: GroupOperation) -> None:
    """Writes the record of a new group, which exists when that is in the log. If the log refuses, those who
    have joined must join again."""
    operation.result.write(lambda: new_group_record(group))

    def stored(error: ErrorCode, now: CurrentTime) -> CoordinatorResult[None]:
        after = operation.later(now)
        if error is not ErrorCode.NONE and groups.new_was_refused(group):
            free_everybody(group, after, response_error(error))
        return after.result

    operation.result.on_stored = stored


def _join(group: ClassicGroup, joining: Joining, operation: GroupOperation) -> None:
    if not _has_room(group, joining.member_id, operation):
        group.remove(joining.member_id)
        operation.cancel(DeadlineKind.SESSION, group, joining.member_id)
        operation.answer_parked(joining.parked, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
        complete_if_all_joined(group, operation)
    elif group.state is GroupState.DEAD:
        _refuse(joining, operation, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not group.supports(joining.protocol_type, joining.protocols):
        _refuse(joining, operation, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif joining.member_id == "":
        _join_without_id(group, joining, operation)
    elif joining.member_id in group.pending_members:
        _join_pending(group, joining, operation)
    else:
        error = group.error_for(joining.member_id, joining.group_instance_id)
        if error is ErrorCode.NONE:
            _join_again(group, joining, group.members[joining.member_id], operation)
        else:
            _refuse(joining, operation, error)


def _refuse(joining: Joining, operation: GroupOperation, error: ErrorCode) -> None:
    operation.answer_parked(joining.parked, join_error(joining.member_id, error))


def _has_room(group: ClassicGroup, member_id: str, operation: GroupOperation) -> bool:
    """Whether another member may join. `group.max.size` counts the members that wait during a join phase,
    else all members. Present members may always join again."""
    limit = operation.settings.group_max_size
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.parked_join is not None) or group.awaiting_join < limit
    return member is not None or len(group.members) < limit


def _in_javas_form(uuid: Uuid) -> str:
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _join_without_id(group: ClassicGroup, joining: Joining, operation: GroupOperation) -> None:
    instance_id = joining.group_instance_id
    prefix = joining.client_id if instance_id is None else instance_id
    member_id = f"{prefix}-{_in_javas_form(operation.make_uuid())}"
    if len(member_id.encode()) > MAX_STRING_BYTES:
        # Neither an answer nor a record could name it. Kafka gives the same answer, but its group has the
        # member by then, and no member of that group is answered any longer.
        operation.answer_parked(joining.parked, join_error("", ErrorCode.UNKNOWN_SERVER_ERROR))
    elif instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is not None:
            _replace_static(group, joining, holder, member_id, operation)
        else:
            _add(group, joining, member_id, operation)
    elif joining.version >= ASKS_FOR_MEMBER_ID_SINCE:
        group.pending_members[member_id] = None
        operation.schedule(DeadlineKind.SESSION, group, joining.session_timeout_ms, member_id)
        operation.answer_parked(joining.parked, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add(group, joining, member_id, operation)


def _join_pending(group: ClassicGroup, joining: Joining, operation: GroupOperation) -> None:
    if joining.group_instance_id is not None:
        # Ids are pending for dynamic members only; Kafka stumbles over this and answers the same.
        _refuse(joining, operation, ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        _add(group, joining, joining.member_id, operation)


def _add(group: ClassicGroup, joining: Joining, member_id: str, operation: GroupOperation) -> None:
    """Adds a member. It cannot send heartbeats yet, so its parked join has a long deadline of its own."""
    member = ClassicGroupMember(
        member_id=member_id,
        group_instance_id=joining.group_instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.session_timeout_ms,
        protocols=joining.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, joining.protocol_type, joining.parked)
    operation.schedule(DeadlineKind.SESSION, group, operation.settings.new_member_join_timeout_ms, member_id)
    rebalance_or_complete(group, operation, f"{member_id} joins ({joining.reason})")


def _join_again(
    group: ClassicGroup, joining: Joining, member: ClassicGroupMember, operation: GroupOperation
) -> None:
    is_unchanged = member.protocols == joining.protocols
    is_leader = member.member_id == group.leader_id
    if group.state is GroupState.PREPARING_REBALANCE:
        _update(group, joining, member, operation, "joins again")
    elif group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
        # The member may have missed the answer to its first join.
        operation.answer_parked(joining.parked, joined(group, member.member_id))
    elif group.state is GroupState.STABLE and is_unchanged and not is_leader:
        operation.answer_parked(joining.parked, joined(group, member.member_id))
    elif group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        # A leader joins again when what it distributes has changed, although its metadata has not.
        _update(
            group,
            joining,
            member,
            operation,
            "leads and joins again" if is_unchanged else "changes its metadata",
        )
    else:
        _refuse(joining, operation, ErrorCode.UNKNOWN_MEMBER_ID)


def _update(
    group: ClassicGroup, joining: Joining, member: ClassicGroupMember, operation: GroupOperation, what: str
) -> None:
    _park(group, joining, member, operation)
    rebalance_or_complete(group, operation, f"{member.member_id} {what} ({joining.reason})")


def _park(
    group: ClassicGroup, joining: Joining, member: ClassicGroupMember, operation: GroupOperation
) -> None:
    if member.parked_join is not None:
        # The member joins a second time: its first request must not wait for ever.
        operation.answer_join(group, member, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
    group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
    group.park_join(member, joining.parked)


def _replace_static(
    group: ClassicGroup, joining: Joining, old_id: str, new_id: str, operation: GroupOperation
) -> None:
    """Gives a static member that is back another id. The one that had it is fenced at once."""
    old_leader = group.leader_id
    old = group.members[old_id]
    operation.cancel(DeadlineKind.SESSION, group, old_id)
    operation.answer_join(group, old, join_error(old_id, ErrorCode.FENCED_INSTANCE_ID))
    operation.answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    has_synced(group, old_id, operation)  # the former self will not any longer
    member = group.replace_static(joining.group_instance_id or "", old_id, new_id)
    _park(group, joining, member, operation)
    operation.refresh_session(group, member)
    if group.state is GroupState.STABLE:
        if group.select_protocol() == group.protocol_name:
            _store_replacement(group, joining, old, member, old_leader, operation)
        else:
            rebalance_or_complete(
                group, operation, f"static member {new_id} changes the protocol ({joining.reason})"
            )
    elif group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be distributing to the old id just now, so its assignment would miss the new one.
        prepare(group, operation, f"static member {new_id} is back ({joining.reason})")
    else:
        complete_if_all_joined(group, operation)


def _store_replacement(
    group: ClassicGroup,
    joining: Joining,
    old: ClassicGroupMember,
    member: ClassicGroupMember,
    old_leader: str | None,
    operation: GroupOperation,
) -> None:
    """Writes the group's record with the new id, and answers with the current generation. No other member is
    disturbed."""
    generation = group.generation
    operation.result.write(
        lambda: group_record(group, {m.member_id: m.assignment for m in group.members.values()})
    )

    def stored(error: ErrorCode, now: CurrentTime) -> CoordinatorResult[None]:
        after = operation.later(now)
        is_there = group.members.get(member.member_id) is member
        if not is_there or group.generation != generation or group.state is not GroupState.STABLE:
            return after.result  # a rebalance has begun since; it answers, and writes the group down anew
        if error is not ErrorCode.NONE:
            _take_back(group, old, member, after, response_error(error), old_leader)
        else:
            after.answer_join(group, member, _replaced(group, member, joining.version, old_leader))
        return after.result

    operation.result.on_stored = stored


def _replaced(
    group: ClassicGroup, member: ClassicGroupMember, version: int, old_leader: str | None
) -> JoinGroupResponse:
    """The answer to a static member that has returned. If it is the leader it must not distribute partitions
    anew: version 9 can say so, older ones name the old id as leader."""
    if version >= SKIPS_ASSIGNMENT_SINCE:
        response = joined(group, member.member_id)
        response.skip_assignment = member.member_id == group.leader_id
        return response
    response = joined(group, member.member_id, with_members=False)
    response.leader = old_leader or ""
    return response


def _take_back(
    group: ClassicGroup,
    old: ClassicGroupMember,
    member: ClassicGroupMember,
    operation: GroupOperation,
    error: ErrorCode,
    old_leader: str | None,
) -> None:
    """Restores the former member, because the log has refused the record with the new id."""
    refused = join_error("", error)
    refused.generation_id = group.generation
    refused.protocol_type, refused.protocol_name = group.protocol_type, group.protocol_name
    refused.leader = old_leader or ""
    operation.answer_join(group, member, refused)
    operation.cancel(DeadlineKind.SESSION, group, member.member_id)
    group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
    restored = group.replace_static(old.group_instance_id or "", member.member_id, old.member_id)
    operation.refresh_session(group, restored)
