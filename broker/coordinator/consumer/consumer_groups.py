"""The consumer groups of one partition, and how records change them.

All that a consumer group is comes from its records, so a live record and a loaded one go through the same
`replay`, and a group that is loaded is the group that was. A live record may be refused by the log: its
replay notes what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_records import read_partitions
from broker.coordinator.consumer.member import NOTHING, ConsumerGroupMember
from broker.coordinator.consumer.member_states import MemberState
from broker.coordinator.consumer.subscriptions import ResolvedRegex
from broker.coordinator.runtime.result import UndoLog
from protocol.coordinator_records import decode_record
from protocol.group_log import consumer_groups as log

NO_ASSIGNMENT_EPOCH: Final = -1
KINDS: Final = frozenset({3, 4, 5, 6, 7, 8, 16})
"""The types of records that belong to consumer groups."""


class ConsumerGroups:
    """The groups by group id."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self.groups.get(group_id)

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> str:
        """Applies a record of one of `KINDS`, and returns its group. Raises ProtocolError for bytes that
        cannot be read.

        A tombstone for something that does not exist changes nothing. The group itself is removed by the
        tombstone of its epoch.
        """
        named, said = decode_record(key, value)
        group_id: str = named.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        if group is None:
            if said is None:
                return group_id
            group = self.groups[group_id] = ConsumerGroup(group_id)
            _note(undo, partial(self.groups.pop, group_id, None))
        if isinstance(named, log.ConsumerGroupMetadataKey) and said is None:
            del self.groups[group_id]
            _note(undo, partial(self.groups.__setitem__, group_id, group))
            return group_id
        _REPLAYS[type(named)](group, named, said, undo)
        return group_id


def _replay_epoch(
    group: ConsumerGroup,
    _: log.ConsumerGroupMetadataKey,
    said: log.ConsumerGroupMetadataValue,
    undo: UndoLog | None,
) -> None:
    _note(undo, partial(_put_epoch, group, group.epoch, group.metadata_hash))
    _put_epoch(group, said.epoch, said.metadata_hash)


def _put_epoch(group: ConsumerGroup, epoch: int, metadata_hash: int) -> None:
    group.epoch, group.metadata_hash = epoch, metadata_hash


def _replay_partition_metadata(
    group: ConsumerGroup,
    _: log.ConsumerGroupPartitionMetadataKey,
    said: log.ConsumerGroupPartitionMetadataValue | None,
    undo: UndoLog | None,
) -> None:
    _note(undo, partial(setattr, group, "has_partition_metadata", group.has_partition_metadata))
    group.has_partition_metadata = said is not None


def _replay_member(
    group: ConsumerGroup,
    named: log.ConsumerGroupMemberMetadataKey,
    said: log.ConsumerGroupMemberMetadataValue | None,
    undo: UndoLog | None,
) -> None:
    old = group.members.get(named.member_id)
    _note(undo, partial(group.put_member, named.member_id, old))
    if said is None:
        group.put_member(named.member_id, None)
        return
    new = msgspec.structs.replace(
        old or ConsumerGroupMember(named.member_id),
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=frozenset(said.subscribed_topic_names),
        subscribed_topic_regex=said.subscribed_topic_regex,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        server_assignor=said.server_assignor,
        classic=said.classic_member_metadata,
    )
    group.put_member(named.member_id, new)


def _replay_assignment_epoch(
    group: ConsumerGroup,
    _: log.ConsumerGroupTargetAssignmentMetadataKey,
    said: log.ConsumerGroupTargetAssignmentMetadataValue | None,
    undo: UndoLog | None,
) -> None:
    before = group.assignment_epoch, group.assignment_timestamp_ms
    _note(undo, partial(_put_assignment_epoch, group, *before))
    if said is None:
        _put_assignment_epoch(group, NO_ASSIGNMENT_EPOCH, 0)
    else:
        _put_assignment_epoch(group, said.assignment_epoch, said.assignment_timestamp)


def _put_assignment_epoch(group: ConsumerGroup, epoch: int, timestamp_ms: int) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = epoch, timestamp_ms


def _replay_target(
    group: ConsumerGroup,
    named: log.ConsumerGroupTargetAssignmentMemberKey,
    said: log.ConsumerGroupTargetAssignmentMemberValue | None,
    undo: UndoLog | None,
) -> None:
    _note(undo, partial(group.put_target, named.member_id, group.target.get(named.member_id)))
    assignment = None
    if said is not None:
        assignment = {
            topic.topic_id: tuple(topic.partitions) for topic in said.topic_partitions if topic.partitions
        }
    group.put_target(named.member_id, assignment)


def _replay_current(
    group: ConsumerGroup,
    named: log.ConsumerGroupCurrentMemberAssignmentKey,
    said: log.ConsumerGroupCurrentMemberAssignmentValue | None,
    undo: UndoLog | None,
) -> None:
    old = group.members.get(named.member_id)
    if old is None and said is None:
        return
    _note(undo, partial(group.put_member, named.member_id, old))
    member = old or ConsumerGroupMember(named.member_id)
    if said is None:
        new = msgspec.structs.replace(
            member,
            member_epoch=NO_ASSIGNMENT_EPOCH,
            previous_member_epoch=NO_ASSIGNMENT_EPOCH,
            assigned=NOTHING,
            pending_revocation=NOTHING,
        )
    else:
        new = msgspec.structs.replace(
            member,
            member_epoch=said.member_epoch,
            previous_member_epoch=said.previous_member_epoch,
            state=MemberState(said.state),
            assigned=read_partitions(said.assigned_partitions, said.member_epoch),
            pending_revocation=read_partitions(said.partitions_pending_revocation, said.member_epoch),
        )
    group.put_member(named.member_id, new)


def _replay_regex(
    group: ConsumerGroup,
    named: log.ConsumerGroupRegularExpressionKey,
    said: log.ConsumerGroupRegularExpressionValue | None,
    undo: UndoLog | None,
) -> None:
    regex = named.regular_expression
    _note(undo, partial(group.put_resolved, regex, group.resolved.get(regex)))
    resolved = None
    if said is not None:
        resolved = ResolvedRegex(frozenset(said.topics), said.version, said.timestamp)
    group.put_resolved(regex, resolved)


def _note(undo: UndoLog | None, step: Callable[[], Any]) -> None:
    if undo is not None:
        undo.add(step)


_REPLAYS: Final[Mapping[type, Callable[[ConsumerGroup, Any, Any, UndoLog | None], None]]] = MappingProxyType(
    {
        log.ConsumerGroupMetadataKey: _replay_epoch,
        log.ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
        log.ConsumerGroupMemberMetadataKey: _replay_member,
        log.ConsumerGroupTargetAssignmentMetadataKey: _replay_assignment_epoch,
        log.ConsumerGroupTargetAssignmentMemberKey: _replay_target,
        log.ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
        log.ConsumerGroupRegularExpressionKey: _replay_regex,
    }
)
