"""ConsumerGroupHeartbeat: what a request does to a group.

Epoch 0 joins, -1 leaves, -2 leaves for a while, anything else is a heartbeat. A field of which a request says
nothing has not changed. The steps of a heartbeat:

1. find the member, or make it; a static one takes the place of the one that had left for a while;
2. record what it says of itself, if that is new;
3. let the group's epoch grow if a subscription or a subscribed topic has changed;
4. make a new target assignment if the epoch is ahead of it;
5. bring the member closer to its target, and answer with what it may have.

Whatever is refused raises GroupRefusal with Kafka's code and words, and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    regex_record,
    target_record,
)
from broker.coordinator.consumer.member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroupMember,
    PartitionEpochs,
    holds,
)
from broker.coordinator.consumer.member_states import MemberState
from broker.coordinator.consumer.metadata_hash import group_hash
from broker.coordinator.consumer.migration import downgrade, may_downgrade
from broker.coordinator.consumer.operation import ConsumerOperation, GroupRefusal, RebalanceTime
from broker.coordinator.consumer.reconciliation import (
    OwnedPartitions,
    ReconciliationInput,
    Target,
    reconcile,
)
from broker.coordinator.consumer.regexes import RegexChange, change_regex
from broker.coordinator.consumer.subscriptions import SubscribedTopics, Subscriptions, subscribed_names
from broker.coordinator.consumer.target_assignment import update_target
from config.values import trimmed
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.values import uuid_to_text


class Client(NamedTuple):
    """The client that sends the request."""

    client_id: str
    client_host: str


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    operation: ConsumerOperation,
) -> ConsumerGroupHeartbeatResponse:
    """Handles a request that joins or stays. `group` is new and empty if the request creates it."""
    member_id = request.member_id
    is_joining = request.member_epoch == JOINING_EPOCH
    check_room(group, member_id, operation)
    member_id = member_id or uuid_to_text(operation.make_uuid())
    owned = owned_partitions(request)
    if request.instance_id is None:
        member = _dynamic_member(group, member_id, request.member_epoch, owned)
    else:
        member = _static_member(group, member_id, request, owned, operation)
    updated = member if _says_nothing_new(member, request, client) else _updated(member, request, client)
    change = group_change(group, member, updated, operation)
    updated = advanced(group, updated, change, owned, operation)
    operation.session_of.append((updated.member_id, operation.times.session_timeout_ms))
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=operation.times.heartbeat_interval_ms,
    )
    if is_joining or _is_full(request) or updated.assigned != member.assigned:
        response.assignment = _assignment(updated.assigned)
    return response


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, operation: ConsumerOperation
) -> ConsumerGroupHeartbeatResponse:
    """Handles a request that leaves, for good or for a while."""
    if request.instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static_member(group, request.member_id, request.instance_id)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVING_EPOCH:
        operation.records.append(current_record(group.group_id, member.left_for_a_while()))
    else:
        fence(group, [member], operation)
    return response


def fence(group: ConsumerGroup, members: Sequence[ConsumerGroupMember], operation: ConsumerOperation) -> None:
    """Removes members. A group with only classic members left becomes classic.

    Raises GroupRefusal (GROUP_ID_NOT_FOUND) if it should, and the metadata of one of them cannot be read.
    """
    if may_downgrade(group, members, operation, joins=0):
        reason = f"Downgrade group {group.group_id} from consumer to classic for member leaving."
        downgrade(group, members, operation, reason=reason)
    else:
        remove(group, members, operation)


def remove(
    group: ConsumerGroup, members: Sequence[ConsumerGroupMember], operation: ConsumerOperation
) -> None:
    """Removes members. The group's epoch grows, and the next heartbeats of the others distribute the
    partitions."""
    subscriptions = group.subscriptions.copy()
    for member in members:
        operation.records.extend(member_tombstones(group.group_id, member.member_id))
        operation.gone.append(member.member_id)
        subscriptions.change_member(member, None)
    for regex in sorted(group.subscriptions.regexes.keys() - subscriptions.regexes.keys()):
        operation.records.append(regex_record(group.group_id, regex, None))
        subscriptions.change_resolved(group.resolved.get(regex), None)
    metadata_hash = _metadata_hash(group, subscriptions, operation)
    operation.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))


def late_member(group: ConsumerGroup, member_id: str, epoch: int) -> ConsumerGroupMember | None:
    """The member if it is still in this epoch, although it had enough time to give up partitions."""
    member = group.members.get(member_id)
    return member if member is not None and member.member_epoch == epoch else None


# The member


def check_room(group: ConsumerGroup, member_id: str, operation: ConsumerOperation) -> None:
    most = operation.settings.group_consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        raise GroupRefusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def _dynamic_member(
    group: ConsumerGroup, member_id: str, epoch: int, owned: OwnedPartitions | None
) -> ConsumerGroupMember:
    if epoch == JOINING_EPOCH:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    member = known_member(group, member_id)
    _check_epoch(member, epoch, owned)
    return member


def _static_member(
    group: ConsumerGroup,
    member_id: str,
    request: ConsumerGroupHeartbeatRequest,
    owned: OwnedPartitions | None,
    operation: ConsumerOperation,
) -> ConsumerGroupMember:
    instance_id = request.instance_id or ""
    if request.member_epoch != JOINING_EPOCH:
        member = known_static_member(group, member_id, instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member
    return joining_static_member(group, member_id, instance_id, operation, is_classic=False)


def joining_static_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    operation: ConsumerOperation,
    *,
    is_classic: bool,
) -> ConsumerGroupMember:
    """The member that takes the place of the one with its instance id. If both use the newer protocol, the
    first must have left."""
    predecessor = group.static_member(instance_id)
    if predecessor is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    both_are_newer = not is_classic and predecessor.classic is None
    if both_are_newer and predecessor.member_epoch != STATIC_LEAVING_EPOCH:
        raise GroupRefusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {predecessor.member_id} member.",
        )
    member = predecessor.replaced_by(member_id)
    group_id = group.group_id
    operation.records.extend(member_tombstones(group_id, predecessor.member_id))
    operation.records.append(member_record(group_id, member))
    target = group.target_of(predecessor.member_id, None)
    operation.records.append(target_record(group_id, member_id, target))
    operation.records.append(current_record(group_id, member))
    if predecessor.member_id != member_id:
        operation.gone.append(predecessor.member_id)
    return member


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if member is None:
        raise GroupRefusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
        )
    return member


def known_static_member(group: ConsumerGroup, member_id: str | None, instance_id: str) -> ConsumerGroupMember:
    """The static member with this instance id. `member_id` is None for any member id."""
    member = group.static_member(instance_id)
    if member is None:
        raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member_id is not None and member.member_id != member_id:
        raise GroupRefusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def _check_epoch(member: ConsumerGroupMember, epoch: int, owned: OwnedPartitions | None) -> None:
    """Checks the epoch in the request. A member may be one epoch behind, if the answer that told it of the
    newer one was lost; then it must own nothing beyond its assignment."""
    known = member.member_epoch
    if epoch == known:
        return
    is_one_behind = epoch < known and epoch == member.previous_member_epoch
    if is_one_behind and owned is not None and holds(member.assigned, owned):
        return
    word = "greater" if epoch > known else "smaller"
    raise GroupRefusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _says_nothing_new(
    member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest, client: Client
) -> bool:
    """Whether the member has not changed, as by nearly all heartbeats."""
    return (
        request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id == member.instance_id
        and member.classic is None
        and (member.client_id, member.client_host) == client
    )


def _updated(
    member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest, client: Client
) -> ConsumerGroupMember:
    """The member as the request describes it."""
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    said = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if timeout_ms == -1 else timeout_ms,
        "server_assignor": request.server_assignor,
        "subscribed_topic_names": None if names is None else frozenset(names),
        "subscribed_topic_regex": request.subscribed_topic_regex,
    }
    return msgspec.structs.replace(
        member,
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
        **{name: value for name, value in said.items() if value is not None},
    )


# Epochs


class GroupChange(NamedTuple):
    """What the group is with the changes of a member."""

    epoch: int
    subscriptions: Subscriptions
    is_subscription: bool
    """Whether the member subscribes to something else than before."""


def group_change(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    updated: ConsumerGroupMember,
    operation: ConsumerOperation,
) -> GroupChange:
    """Records what is new about the member, and raises the epoch if that, or a topic, asks for it."""
    if updated is member and not group.subscriptions.regexes:
        epoch = _next_epoch(group, group.subscriptions, operation, grows=False)
        return GroupChange(epoch, group.subscriptions, False)
    if updated != member:
        operation.records.append(member_record(group.group_id, updated))
    has_new_names = updated.subscribed_topic_names != member.subscribed_topic_names
    regex_change = change_regex(group, member, updated, operation)
    subscriptions = subscriptions_with(group, member, updated)
    grows = has_new_names or regex_change is RegexChange.RESOLVED
    epoch = _next_epoch(group, subscriptions, operation, grows=grows)
    return GroupChange(epoch, subscriptions, has_new_names or regex_change is not RegexChange.NONE)


def advanced(
    group: ConsumerGroup,
    updated: ConsumerGroupMember,
    change: GroupChange,
    owned: OwnedPartitions | None,
    operation: ConsumerOperation,
) -> ConsumerGroupMember:
    """The member one step closer to its target assignment, which is made anew if it is time."""
    target = update_target(group, change.epoch, updated, change.subscriptions, operation)
    return reconciled(group, updated, target, owned, operation, change)


def subscriptions_with(
    group: ConsumerGroup, member: ConsumerGroupMember, updated: ConsumerGroupMember
) -> Subscriptions:
    """The subscriptions of the group with the updated member in the place of the member."""
    subscriptions = group.subscriptions.copy()
    known = member if member.member_id in group.members else group.static_member(updated.instance_id)
    subscriptions.change_member(known, updated)
    gone = [regex for regex in group.subscriptions.regexes if regex not in subscriptions.regexes]
    for regex in gone:
        subscriptions.change_resolved(group.resolved.get(regex), None)
    return subscriptions


def _next_epoch(
    group: ConsumerGroup, subscriptions: Subscriptions, operation: ConsumerOperation, *, grows: bool
) -> int:
    """The group's epoch after this heartbeat."""
    if not grows and not group.must_check_metadata:
        return group.epoch
    epoch = group.epoch
    metadata_hash = _metadata_hash(group, subscriptions, operation)
    if grows or metadata_hash != group.metadata_hash:
        epoch += 1
        operation.records.append(epoch_record(group.group_id, epoch, metadata_hash))
    group.needs_metadata_check = False
    group.checked_in_epoch = epoch
    if group.has_partition_metadata:
        operation.records.append(partition_metadata_tombstone(group.group_id))
    return epoch


def _metadata_hash(group: ConsumerGroup, subscriptions: Subscriptions, operation: ConsumerOperation) -> int:
    """The hash of the topics with these subscriptions. It is the one of before if they name the same topics
    and none has changed: ten thousand topics take milliseconds, and many members may join or go at once."""
    if not group.must_check_metadata and subscriptions.has_names_of(group.subscriptions):
        return group.metadata_hash
    return group_hash(subscriptions.names(), operation.topics)


def reconciled(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    target: Target,
    owned: OwnedPartitions | None,
    operation: ConsumerOperation,
    change: GroupChange,
) -> ConsumerGroupMember:
    """The member one step closer to its target, with its record written."""
    if not change.is_subscription and member.is_reconciled_to(target.epoch):
        return member
    subscribed = SubscribedTopics(subscribed_names(member, group.resolved), operation.topics)
    around = ReconciliationInput(target, subscribed, group.owner_of, owned, change.is_subscription)
    moved = reconcile(member, around)
    if moved != member:
        operation.records.append(current_record(group.group_id, moved))
    if moved != member and member.classic is None:
        must_revoke = moved.state is MemberState.UNREVOKED_PARTITIONS
        time = RebalanceTime(moved.rebalance_timeout_ms, moved.member_epoch) if must_revoke else None
        operation.rebalance_of.append((moved.member_id, time))
    return moved


# Requests and responses


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> OwnedPartitions | None:
    if request.topic_partitions is None:
        return None
    return [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request holds all fields of the member, so that it wants a full answer."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        [
            ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id, sorted(epochs))
            for topic_id, epochs in assigned.items()
        ]
    )


def refused_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> GroupRefusal | None:
    """What is wrong with a request before its group is looked at; None if nothing is."""
    epoch = request.member_epoch
    if not trimmed(request.member_id) and (version >= 1 or epoch > 0 or epoch == -1):
        return _invalid("MemberId can't be empty.")
    named = (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id))
    for name, text in named:
        if text is not None and not trimmed(text):
            return _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            return _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        return _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        return _invalid("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        return GroupRefusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
    return None


def _invalid(message: str) -> GroupRefusal:
    return GroupRefusal(ErrorCode.INVALID_REQUEST, message)
