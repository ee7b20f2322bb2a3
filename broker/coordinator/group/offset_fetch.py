"""OffsetFetch: what a group has committed.

An unknown group and an unknown partition look alike: offset -1, no error. A reader that asks for stable
offsets (KIP-447) is told UNSTABLE_OFFSET_COMMIT for partitions in which a transaction is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from broker.coordinator.group.shard import GroupShard
from protocol.errors import ErrorCode

INVALID_OFFSET: Final = -1


class FetchedPartition(msgspec.Struct, gc=False):
    """One partition's answer, whatever the version."""

    partition: int
    offset: int = INVALID_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(msgspec.Struct, gc=False):
    name: str
    partitions: list[FetchedPartition]


class FetchedGroup(msgspec.Struct, gc=False):
    """One group's answer; with an error there are no topics."""

    error: ErrorCode = ErrorCode.NONE
    topics: list[FetchedTopic] = []


def fetch(
    shard: GroupShard, group_id: str, wanted: Iterable[tuple[str, list[int]]] | None, require_stable: bool
) -> FetchedGroup:
    """Offsets of the wanted topics and partitions in the order asked for; of all if `wanted` is None."""
    if wanted is None:
        wanted = [(topic, list(partitions)) for topic, partitions in shard.offsets.topics(group_id).items()]
    return FetchedGroup(
        topics=[
            FetchedTopic(
                topic, [_fetch_one(shard, group_id, topic, index, require_stable) for index in indexes]
            )
            for topic, indexes in wanted
        ]
    )


def _fetch_one(
    shard: GroupShard, group_id: str, topic: str, index: int, require_stable: bool
) -> FetchedPartition:
    if require_stable and shard.has_pending_offset(group_id, topic, index):
        return FetchedPartition(index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = shard.offsets.get(group_id, topic, index)
    if committed is None:
        return FetchedPartition(index)
    return FetchedPartition(index, committed.offset, committed.leader_epoch, committed.metadata)


def failed_fetch(error: ErrorCode) -> FetchedGroup:
    return FetchedGroup(error=error)
