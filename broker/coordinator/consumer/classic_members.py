"""Members of a consumer group that speak the classic protocol.

What a heartbeat of the newer protocol does at once takes them three requests. JoinGroup says what the member
subscribes and owns, and brings it a step closer to its target; SyncGroup tells what it has then; Heartbeat
tells that it has to join again:

    its epoch is behind the target's            there is a new target
    it is in UnrevokedPartitions                it has given up partitions by joining again
    it is in UnreleasedPartitions, all free     it can have the rest

The member's epoch is its generation, and nobody leads. A member that is told to join again has its rebalance
time-out for it, and one that has joined has it for SyncGroup; then it is removed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from broker.coordinator.classic.classic_group import CONSUMER_PROTOCOL, Protocols
from broker.coordinator.consumer.assignors.group_spec import NO_PARTITIONS
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.embedded_protocol import (
    partitions_by_id,
    read_subscription,
    written_assignment,
)
from broker.coordinator.consumer.heartbeat import (
    Client,
    advanced,
    check_room,
    fence,
    group_change,
    joining_static_member,
    known_member,
    known_static_member,
    reconciled,
)
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.member_states import MemberState
from broker.coordinator.consumer.migration import (
    ClassicMemberMetadata,
    ClassicProtocol,
    downgrade,
    may_downgrade,
)
from broker.coordinator.consumer.operation import ConsumerOperation, GroupRefusal
from broker.coordinator.consumer.reconciliation import OwnedPartitions, Target
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.values import uuid_to_text

ASKS_FOR_MEMBER_ID_SINCE: Final = 4


class ClassicJoin(NamedTuple):
    """A JoinGroup request."""

    version: int
    member_id: str
    instance_id: str | None
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """The rebalance timeout; -1 keeps the present one."""
    protocol_type: str
    protocols: Protocols


def join(group: ConsumerGroup, request: ClassicJoin, operation: ConsumerOperation) -> JoinGroupResponse:
    """Handles a JoinGroup of a new member, or of one that joins again."""
    if operation.settings.is_migration_disabled:
        raise GroupRefusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
            "migration is disabled.",
        )
    member_id = request.member_id or uuid_to_text(operation.make_uuid())
    check_room(group, member_id, operation)
    if not _supports(group, request):
        raise GroupRefusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
        )
    is_static = request.instance_id is not None
    if not request.member_id and not is_static and request.version >= ASKS_FOR_MEMBER_ID_SINCE:
        return JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
    member = _member(group, member_id, request, operation)
    replaced = group.static_member(request.instance_id)
    updated, owned = _updated(member, request, operation)
    change = group_change(group, member, updated, operation)
    is_switch = replaced is not None and replaced.classic is None
    if replaced is not None and is_switch and may_downgrade(group, [replaced], operation, joins=1):
        is_stale = group.assignment_epoch < change.epoch
        if not is_stale:
            target = Target(group.assignment_epoch, group.target_of(member_id, request.instance_id))
            updated = reconciled(group, updated, target, owned, operation, change)
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        downgrade(group, [replaced], operation, updated, reason=reason if is_stale else None)
    else:
        updated = advanced(group, updated, change, owned, operation)
        operation.session_of.append((member_id, request.session_timeout_ms))
        operation.sync_of.append((member_id, updated.rebalance_timeout_ms))
    operation.join_of.append((member_id, None))
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=updated.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=request.protocols[0][0],
    )


def sync(group: ConsumerGroup, request: SyncGroupRequest, operation: ConsumerOperation) -> SyncGroupResponse:
    """Answers a SyncGroup with the member's assignment."""
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    supported = _metadata(member).supported_protocols
    is_other_type = request.protocol_type not in (None, CONSUMER_PROTOCOL)
    if is_other_type or request.protocol_name not in (None, supported[0].name):
        raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not the one of the join.")
    is_behind = group.assignment_epoch > member.member_epoch
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        operation.join_of.append((member.member_id, member.rebalance_timeout_ms))
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    operation.sync_of.append((member.member_id, None))
    operation.session_of.append((member.member_id, _metadata(member).session_timeout_ms))
    has = {topic_id: sorted(epochs) for topic_id, epochs in member.assigned.items()}
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=written_assignment(has, supported[0].metadata, operation.topics),
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, operation: ConsumerOperation) -> ErrorCode:
    """Notes that the member is alive, and tells it whether it must join again."""
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    operation.session_of.append((member.member_id, _metadata(member).session_timeout_ms))
    if not (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        return ErrorCode.NONE
    operation.join_of.append((member.member_id, member.rebalance_timeout_ms))
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(
    group: ConsumerGroup, identities: list[LeaveGroupRequest.MemberIdentity], operation: ConsumerOperation
) -> LeaveGroupResponse:
    """Removes members of either protocol; administrators remove them so, too."""
    response = LeaveGroupResponse()
    leaving = {}
    for identity in identities:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        error = ErrorCode.NONE
        try:
            if instance_id is None:
                member = known_member(group, member_id)
            else:
                member = known_static_member(group, member_id or None, instance_id)
            leaving[member.member_id] = member
        except GroupRefusal as refusal:
            error = refusal.code
        response.members.append(LeaveGroupResponse.MemberResponse(member_id, instance_id, error))
    if leaving:
        fence(group, list(leaving.values()), operation)
    return response


def _supports(group: ConsumerGroup, request: ClassicJoin) -> bool:
    """Whether every classic member has one of these protocols."""
    return request.protocol_type == CONSUMER_PROTOCOL and any(
        group.is_supported_by_classic_members(name) for name, _ in request.protocols
    )


def _member(
    group: ConsumerGroup, member_id: str, request: ClassicJoin, operation: ConsumerOperation
) -> ConsumerGroupMember:
    if request.instance_id is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if request.member_id:
        return known_static_member(group, member_id, request.instance_id)
    return joining_static_member(group, member_id, request.instance_id, operation, is_classic=True)


def _updated(
    member: ConsumerGroupMember, request: ClassicJoin, operation: ConsumerOperation
) -> tuple[ConsumerGroupMember, OwnedPartitions]:
    """The member as the request describes it, and the partitions that it says it owns."""
    try:
        said = read_subscription(request.protocols[0][1])
    except ProtocolError as problem:
        raise GroupRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from None
    timeout_ms = request.rebalance_timeout_ms
    updated = msgspec.structs.replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=said.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(said.topics),
        subscribed_topic_regex="",
        client_id=request.client.client_id,
        client_host=request.client.client_host,
        classic=ClassicMemberMetadata(
            request.session_timeout_ms, [ClassicProtocol(name, data) for name, data in request.protocols]
        ),
    )
    return updated, list(partitions_by_id(said.owned_partitions, operation.topics).items())


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    _metadata(member)
    return member


def _metadata(member: ConsumerGroupMember) -> ClassicMemberMetadata:
    if member.classic is None:
        raise GroupRefusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol."
        )
    return member.classic


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise GroupRefusal(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} "
            f"of member {member.member_id}.",
        )


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether another member still has a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.owner_of(topic_id, partition) is not None
        for topic_id, partitions in group.target.get(member.member_id, NO_PARTITIONS).items()
        for partition in partitions
    )
