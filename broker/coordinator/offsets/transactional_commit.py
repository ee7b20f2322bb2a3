"""TxnOffsetCommit: offsets that count when the transaction of their producer is committed. KIP-98, KIP-447.

The records are those of a plain commit, in a transactional batch: what they say is pending until the marker
comes (`pending_transactional_offsets`). A producer of old names no member, and then the group is not asked
whether it may commit. One that names its member must name the present generation, or epoch; a rebalance that
is under way does not hinder it, since the producer has been fenced by then if it should not go on.

    who commits                              classic group                     consumer group
    nobody is named                          may                               may
    generation or epoch below 0, no members  may, and makes the group          may
    a member with another generation         ILLEGAL_GENERATION                ILLEGAL_GENERATION
    a member that is not there               UNKNOWN_MEMBER_ID                 UNKNOWN_MEMBER_ID

In a consumer group a member that is behind may commit what it has had since the epoch that it names, as with
a plain commit. No session is refreshed. Groups of protocols that are not served are left alone: who commits
to one is told GROUP_ID_NOT_FOUND, as by Kafka for a share group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from broker.coordinator.classic.classic_group import ClassicGroup
from broker.coordinator.classic.states import GroupState
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_requests import MEMBER_EPOCHS_SINCE, commit_refusal
from broker.coordinator.consumer.operation import TopicsView
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import GroupOperation
from broker.coordinator.offsets.commit import PreparedCommit
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

__all__ = [
    "NamedTopic",
    "PreparedTransactionalCommit",
    "commit_in_transaction",
    "plain_topic",
    "refused_topics",
    "refused_transactional_commit",
    "transactional_answer",
]

NamedTopic: TypeAlias = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
AnsweredTopic: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
AnsweredPartition: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


class PreparedTransactionalCommit(NamedTuple):
    """The commit in the form of a plain one, and the answer of this one."""

    plain: OffsetCommitRequest
    prepared: PreparedCommit
    response: TxnOffsetCommitResponse


def plain_topic(topic: NamedTopic) -> OffsetCommitRequest.OffsetCommitRequestTopic:
    """The topic as OffsetCommit names it; without an id, which Kafka does not store here either."""
    return OffsetCommitRequest.OffsetCommitRequestTopic(
        name=topic.name,
        partitions=[
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                committed_metadata=each.committed_metadata,
            )
            for each in topic.partitions
        ],
    )


def transactional_answer(prepared: PreparedCommit) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            AnsweredTopic(
                topic.name,
                [AnsweredPartition(each.partition_index, each.error_code) for each in topic.partitions],
            )
            for topic in prepared.response.topics
        ]
    )


def commit_in_transaction(
    groups: GroupMetadataManager,
    commit: PreparedTransactionalCommit,
    operation: GroupOperation,
    topics: TopicsView,
) -> TxnOffsetCommitResponse | ErrorCode:
    """Writes the prepared records, or refuses them."""
    plain = commit.plain
    consumer = groups.consumers.get(plain.group_id)
    if consumer is not None:
        error = _consumer_error(consumer, plain, topics)
    elif groups.is_unserved(plain.group_id):
        error = ErrorCode.GROUP_ID_NOT_FOUND
    else:
        error = _classic_error(groups.get(plain.group_id), plain)
    if error is not ErrorCode.NONE:
        return error
    if commit.prepared.refusal is ErrorCode.NONE:
        operation.result.records = commit.prepared.records
    else:
        operation.result.refusal = commit.prepared.refusal
    return commit.response


def _classic_error(group: ClassicGroup | None, plain: OffsetCommitRequest) -> ErrorCode:
    generation, member_id = plain.generation_id_or_member_epoch, plain.member_id
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if _names_nobody(plain):
        return ErrorCode.NONE
    error = group.error_for(member_id, plain.group_instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    return error


def _consumer_error(group: ConsumerGroup, plain: OffsetCommitRequest, topics: TopicsView) -> ErrorCode:
    if _names_nobody(plain):
        return ErrorCode.NONE
    error = commit_refusal(group, plain, MEMBER_EPOCHS_SINCE, topics)
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def _names_nobody(plain: OffsetCommitRequest) -> bool:
    return plain.generation_id_or_member_epoch < 0 and not plain.member_id and plain.group_instance_id is None


def refused_transactional_commit(
    request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """The response with one error for every partition of the request, because it has no place for an error of
    its own."""
    return TxnOffsetCommitResponse(topics=refused_topics(request.topics, error))


def refused_topics(topics: Iterable[NamedTopic], error: ErrorCode) -> list[AnsweredTopic]:
    return [
        AnsweredTopic(
            topic.name, [AnsweredPartition(each.partition_index, error) for each in topic.partitions]
        )
        for topic in topics
    ]
