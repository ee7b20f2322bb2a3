"""OffsetFetch: what a group has committed.

An unknown group and an unknown partition look alike: offset -1, no error. A reader that asks for stable
offsets (KIP-447) is told UNSTABLE_OFFSET_COMMIT for partitions in which a transaction is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from broker.coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from protocol.errors import ErrorCode
from protocol.primitives import Uuid
from protocol.values import ZERO_UUID

INVALID_OFFSET: Final = -1


class FetchedPartition(msgspec.Struct, gc=False):
    """The answer for one partition, for any version."""

    partition: int
    offset: int = INVALID_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(msgspec.Struct, gc=False):
    name: str
    partitions: list[FetchedPartition]


class FetchedGroup(msgspec.Struct, gc=False):
    """The answer for one group. With an error there are no topics."""

    error: ErrorCode = ErrorCode.NONE
    topics: list[FetchedTopic] = []


def fetch_offsets(
    offsets: OffsetMetadataManager,
    group_id: str,
    wanted: Iterable[tuple[str, list[int]]] | None,
    topic_ids: Mapping[str, Uuid],
    require_stable: bool,
) -> FetchedGroup:
    """The offsets of the wanted topics and partitions in the order of the request; all offsets if `wanted` is
    None.

    A client that names a topic by its id (`topic_ids`) does not get an offset that was committed for another
    topic of the same name.
    """
    if wanted is None:
        wanted = [
            (topic, list(partitions)) for topic, partitions in offsets.committed.topics(group_id).items()
        ]
    fetched = FetchedGroup(topics=[])
    for topic, indexes in wanted:
        topic_id = topic_ids.get(topic, ZERO_UUID)
        found = [_fetch_one(offsets, (group_id, topic, index), topic_id, require_stable) for index in indexes]
        fetched.topics.append(FetchedTopic(topic, found))
    return fetched


def _fetch_one(
    offsets: OffsetMetadataManager, place: tuple[str, str, int], topic_id: Uuid, require_stable: bool
) -> FetchedPartition:
    index = place[2]
    if require_stable and offsets.has_pending(*place):
        return FetchedPartition(index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.committed.get(*place)
    if committed is None or ZERO_UUID != topic_id != committed.topic_id != ZERO_UUID:
        return FetchedPartition(index)
    return FetchedPartition(index, committed.offset, committed.leader_epoch, committed.metadata)


def failed_fetch(error: ErrorCode) -> FetchedGroup:
    return FetchedGroup(error=error)
