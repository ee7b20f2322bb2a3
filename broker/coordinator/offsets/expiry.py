"""When offsets, and then their group, expire.

`offsets.retention.minutes` counts:

* for a group without members, from the moment it became empty (if the log did not tell: from the commit);
* for offsets of simple consumers, from the commit;
* for a classic consumer group at work, and for every group of the newer protocol, from the commit, and only
  for topics that nobody in it subscribes any longer.

An offset committed with a time of its own (OffsetCommit 2 to 4) goes by that. Offsets that an open
transaction may yet replace stay, and so does everything of a group that rebalances. A group without members
and offsets goes too. (KIP-211)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.coordinator.classic.classic_group import CONSUMER_PROTOCOL, NO_TIMESTAMP, ClassicGroup
from broker.coordinator.classic.group_records import group_tombstone
from broker.coordinator.classic.states import GroupState
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_requests import consumer_group_tombstones
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import DeadlineKind, GroupOperation
from broker.coordinator.offsets.committed_offsets import PartitionOffsets
from broker.coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from broker.coordinator.offsets.offset_records import NO_EXPIRY, OffsetAndMetadata, offset_tombstone
from broker.coordinator.runtime.result import CoordinatorRecord

LOG: Final = logging.getLogger("barnabas.groups")
EXPIRY_SLICE_OFFSETS: Final = 2_000
"""The number of offsets at which one turn of the loop looks: a few milliseconds."""


class OffsetExpiry:
    """Looks, from time to time and in slices, for offsets that have expired."""

    def __init__(self, partition: int, groups: GroupMetadataManager, offsets: OffsetMetadataManager) -> None:
        self._partition = partition
        self._groups = groups
        self._offsets = offsets
        self._left_to_look_at: list[str] = []
        """The groups at whose offsets this round has not looked yet."""

    def schedule(self, operation: GroupOperation, delay_ms: int | None = None) -> None:
        """Looks after this delay, or (None) after `offsets.retention.check.interval.ms`."""
        if delay_ms is None:
            delay_ms = operation.settings.offsets_retention_check_interval_ms
        operation.deadlines.set((DeadlineKind.EXPIRE_OFFSETS, "", ""), operation.now.monotonic_ms + delay_ms)

    def is_scheduled(self, operation: GroupOperation) -> bool:
        return (DeadlineKind.EXPIRE_OFFSETS, "", "") in operation.deadlines

    def look(self, operation: GroupOperation) -> None:
        """Looks at the next groups. The others follow after other work of the loop."""
        operation.result.atomic = False
        records = operation.result.records
        consumers = self._groups.consumers
        left = self._left_to_look_at = self._left_to_look_at or [*self._groups.groups, *consumers.groups]
        budget = EXPIRY_SLICE_OFFSETS
        while left and budget > 0:
            group_id = left.pop()
            group = self._groups.get(group_id) or consumers.get(group_id)
            if group is not None:
                budget -= 1
                try:
                    budget -= self._expire_group(group, operation)
                except Exception:
                    LOG.exception("group %s: what has expired of it cannot be told", group_id)
        if records:
            LOG.info(
                "partition %d: %d tombstones for expired offsets and groups", self._partition, len(records)
            )
        self.schedule(operation, 1 if left else None)

    def _expire_group(self, group: ClassicGroup | ConsumerGroup, operation: GroupOperation) -> int:
        """Expires offsets of a group. Returns the number of offsets that were looked at."""

        def is_pending(topic: str, partition: int) -> bool:
            return self._offsets.has_pending(group.group_id, topic, partition)

        topics = self._offsets.committed.topics(group.group_id)
        all_gone = not topics
        if topics:
            gone, all_gone = expired_offsets(
                group, topics, is_pending, operation.now.wall_ms, operation.settings.offsets_retention_ms
            )
            operation.result.records.extend(gone)
        is_unstable = self._offsets.pending.has_group(group.group_id)
        if all_gone and not is_unstable:
            if isinstance(group, ConsumerGroup):
                if not group.members:
                    operation.result.records.extend(consumer_group_tombstones(group))
            elif group.state is GroupState.EMPTY:
                operation.result.records.append(group_tombstone(group.group_id))
        return sum(map(len, topics.values()))


def expired_offsets(
    group: ClassicGroup | ConsumerGroup,
    topics: dict[str, PartitionOffsets],
    is_pending: Callable[[str, int], bool],
    now_wall_ms: int,
    retention_ms: int,
) -> tuple[list[CoordinatorRecord], bool]:
    """Tombstones for the offsets that expire now, and whether the group has no others."""
    since = _clock(group)
    if since is None:
        return [], False
    gone: list[CoordinatorRecord] = []
    all_gone = True
    for topic, partitions in topics.items():
        is_read = group.subscribes(topic)
        for partition, committed in partitions.items():
            if committed.expire_timestamp_ms != NO_EXPIRY:
                is_over = now_wall_ms >= committed.expire_timestamp_ms
            else:
                is_over = now_wall_ms - since(committed) >= retention_ms
            if is_over and not is_read and not is_pending(topic, partition):
                gone.append(offset_tombstone(group.group_id, topic, partition))
            else:
                all_gone = False
    return gone, all_gone


def _clock(group: ClassicGroup | ConsumerGroup) -> Callable[[OffsetAndMetadata], int] | None:
    """The time from which the retention of an offset counts; None if none may expire now."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return lambda committed: committed.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        emptied_ms = group.state_timestamp_ms
        return lambda committed: committed.commit_timestamp_ms if emptied_ms == NO_TIMESTAMP else emptied_ms
    if (
        group.state is GroupState.STABLE
        and group.protocol_type == CONSUMER_PROTOCOL
        and group.topics is not None
    ):
        return lambda committed: committed.commit_timestamp_ms
    return None
