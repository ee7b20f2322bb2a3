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

What a request asks for is looked up some hundred partitions at a time: between two of them offsets may be
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from broker.coordinator.group_coordinator import NO_IDS, GroupServices
from broker.coordinator.offsets.fetch import FetchedGroup, FetchedPartition, FetchedTopic
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.primitives import Uuid
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, gather, then
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns, run_through
from protocol.values import ZERO_UUID

SEVERAL_GROUPS_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10
GROUP_ERROR_SINCE: Final = 2

PARTITIONS_AT_ONCE: Final = 500
"""The number of partitions of one group that are looked up in one step."""

ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup


class _Wanted(msgspec.Struct):
    """One topic of a request, whatever the version."""

    name: str
    topic_id: Uuid
    partitions: list[int]


class _Found(msgspec.Struct):
    """What came of one group: an error alone, or topics as the response has them."""

    error: ErrorCode
    topics: list[Any]


class _Run(NamedTuple):
    """Topics and partitions that are looked up in one step; the first topic may be the rest of the last run's
    last one."""

    wanted: list[tuple[str, list[int]]]
    continues: bool


Make = Callable[[FetchedTopic], Any]
"""Makes the struct of the response from a topic's offsets; None leaves the topic out."""


def is_plain(request: OffsetFetchRequest, version: int) -> bool:
    """Whether a request names all partitions that it asks for, as consumers do. A group may have any number
    of them."""
    if version < SEVERAL_GROUPS_SINCE:
        return request.topics is not None
    return all(group.topics is not None for group in request.groups)


@in_turns
def handle(
    services: GroupServices, context: RequestContext, request: OffsetFetchRequest
) -> Turns[OffsetFetchResponse | Pending[OffsetFetchResponse]]:
    if context.version < SEVERAL_GROUPS_SINCE:
        topics = None if request.topics is None else list[_Wanted]()
        for topic in request.topics or ():
            topics.append(_Wanted(topic.name, ZERO_UUID, topic.partition_indexes))  # type: ignore[union-attr]
            yield None
        found = yield from _fetch(
            services, context, request.group_id, topics, request.require_stable, make=_without_id
        )
        if context.version >= GROUP_ERROR_SINCE:
            return then(found, lambda group: OffsetFetchResponse(error_code=group.error, topics=group.topics))
        if isinstance(found, _Found):
            return (yield from _first_version(found, topics or []))

        def late(group: _Found) -> OffsetFetchResponse:
            return run_through(_first_version(group, topics or []))

        return then(found, late)
    groups: list[ResponseGroup | Pending[ResponseGroup]] = []
    order: list[int] = []
    whole: dict[str, int] = {}
    for asked in request.groups:
        # A group may be named again and again, and all its offsets asked for: they are there once.
        place = whole.get(asked.group_id) if asked.topics is None else None
        if place is None:
            place = len(groups)
            groups.append((yield from _several(services, context, asked, request.require_stable)))
            if asked.topics is None:
                whole[asked.group_id] = place
        order.append(place)
        yield None
    return gather(groups, lambda each: OffsetFetchResponse(groups=[each[place] for place in order]))


def _several(
    services: GroupServices,
    context: RequestContext,
    asked: OffsetFetchRequest.OffsetFetchRequestGroup,
    require_stable: bool,
) -> Turns[ResponseGroup | Pending[ResponseGroup]]:
    """One of several groups."""
    cluster = services.groups.cluster
    by_id = context.version >= TOPIC_IDS_SINCE
    topics: list[_Wanted] | None = None
    ids: dict[str, Uuid] = {}
    unknown: list[OffsetFetchResponse.OffsetFetchResponseTopics] = []
    if asked.topics is not None:
        topics = []
        for topic in asked.topics:
            wanted = _Wanted(topic.name, topic.topic_id, topic.partition_indexes)
            if by_id:
                wanted.name = cluster.topic_name(topic.topic_id) or ""
                ids[wanted.name] = topic.topic_id
            if by_id and not wanted.name:
                gone = partial(_with_id, topic_id=wanted.topic_id)
                unknown.append((yield from _refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID, gone)))
            else:
                topics.append(wanted)
            yield None

    def make(topic: FetchedTopic) -> OffsetFetchResponse.OffsetFetchResponseTopics | None:
        topic_id = ids.get(topic.name, ZERO_UUID)
        if by_id and asked.topics is None:
            topic_id = cluster.topic_id(topic.name) or ZERO_UUID
            if topic_id == ZERO_UUID:
                return None
        return _with_id(topic, topic_id)

    def finish(found: _Found) -> ResponseGroup:
        if found.error is not ErrorCode.NONE:
            return ResponseGroup(group_id=asked.group_id, error_code=found.error)
        return ResponseGroup(group_id=asked.group_id, topics=found.topics + unknown)

    member = (asked.member_id, asked.member_epoch)
    fetched = yield from _fetch(
        services, context, asked.group_id, topics, require_stable, ids, member, make=make
    )
    return then(fetched, finish)


def _fetch(
    services: GroupServices,
    context: RequestContext,
    group_id: str,
    topics: Sequence[_Wanted] | None,
    require_stable: bool,
    topic_ids: Mapping[str, Uuid] = NO_IDS,
    member: tuple[str | None, int] = (None, -1),
    *,
    make: Make,
) -> Turns[_Found | Pending[_Found]]:
    """One group's offsets, seen with the client's rights."""
    if not context.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return _Found(ErrorCode.GROUP_AUTHORIZATION_FAILED, [])

    def may_see(name: str) -> bool:
        return context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def made(group: FetchedGroup) -> _Found:
        found = (make(topic) for topic in group.topics if topics is not None or may_see(topic.name))
        return _Found(group.error, [topic for topic in found if topic is not None])

    if topics is None:
        everything = services.groups.fetch_offsets(
            group_id, None, require_stable=require_stable, member=member
        )
        return then(everything, made)
    visible: list[_Wanted] = []
    refused: list[Any] = []
    for topic in topics:
        if may_see(topic.name):
            visible.append(topic)
        else:
            refused.append((yield from _refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED, make)))
        yield None
    runs: list[_Run] = []
    results: list[_Found | Pending[_Found]] = []
    for run in _runs(visible):
        runs.append(run)
        fetched = services.groups.fetch_offsets(
            group_id, run.wanted, require_stable=require_stable, topic_ids=topic_ids, member=member
        )
        results.append(then(fetched, made))
        yield None
    return gather(results, lambda parts: _joined(parts, runs, refused))


def _runs(topics: Sequence[_Wanted]) -> Iterator[_Run]:
    """One at least: the group is looked at even if nothing is asked of it."""
    wanted: list[tuple[str, list[int]]] = []
    continues, left = False, PARTITIONS_AT_ONCE
    for topic in topics:
        for start in range(0, len(topic.partitions) or 1, PARTITIONS_AT_ONCE):
            part = topic.partitions[start : start + PARTITIONS_AT_ONCE]
            if left < len(part) or len(wanted) == PARTITIONS_AT_ONCE:
                yield _Run(wanted, continues)
                wanted, continues, left = [], start > 0, PARTITIONS_AT_ONCE
            wanted.append((topic.name, part))
            left -= len(part)
    yield _Run(wanted, continues)


def _joined(parts: Sequence[_Found], runs: Sequence[_Run], refused: list[Any]) -> _Found:
    topics: list[Any] = []
    for part, run in zip(parts, runs, strict=True):
        if part.error is not ErrorCode.NONE:
            return _Found(part.error, [])
        if run.continues:
            topics[-1].partitions.extend(part.topics[0].partitions)
        topics += part.topics[1:] if run.continues else part.topics
    return _Found(ErrorCode.NONE, topics + refused)


def _refused(topic: _Wanted, error: ErrorCode, make: Make) -> Turns[Any]:
    """The topic of the response, with the error for each of its partitions."""
    made = make(FetchedTopic(topic.name, []))
    for start in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
        indexes = topic.partitions[start : start + PARTITIONS_AT_ONCE]
        part = FetchedTopic(topic.name, [FetchedPartition(index, error=error) for index in indexes])
        made.partitions.extend(make(part).partitions)
        yield None
    return made


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


def _without_id(topic: FetchedTopic) -> OffsetFetchResponse.OffsetFetchResponseTopic:
    return OffsetFetchResponse.OffsetFetchResponseTopic(
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


def _first_version(found: _Found, asked: Sequence[_Wanted]) -> Turns[OffsetFetchResponse]:
    """It has no place for the group's error but the partitions."""
    topics = found.topics
    if found.error is not ErrorCode.NONE:
        topics = []
        for topic in asked:
            topics.append((yield from _refused(topic, found.error, _without_id)))
    return OffsetFetchResponse(topics=topics)
