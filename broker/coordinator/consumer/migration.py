"""Groups with members change their protocol while they run, as `group.consumer.migration.policy` allows.

A classic group of consumers becomes a consumer group when a member of the newer protocol joins it. Its
members stay: they have what the leader gave them last, in the generation that is now their epoch, and go on
with JoinGroup, SyncGroup and Heartbeat (see `classic_members`). It becomes classic again when the last member
of the newer protocol has gone, or comes back as a static member of the classic one.

Both ways all records of the group are written anew in one batch: tombstones of what it was, then what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.coordinator.classic.classic_group import CONSUMER_PROTOCOL, ClassicGroup, ClassicGroupMember
from broker.coordinator.classic.group_records import group_record, group_tombstone
from broker.coordinator.consumer.assignors.group_spec import NO_PARTITIONS
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_record,
)
from broker.coordinator.consumer.embedded_protocol import (
    partitions_by_id,
    read_assignment,
    read_subscription,
    written_assignment,
)
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.metadata_hash import group_hash
from broker.coordinator.consumer.operation import ConsumerOperation, GroupRefusal
from protocol.errors import ErrorCode, ProtocolError
from protocol.group_log.consumer_groups import ConsumerGroupMemberMetadataValue

ClassicMemberMetadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
ClassicProtocol = ConsumerGroupMemberMetadataValue.ClassicProtocol


class Downgrade(NamedTuple):
    """The classic group that a consumer group becomes."""

    group: ClassicGroup
    reason: str | None
    """The reason for which it rebalances at once; None if its members have their target assignment."""


# A classic group becomes a consumer group


def upgraded(classic: ClassicGroup, operation: ConsumerOperation) -> ConsumerGroup:
    """The consumer group that a classic group with members becomes, with the records that make it.

    Raises GroupRefusal (GROUP_ID_NOT_FOUND) if it may not, or cannot, become one.
    """
    _check_upgrade(classic, operation)
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.assignment_epoch = classic.generation
    # A group that rebalances for the first time has no protocol yet; Kafka stumbles over such a one.
    protocol = classic.protocol_name or classic.select_protocol()
    for member in classic.members.values():
        try:
            _take_over(group, member, protocol, operation)
        except ProtocolError:
            raise _refusal(classic, "the embedded consumer protocol is malformed.") from None
    group.metadata_hash = group_hash(group.subscriptions.names(), operation.topics)
    records = [group_tombstone(group.group_id)]
    records += [member_record(group.group_id, member) for member in group.members.values()]
    records.append(epoch_record(group.group_id, group.epoch, group.metadata_hash))
    records += [target_record(group.group_id, *target) for target in group.target.items()]
    records.append(assignment_epoch_record(group.group_id, group.assignment_epoch, 0))
    records += [current_record(group.group_id, member) for member in group.members.values()]
    operation.records.extend(records)
    return group


def _check_upgrade(classic: ClassicGroup, operation: ConsumerOperation) -> None:
    if not operation.settings.may_upgrade:
        raise _refusal(classic, "online upgrade is disabled.")
    if classic.protocol_type != CONSUMER_PROTOCOL:
        raise _refusal(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > operation.settings.group_consumer_max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size.")


def _refusal(classic: ClassicGroup, reason: str) -> GroupRefusal:
    return GroupRefusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}",
    )


def _take_over(
    group: ConsumerGroup, classic: ClassicGroupMember, protocol: str, operation: ConsumerOperation
) -> None:
    assignment = read_assignment(classic.assignment)
    if assignment.user_data:
        raise GroupRefusal(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom "
            "assignor is in use. Please refer to the documentation or switch to a default assignor before "
            "re-attempting the upgrade.",
        )
    has = partitions_by_id(assignment.assigned_partitions, operation.topics)
    subscription = read_subscription(classic.metadata(protocol))
    member = ConsumerGroupMember(
        member_id=classic.member_id,
        instance_id=classic.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=classic.client_id,
        client_host=classic.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=classic.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            classic.session_timeout_ms, [ClassicProtocol(name, data) for name, data in classic.protocols]
        ),
        member_epoch=group.epoch,
        previous_member_epoch=group.epoch,
        assigned={topic_id: dict.fromkeys(numbers, group.epoch) for topic_id, numbers in has.items()},
    )
    group.put_target(member.member_id, has)
    group.put_member(member.member_id, member)
    operation.session_of.append((member.member_id, classic.session_timeout_ms))


# A consumer group becomes a classic group


def may_downgrade(
    group: ConsumerGroup, without: Sequence[ConsumerGroupMember], operation: ConsumerOperation, *, joins: int
) -> bool:
    """Whether only classic members are left when some have gone and others, classic ones, have joined."""
    newer = len(group.members) - group.classic_count
    if newer > sum(member.classic is None for member in without):
        return False
    size = len(group.members) - len(without) + joins
    return operation.settings.may_downgrade and 0 < size <= operation.classic_max_size


def downgrade(
    group: ConsumerGroup,
    without: Sequence[ConsumerGroupMember],
    operation: ConsumerOperation,
    joining: ConsumerGroupMember | None = None,
    *,
    reason: str | None,
) -> None:
    """Records that the group is classic from now on, and leaves it in `operation.becomes`.

    `joining` takes the place of a static member that is among those who leave; its records are in the
    operation already. Raises GroupRefusal (GROUP_ID_NOT_FOUND) if a member's metadata cannot be read.
    """
    gone = {member.member_id for member in without}
    ids = [member_id for member_id in group.members if joining is None or member_id not in gone]
    ids += [] if joining is None else [joining.member_id]
    operation.records.extend(group_tombstones(group.group_id, ids, list(group.resolved)))
    classic = ClassicGroup(
        group.group_id,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        state_timestamp_ms=operation.now.wall_ms,
    )
    stays = [member for member in group.members.values() if member.member_id not in gone]
    for member in [*stays, *([] if joining is None else [joining])]:
        said = member.classic or ClassicMemberMetadata()
        classic.add(
            ClassicGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=said.session_timeout_ms,
                protocols=tuple((each.name, each.metadata) for each in said.supported_protocols),
            ),
            CONSUMER_PROTOCOL,
            None,
        )
    classic.protocol_name = classic.select_protocol()
    classic.all_read()
    for each in classic.members.values():
        target = group.target_of(each.member_id, each.group_instance_id) or NO_PARTITIONS
        try:
            each.assignment = written_assignment(
                target, each.metadata(classic.protocol_name), operation.topics
            )
        except ProtocolError as problem:
            raise GroupRefusal(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot downgrade the classic group {group.group_id}: {problem}.",
            ) from None
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    operation.records.append(group_record(classic, assignments))
    operation.gone.extend(group.members)
    operation.becomes = Downgrade(classic, reason)
