"""The target assignment of a consumer group: who shall have which partitions in the group's epoch.

It is made when the group's epoch has grown, by the heartbeat that finds it so, and not more often than the
assignment interval allows (KIP-1263): in a storm of joins many changes share one assignment, and a member
that joins too early has the target of before, which holds nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.coordinator.consumer.assignors.group_spec import (
    NO_PARTITIONS,
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
)
from broker.coordinator.consumer.assignors.range_assignor import assign_ranges
from broker.coordinator.consumer.assignors.uniform_assignor import assign_uniformly
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_records import assignment_epoch_record, target_record
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.operation import ConsumerOperation
from broker.coordinator.consumer.reconciliation import Target
from broker.coordinator.consumer.subscriptions import Subscriptions, subscribed_names
from protocol.primitives import Uuid

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)


def update_target(
    group: ConsumerGroup,
    epoch: int,
    updated: ConsumerGroupMember,
    subscriptions: Subscriptions,
    operation: ConsumerOperation,
) -> Target:
    """The target of the member that a heartbeat has updated. If it is time, a new target assignment is made
    for all.

    `epoch` and `subscriptions` are those of the group after the heartbeat.
    """
    if group.assignment_epoch >= epoch or not _may_compute(group, operation):
        assignment = group.target_of(updated.member_id, updated.instance_id)
        return Target(group.assignment_epoch, assignment)
    members = dict(group.members)
    predecessor = group.static_members.get(updated.instance_id or "")
    if predecessor is not None and predecessor != updated.member_id:
        del members[predecessor]
    members[updated.member_id] = updated
    spec = _spec(group, members, subscriptions, operation)
    preferred = subscriptions.preferred_assignor()
    assignor = ASSIGNORS[preferred or operation.settings.group_consumer_assignors[0]]
    assigned = assignor(spec)
    for member_id in members:
        assignment = assigned.get(member_id, NO_PARTITIONS)
        if group.target.get(member_id) != assignment:
            operation.records.append(target_record(group.group_id, member_id, assignment))
    operation.records.append(assignment_epoch_record(group.group_id, epoch, operation.now.wall_ms))
    return Target(epoch, assigned.get(updated.member_id, NO_PARTITIONS))


def _may_compute(group: ConsumerGroup, operation: ConsumerOperation) -> bool:
    interval_ms = operation.times.assignment_interval_ms
    if group.assignment_timestamp_ms == 0 or interval_ms == 0:
        return True
    # The time may lie ahead: by the clock of a former coordinator, or by this one before it was set back.
    return not 0 <= operation.now.wall_ms - group.assignment_timestamp_ms < interval_ms


def _spec(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerGroupMember],
    subscriptions: Subscriptions,
    operation: ConsumerOperation,
) -> GroupSpec:
    topic_ids: dict[frozenset[str], tuple[Uuid, ...]] = {}
    counts: dict[Uuid, int] = {}
    specs = {}
    for member_id, member in members.items():
        names = subscribed_names(member, group.resolved)
        if names not in topic_ids:
            topic_ids[names] = tuple(_existing(names, operation, counts))
        assigned = group.target_of(member_id, member.instance_id)
        specs[member_id] = MemberSpec(topic_ids[names], _still_there(assigned, counts), member.instance_id)
    return GroupSpec(specs, subscriptions.is_homogeneous(len(members)), counts)


def _existing(names: frozenset[str], operation: ConsumerOperation, counts: dict[Uuid, int]) -> list[Uuid]:
    found = []
    for name in sorted(names):
        topic_id, count = operation.topics.topic_id(name), operation.topics.partition_count(name)
        if topic_id is not None and count is not None:
            counts[topic_id] = count
            found.append(topic_id)
    return found


def _still_there(assigned: Assignment, counts: Mapping[Uuid, int]) -> Assignment:
    """The partitions without those beyond the topic's end. Topics do not shrink, but a log may hold
    anything."""
    if all(partitions[-1] < counts.get(topic_id, 2**31) for topic_id, partitions in assigned.items()):
        return assigned
    return {
        topic_id: tuple(each for each in partitions if each < counts.get(topic_id, 2**31))
        for topic_id, partitions in assigned.items()
    }
