"""When offsets, and then their group, are forgotten.

`offsets.retention.minutes` counts:

* for a group without members, from the moment it became empty (if the log did not tell: from the commit);
* for offsets of simple consumers, from the commit;
* for a consumer group at work, from the commit, and only for topics that nobody in it subscribes any longer.

An offset committed with a time of its own (OffsetCommit 2 to 4) goes by that. Offsets that an open
transaction may yet replace stay, and so does everything of a group that rebalances. A group without members
and offsets goes too. (KIP-211)
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.group.classic_group import CONSUMER_PROTOCOL, NO_TIMESTAMP, ClassicGroup
from broker.coordinator.group.group_records import NO_EXPIRY, CommittedOffset, offset_tombstone
from broker.coordinator.group.offset_store import PartitionOffsets
from broker.coordinator.group.states import GroupState
from broker.coordinator.result import CoordinatorRecord


def expired_offsets(
    group: ClassicGroup,
    topics: dict[str, PartitionOffsets],
    is_pending: Callable[[str, int], bool],
    now_wall_ms: int,
    retention_ms: int,
) -> tuple[list[CoordinatorRecord], bool]:
    """Tombstones for the offsets that go now, and whether that is all the group has."""
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


def _clock(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """From when the retention of an offset counts; None if none may go now."""
    if group.protocol_type is None:
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
