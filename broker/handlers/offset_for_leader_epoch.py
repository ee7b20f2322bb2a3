"""OffsetForLeaderEpoch (23): where what was written under a leader's epoch ends. KIP-101, KIP-279, KIP-320.

Versions 2-4. 2: the asker's own picture of the epoch is checked; 3: a replica id, which nobody looks at; 4:
flexible.

A consumer that reconnects, and a follower, ask where the epoch of their last record ends here; if that is
before their own position, the log was truncated meanwhile and they must go back. An epoch that is undefined
or newer than all known answers (-1, -1) without an error.

Needs CLUSTER_ACTION (a follower) or DESCRIBE on the topic (a consumer). Nothing is left out.
"""

from __future__ import annotations

from broker.services import HasReplicas
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

Answer = OffsetForLeaderEpochResponse.EpochEndOffset


@in_turns
def handle(
    services: HasReplicas, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Turns[OffsetForLeaderEpochResponse]:
    is_peer = context.may_see_cluster(Operation.CLUSTER_ACTION)
    for topic in request.topics:
        name = topic.topic
        allowed = is_peer or context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
        answers = []
        for asked in topic.partitions:
            if allowed:
                answers.append(_answer(services, name, asked))
            else:
                answers.append(Answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED, asked.partition))
            yield None
        yield OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(name, answers)
    return OffsetForLeaderEpochResponse()


def _answer(
    services: HasReplicas, name: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    index = asked.partition
    partition = services.replicas.by_name.get((name, index))
    if partition is None:
        return Answer(services.replicas.why_not_hosted(name, index), index)
    refusal = partition.refusal(asked.current_leader_epoch)
    if refusal:
        return Answer(refusal, index)
    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return Answer(0, index, epoch, end_offset)
