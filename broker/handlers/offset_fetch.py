"""OffsetFetch (9), versions 1 to 10: how far groups have come.

    1    one group; an error of the group stands on each partition
    2    all topics of the group if none is named; an error of the group's own
    3    throttle time
    5    leader epochs (KIP-320)
    6    flexible
    7    only offsets that no open transaction may change (KIP-447)
    8    several groups (KIP-709)
    9    member id and epoch, for the newer consumer protocol (KIP-848); classic groups do not look at them
    10   topics by id (KIP-848)

Needs DESCRIBE on each group and topic. Asked for all topics, those that one may not see are left out, and
from version 10 on those that have no id any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.coordinator.group.coordinator import NO_IDS, GroupServices
from broker.coordinator.group.offset_fetch import FetchedGroup, FetchedPartition, FetchedTopic, failed_fetch
from broker.coordinator.waiting import gather, then
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.primitives import Uuid
from protocol.registry import ApiKey
from protocol.serving import Operation, Pending, RequestContext, ResourceType, serves
from protocol.values import ZERO_UUID

SEVERAL_GROUPS_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10
GROUP_ERROR_SINCE: Final = 2

ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup


class _Wanted(msgspec.Struct):
    """One topic of a request, whatever the version."""

    name: str
    topic_id: Uuid
    partitions: list[int]


@serves(ApiKey.OFFSET_FETCH)
def handle(
    services: GroupServices, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Pending[OffsetFetchResponse]:
    if context.version >= SEVERAL_GROUPS_SINCE:
        return gather(
            [_several(services, context, group, request.require_stable) for group in request.groups],
            lambda groups: OffsetFetchResponse(groups=groups),
        )
    topics = None
    if request.topics is not None:
        topics = [_Wanted(topic.name, ZERO_UUID, topic.partition_indexes) for topic in request.topics]
    fetched = _fetch(services, context, request.group_id, topics, request.require_stable)
    return then(fetched, lambda group: _single(group, topics or [], context.version))


def _several(
    services: GroupServices,
    context: RequestContext,
    asked: OffsetFetchRequest.OffsetFetchRequestGroup,
    require_stable: bool,
) -> ResponseGroup | Pending[ResponseGroup]:
    cluster = services.groups.cluster
    topics: list[_Wanted] | None = None
    ids: dict[str, Uuid] = {}
    unknown: list[_Wanted] = []
    if asked.topics is not None:
        topics = [_Wanted(topic.name, topic.topic_id, topic.partition_indexes) for topic in asked.topics]
        if context.version >= TOPIC_IDS_SINCE:
            for topic in topics:
                topic.name = cluster.topic_name(topic.topic_id) or ""
                ids[topic.name] = topic.topic_id
            unknown = [topic for topic in topics if not topic.name]
            topics = [topic for topic in topics if topic.name]

    def finish(group: FetchedGroup) -> ResponseGroup:
        if group.error is not ErrorCode.NONE:
            return ResponseGroup(group_id=asked.group_id, error_code=group.error)
        response = ResponseGroup(group_id=asked.group_id)
        for topic in group.topics:
            topic_id = ids.get(topic.name, ZERO_UUID)
            if context.version >= TOPIC_IDS_SINCE and asked.topics is None:
                topic_id = cluster.topic_id(topic.name) or ZERO_UUID
                if topic_id == ZERO_UUID:
                    continue
            response.topics.append(_with_id(topic, topic_id))
        response.topics += [
            _with_id(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID), topic.topic_id) for topic in unknown
        ]
        return response

    return then(_fetch(services, context, asked.group_id, topics, require_stable, ids), finish)


def _fetch(
    services: GroupServices,
    context: RequestContext,
    group_id: str,
    topics: Sequence[_Wanted] | None,
    require_stable: bool,
    topic_ids: Mapping[str, Uuid] = NO_IDS,
) -> FetchedGroup | Pending[FetchedGroup]:
    """One group's offsets, seen with the client's rights."""
    if not context.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return failed_fetch(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def may_see(name: str) -> bool:
        return context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)

    if topics is None:
        fetched = services.groups.fetch_offsets(group_id, None, require_stable=require_stable)
        return then(
            fetched,
            lambda group: FetchedGroup(group.error, [topic for topic in group.topics if may_see(topic.name)]),
        )
    visible = [topic for topic in topics if may_see(topic.name)]
    hidden = [topic for topic in topics if not may_see(topic.name)]
    fetched = services.groups.fetch_offsets(
        group_id,
        [(topic.name, topic.partitions) for topic in visible],
        require_stable=require_stable,
        topic_ids=topic_ids,
    )
    if not hidden:
        return fetched
    refused = [_failed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in hidden]
    return then(
        fetched,
        lambda group: group if group.error else FetchedGroup(group.error, group.topics + refused),
    )


def _failed(topic: _Wanted, error: ErrorCode) -> FetchedTopic:
    return FetchedTopic(topic.name, [FetchedPartition(index, error=error) for index in topic.partitions])


def _with_id(topic: FetchedTopic, topic_id: Uuid) -> OffsetFetchResponse.OffsetFetchResponseTopics:
    return OffsetFetchResponse.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponse.OffsetFetchResponsePartitions(
                partition_index=entry.partition,
                committed_offset=entry.offset,
                committed_leader_epoch=entry.leader_epoch,
                metadata=entry.metadata,
                error_code=entry.error,
            )
            for entry in topic.partitions
        ],
    )


def _single(group: FetchedGroup, asked: Sequence[_Wanted], version: int) -> OffsetFetchResponse:
    """The form of versions 1 to 7. The first one has no place for the group's error but the partitions."""
    topics = group.topics
    if group.error is not ErrorCode.NONE and version < GROUP_ERROR_SINCE:
        topics = [_failed(topic, group.error) for topic in asked]
    return OffsetFetchResponse(
        error_code=group.error,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=entry.partition,
                        committed_offset=entry.offset,
                        committed_leader_epoch=entry.leader_epoch,
                        metadata=entry.metadata,
                        error_code=entry.error,
                    )
                    for entry in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
