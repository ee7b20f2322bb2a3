"""OffsetCommit (8), versions 2 to 10: a group says how far it has come.

    2-4  the client may name a retention time
    3    throttle time
    5    retention is the broker's affair alone (KIP-211)
    6    leader epochs (KIP-320)
    7    static members (KIP-345)
    8    flexible
    9    unknown groups have an error of their own; for the newer protocol too (KIP-848)
    10   topics by id (KIP-848)

Needs READ on the group and on each topic. The answer comes when the offsets are committed to the log;
partitions that may not or cannot be committed have their errors, the others are committed all the same, in
one batch. More than that takes are refused with UNKNOWN_SERVER_ERROR, as Kafka does when its log refuses it.
"""

from __future__ import annotations

from typing import Final

from broker.coordinator.group_coordinator import GroupServices
from broker.coordinator.offsets.commit import refused_commit
from config.limits import OFFSETS_PER_COMMIT
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns
from protocol.values import ZERO_UUID

TOPIC_IDS_SINCE: Final = 10


@in_turns
def handle(
    services: GroupServices, context: RequestContext, request: OffsetCommitRequest
) -> Turns[OffsetCommitResponse | Pending[OffsetCommitResponse]]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused_commit(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = services.groups
    refused: list[OffsetCommitResponse.OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequest.OffsetCommitRequestTopic] = []
    for topic in request.topics:
        yield None
        if context.version >= TOPIC_IDS_SINCE:
            topic.name = groups.cluster.topic_name(topic.topic_id) or ""
        error = _topic_error(context, topic)
        count = None if error else groups.cluster.partition_count(topic.name)
        if error is ErrorCode.NONE and count is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if count is None:
            refused.append(_refused(topic, topic.partitions, error))
            continue
        topic.topic_id = groups.cluster.topic_id(topic.name) or ZERO_UUID
        unknown = [entry for entry in topic.partitions if not 0 <= entry.partition_index < count]
        if unknown:
            refused.append(_refused(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [entry for entry in topic.partitions if 0 <= entry.partition_index < count]
        if topic.partitions:
            accepted.append(topic)
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    request.topics = accepted
    if sum(len(topic.partitions) for topic in accepted) > OFFSETS_PER_COMMIT:
        return _merged(refused, refused_commit(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    result = yield from groups.commit_offsets(request, context.version)
    return then(result, lambda response: _merged(refused, response)) if refused else result


def _topic_error(context: RequestContext, topic: OffsetCommitRequest.OffsetCommitRequestTopic) -> ErrorCode:
    if context.version >= TOPIC_IDS_SINCE and not topic.name:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not context.allows(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _refused(
    topic: OffsetCommitRequest.OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition],
    error: ErrorCode,
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=entry.partition_index, error_code=error
            )
            for entry in partitions
        ],
    )


def _merged(
    refused: list[OffsetCommitResponse.OffsetCommitResponseTopic], response: OffsetCommitResponse
) -> OffsetCommitResponse:
    """Refused topics first; a topic of which only some partitions were refused appears once."""
    merged = list(refused)
    by_name = {topic.name: topic for topic in merged if topic.name}
    for topic in response.topics:
        same = by_name.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions.extend(topic.partitions)
    return OffsetCommitResponse(topics=merged)
