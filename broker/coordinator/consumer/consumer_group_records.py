"""How a consumer group lies in `__consumer_offsets`, and how it is read.

    kind   key                  value
    3      group                epoch, hash of the subscribed topics
    4      group                topics as older brokers recorded them; only removed
    5      group, member        what the member says of itself
    6      group                assignment epoch and the time at which the assignment was made
    7      group, member        the member's target assignment
    8      group, member        the member's epochs, state, and partitions with their assignment epochs
    16     group, expression    the topics that the expression matched

A value of null is a tombstone. All versions are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.coordinator.consumer.assignors.group_spec import Assignment
from broker.coordinator.consumer.member import ConsumerGroupMember, PartitionEpochs
from broker.coordinator.consumer.subscriptions import ResolvedRegex
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.codec.message import Message
from protocol.coordinator_records import encode_key, encode_value
from protocol.group_log import consumer_groups as log
from protocol.group_log.consumer_groups import ConsumerGroupCurrentMemberAssignmentValue as CurrentValue
from protocol.group_log.consumer_groups import ConsumerGroupTargetAssignmentMemberValue as TargetValue

VERSION: Final = 0


def _record(key: Message, value: Message | None) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None if value is None else encode_value(value, VERSION))


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = log.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(log.ConsumerGroupMetadataKey(group_id=group_id), value)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(log.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = log.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    return _record(log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = log.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return _record(log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    value = TargetValue(
        topic_partitions=[
            TargetValue.TopicPartition(topic_id, list(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    key = log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, value)


def current_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = CurrentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_written(member.assigned),
        partitions_pending_revocation=_written(member.pending_revocation),
    )
    key = log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """The record of the topics that an expression matches. None makes a tombstone."""
    value = resolved and log.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    key = log.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return _record(key, value)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The tombstones of a member, in the order in which they must be replayed."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        _record(log.ConsumerGroupCurrentMemberAssignmentKey(**names), None),
        _record(log.ConsumerGroupTargetAssignmentMemberKey(**names), None),
        _record(log.ConsumerGroupMemberMetadataKey(**names), None),
    ]


def group_tombstones(
    group_id: str, member_ids: Sequence[str], regexes: Sequence[str]
) -> list[CoordinatorRecord]:
    """Tombstones for all records that there may be of a group: of members, then of their targets, then of the
    group itself."""
    keys: list[Message] = [
        *(log.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id) for member_id in member_ids),
        *(log.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id) for member_id in member_ids),
        log.ConsumerGroupTargetAssignmentMetadataKey(group_id),
        *(log.ConsumerGroupMemberMetadataKey(group_id, member_id) for member_id in member_ids),
        *(log.ConsumerGroupRegularExpressionKey(group_id, regex) for regex in regexes),
        log.ConsumerGroupPartitionMetadataKey(group_id),
        log.ConsumerGroupMetadataKey(group_id),
    ]
    return [_record(key, None) for key in keys]


def _written(partitions: PartitionEpochs) -> list[CurrentValue.TopicPartitions]:
    return [
        CurrentValue.TopicPartitions(topic_id, list(epochs), list(epochs.values()))
        for topic_id, epochs in partitions.items()
    ]


def read_partitions(written: Sequence[CurrentValue.TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """The partitions in a record. Brokers before 4.3 wrote no assignment epochs; the member's epoch counts
    for them."""
    default = max(member_epoch, 0)
    found = {}
    for topic in written:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default] * len(topic.partitions)
        if topic.partitions:
            found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found
