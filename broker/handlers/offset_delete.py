"""OffsetDelete (47), version 0: forget offsets of a group (KIP-496).

Needs DELETE on the group and READ on each topic. Partitions that do not exist, or whose topic one may not
read, have their errors and come first; the others are deleted all the same, unless the group subscribes their
topic (GROUP_SUBSCRIBED_TO_TOPIC). An error of the group stands alone, without partitions. The answer comes
when the tombstones are committed to the log.
"""

from __future__ import annotations

from broker.coordinator.group_coordinator import GroupServices
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

AnswerTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
AnswerPartition = OffsetDeleteResponse.OffsetDeleteResponsePartition


@in_turns
def handle(
    services: GroupServices, context: RequestContext, request: OffsetDeleteRequest
) -> Turns[OffsetDeleteResponse | Pending[OffsetDeleteResponse]]:
    if not context.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = services.groups
    refused: list[AnswerTopic] = []
    accepted: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        yield None
        error, count = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0
        if context.allows(Operation.READ, ResourceType.TOPIC, topic.name):
            count = groups.cluster.partition_count(topic.name) or 0
        else:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        indexes = [partition.partition_index for partition in topic.partitions]
        bad = [AnswerPartition(index, error) for index in indexes if not 0 <= index < count]
        topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if bad:
            refused.append(AnswerTopic(topic.name, bad))
        if topic.partitions:
            accepted.append(topic)
    request.topics = accepted
    # The group is looked at even if no partition is left: its own error comes before theirs.
    return then(groups.delete_offsets(request), lambda response: _merged(refused, response))


def _merged(refused: list[AnswerTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """Refused partitions first; a topic of which only some were refused appears once."""
    if response.error_code:
        return response
    by_name = {topic.name: topic for topic in refused}
    merged = list(refused)
    for topic in response.topics:
        same = by_name.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions.extend(topic.partitions)
    return OffsetDeleteResponse(topics=merged)
