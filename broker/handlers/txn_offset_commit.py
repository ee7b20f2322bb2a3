"""TxnOffsetCommit (28), versions 0 to 5: a group's offsets as part of a producer's transaction. KIP-98.

    1    throttled after the answer
    2    leader epochs (KIP-320); COORDINATOR_LOAD_IN_PROGRESS may come
    3    the member's generation, or its epoch in a consumer group (KIP-447); flexible
    4    TRANSACTION_ABORTABLE may come
    5    the group's partition of `__consumer_offsets` enters the transaction by being written to (KIP-890)

Needs WRITE on the transactional id, READ on the group and on each topic. The offsets are appended when the
transaction coordinator has confirmed that the transaction is open, and count when the commit marker comes.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupServices
from broker.coordinator.offsets.transactional_commit import (
    NamedTopic,
    PreparedTransactionalCommit,
    refused_topics,
    refused_transactional_commit,
)
from broker.coordinator.transaction.first_writes import FirstWrite
from broker.coordinator.transaction.partition_verification import Errors, Producer, Support
from broker.services import HasFirstWrites, HasReplicas
from config.limits import OFFSETS_PER_COMMIT
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

LOADING_SINCE: Final = 2
"""Older producers do not expect COORDINATOR_LOAD_IN_PROGRESS here."""
ABORTABLE_SINCE: Final = 4
ADDS_PARTITIONS_SINCE: Final = 5

Answer = TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]


class TxnOffsetCommitServices(GroupServices, HasReplicas, HasFirstWrites, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: TxnOffsetCommitServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> Turns[Answer]:
    error = _request_error(context, request)
    if error:
        return refused_transactional_commit(request, error)
    refused: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = []
    accepted: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        yield None
        known, unknown, error = _judged(services, context, topic)
        if unknown.partitions:
            refused += refused_topics([unknown], error)
        if known.partitions:
            accepted.append(known)
    if not accepted:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = accepted
    answer: Answer
    if sum(len(topic.partitions) for topic in accepted) > OFFSETS_PER_COMMIT:
        answer = refused_transactional_commit(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    elif not request.group_id:
        answer = refused_transactional_commit(request, ErrorCode.INVALID_GROUP_ID)
    else:
        prepared = yield from services.groups.prepare_transactional_commit(request)
        answer = _verified(services, context, request, prepared)
    if context.version < LOADING_SINCE:
        answer = then(answer, _without_loading)
    return then(answer, lambda response: _merged(refused, response)) if refused else answer


def _request_error(context: RequestContext, request: TxnOffsetCommitRequest) -> ErrorCode:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _judged(
    services: TxnOffsetCommitServices,
    context: RequestContext,
    topic: TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic,
) -> tuple[NamedTopic, NamedTopic, ErrorCode]:
    """The topic with the partitions that may be committed, the same with the others, and their error."""
    nothing = NamedTopic(topic.name)
    if not context.allows(Operation.READ, ResourceType.TOPIC, topic.name):
        return nothing, topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    count = services.groups.cluster.partition_count(topic.name) or 0
    known, unknown = NamedTopic(topic.name), NamedTopic(topic.name)
    known.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
    if len(known.partitions) < len(topic.partitions):
        unknown.partitions = [each for each in topic.partitions if not 0 <= each.partition_index < count]
    return known, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _verified(
    services: TxnOffsetCommitServices,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    prepared: PreparedTransactionalCommit,
) -> Answer:
    """Commits now, or when the coordinator has confirmed the transaction."""
    groups = services.groups
    hosted = services.replicas.by_name.get((GROUP_TOPIC, groups.partition_for(request.group_id)))
    producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
    support = _support(context.version)
    if hosted is None:  # it is refused, and must not wait until this broker has become the coordinator
        return groups.commit_in_transaction(request, prepared)
    writes = [FirstWrite(hosted)]
    if not services.first_writes.must_wait(producer, writes, support):
        return groups.commit_in_transaction(request, prepared)
    pending: Pending[TxnOffsetCommitResponse] = Pending()

    def go_on(errors: Errors) -> None:
        for error in errors.values():
            pending.complete(refused_transactional_commit(request, _unconfirmed(error)))
            return
        pending.attempt(lambda: pending.follow(groups.commit_in_transaction(request, prepared)))

    services.first_writes.verify(producer, writes, support, go_on)
    return pending


def _support(version: int) -> Support:
    """What the producer understands."""
    if version >= ADDS_PARTITIONS_SINCE:
        return Support.ADDS_PARTITIONS
    return Support.ABORTABLE if version >= ABORTABLE_SINCE else Support.OLD_ERRORS


def _unconfirmed(error: ErrorCode) -> ErrorCode:
    """A producer asks again after COORDINATOR_LOAD_IN_PROGRESS, without looking for another coordinator; no
    older one expects NETWORK_EXCEPTION. Who does not lead the group's partition is not its coordinator."""
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error


def _without_loading(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response


def _merged(
    refused: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic], response: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    """Refused topics first; a topic of which only some partitions were refused appears once."""
    merged = list(refused)
    by_name = {topic.name: topic for topic in merged}
    for topic in response.topics:
        same = by_name.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions.extend(topic.partitions)
    return TxnOffsetCommitResponse(topics=merged)
