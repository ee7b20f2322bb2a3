"""Produce (0): append record batches to partitions. KIP-98, KIP-467, KIP-951, KIP-516.

Versions 3-13.

* 3: batches of format 2, idempotent and transactional producers; 5: log start offset in the answer;
* 6: throttled after the answer (KIP-219); 7: zstd; 8: the records at fault and a text; 9: flexible;
* 10: where the leader went, in tagged fields (KIP-951); 11: TRANSACTION_ABORTABLE may come;
* 12: partitions enter a transaction by being written to (KIP-890); 13: topics by id (KIP-516).

Per partition, in this order: the topic is known, the client may WRITE it, the partition exists, `acks` is
-1, 0 or 1, the topic is not one of the coordinators' own (but for clients called `__admin_client`), this
broker hosts and leads it, enough replicas are in sync for acks=all, and then the log judges the batch. A
batch is taken whole or not at all; the partitions of a request are independent of each other. A batch that
an idempotent producer sends again is answered with the offset that it got the first time. Of a partition
that is named twice the batch named last is taken; one without records refuses it.

An answer without error is made from an `AppendResult` and from nothing else: whatever stands before the log
is an error by its type, and an answer that waits holds an error until its result fills it.

acks=0 is never answered; if anything failed the connection is closed, which is all that such a producer can
notice. acks=all waits for the high watermark. A large batch that must be decompressed or compressed anew, a
slow disk, or a topic with `flush.messages` makes any answer wait for helper threads; answers leave in the
order of the requests all the same (see `replication.delayed_produce`).

A request with a transactional batch needs WRITE on its transactional id, and is of one producer. The first
write of a transaction on a partition waits until the transaction coordinator has confirmed it, or since
version 12 has taken the partition in; what the producer sends meanwhile waits behind it (see
`coordinator.transaction.first_writes`). A partition that the coordinator does not confirm is refused, the
others are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from broker.coordinator.transaction.first_writes import FirstWrite, WrittenPartition
from broker.coordinator.transaction.partition_verification import Errors, Producer, Support
from broker.metadata.cache import INTERNAL_TOPICS
from broker.replication.appending import refused
from broker.replication.delayed_produce import DelayedProduce
from broker.replication.partition import Partition
from broker.replication.replica_manager import NotHosted
from broker.services import HasClock, HasFirstWrites, HasMetadata, HasReplicas, HasTimers
from protocol.errors import ErrorCode, invariant
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.header import HEADER, HEADER_BYTES, MAGIC, MAGIC_POSITION, TRANSACTIONAL_BIT
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import WalkedBytes
from storage.append import AppendResult
from storage.errors import AppendRefused
from storage.waiting_append import WaitingAppend

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

ADMIN_CLIENT: Final = "__admin_client"
"""The client id that may write to the coordinators' topics: Kafka's own tools use it for repairs."""

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 12
FIRST_VERSION_WITH_ABORTABLE_ERROR: Final = 11
FIRST_VERSION_WITH_LEADERS: Final = 10

KNOWN_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""The errors that Kafka expects of an append: one of them is not counted as a failure, and an answer with it
does not tell where the log starts."""

_ATTRIBUTES_LOW_BYTE: Final = 22
"""The position of the byte of a batch that tells whether it is transactional: the second byte of its
attributes."""

_NOT_ADDED: Final = "Partition was not added to the transaction"
_NOT_VERIFIED: Final = (
    "Unable to verify the partition has been added to the transaction. Underlying error: {}"
)
_SEVERAL_PRODUCERS: Final = "Transactional records contained more than one producer ID"
_TOLD_AS_NOT_ENOUGH_REPLICAS: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a producer does not expect from Produce becomes an error after which each of them tries again without
looking for another leader, as in Kafka."""

TopicData = ProduceRequest.TopicProduceData
PartitionData = ProduceRequest.PartitionProduceData
Answer = ProduceResponse.PartitionProduceResponse
TopicAnswer = ProduceResponse.TopicProduceResponse
Delayed: TypeAlias = DelayedProduce[ProduceResponse.PartitionProduceResponse, ProduceResponse]

BeforeTheLog = (
    NotHosted
    | Literal[
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
)
"""The errors with which a batch is refused before the log judges it. ErrorCode.NONE is not one of them."""

_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC


Append: TypeAlias = Callable[[Partition, Any, int, int, WalkedBytes, int], AppendResult | WaitingAppend]
"""See `PartitionAppends.append`."""


class ProduceServices(HasClock, HasTimers, HasMetadata, HasReplicas, HasFirstWrites, Protocol):
    """What this handler needs of the broker's services."""


def handle(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[Any] | None:
    if _is_transactional(request):
        return _produce_in_transaction(services, context, request)
    return _produce(services, context, request, services.replicas.appends.append)


def _produce(
    services: ProduceServices, context: RequestContext, request: ProduceRequest, append: Append
) -> ProduceResponse | Pending[Any] | None:
    acks = request.acks
    version = context.version
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    replicas = services.replicas
    hosted: Mapping[Any, Partition] = replicas.by_id if by_id else replicas.by_name
    now_ms = context.now_ms
    walked = context.session.walked_bytes
    delayed: Delayed | None = None
    failed = False
    wanted = request.topic_data
    if len(wanted) != 1 or len(wanted[0].partition_data) != 1:
        wanted = _each_once(wanted, by_id)
    topics = []
    for topic in wanted:
        answers = []
        key: Any = topic.topic_id if by_id else topic.name
        name = services.metadata.topic_name(key) if by_id else key
        is_open = (
            name is not None
            and context.allows(_WRITE, _TOPIC, name)
            and ACKS_ALL <= acks <= ACKS_LEADER
            and (name not in INTERNAL_TOPICS or context.client_id == ADMIN_CLIENT)
        )
        for asked in topic.partition_data:
            partition = hosted.get((key, asked.index))
            records: Any = asked.records
            if partition is None or not is_open or not records:
                failed = True
                refusal = _refusal(services, context, acks, name, asked)
                answers.append(_refused(services, context, name, asked.index, refusal))
                continue
            try:
                result = append(partition, records, acks, version, walked, now_ms)
            except AppendRefused as reason:
                failed = True
                answers.append(_refused_batch(services, context, partition, reason))
                continue
            if isinstance(result, WaitingAppend):
                delayed = delayed or _delayed(services, context, request)
                answer = Answer(asked.index, ErrorCode.UNKNOWN_SERVER_ERROR, -1)
                answers.append(answer)
                delayed.wait_for_append(partition, answer, result)
                continue
            answer = Answer(
                asked.index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset
            )
            answers.append(answer)
            if acks == ACKS_ALL and partition.log.high_watermark <= result.last_offset:
                delayed = delayed or _delayed(services, context, request)
                delayed.wait(partition, answer, result.last_offset)
        topics.append(TopicAnswer(topic.name, topic.topic_id, answers))
    response = ProduceResponse(topics)
    if delayed is not None:
        return delayed.start(response)
    if failed:
        _add_endpoints(services, context, response)
    if acks == ACKS_NONE:
        _close_if_failed(response)
        return None
    return response


def _delayed(services: ProduceServices, context: RequestContext, request: ProduceRequest) -> Delayed:
    """For an answer that waits, for helper threads or for replicas."""
    return DelayedProduce(
        ProduceAnswering(services, context, request.acks),
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        clock=services.clock,
        timers=services.timers,
    )


class ProduceAnswering:
    """Fills in the answers of a request that waited; see `delayed_produce.ProduceAnswers`."""

    __slots__ = ("_acks", "_context", "_response", "_services")

    def __init__(self, services: ProduceServices, context: RequestContext, acks: int) -> None:
        self._services = services
        self._context = context
        self._acks = acks
        self._response: ProduceResponse | None = None

    def appended(
        self,
        partition: Partition,
        answer: ProduceResponse.PartitionProduceResponse,
        outcome: AppendResult | AppendRefused,
    ) -> None:
        if isinstance(outcome, AppendRefused):
            _refused_late(self._services, self._context, partition, answer, outcome)
            return
        answer.base_offset = outcome.base_offset
        answer.log_append_time_ms = outcome.log_append_time_ms
        answer.log_start_offset = outcome.log_start_offset
        answer.error_code = ErrorCode.NONE

    def not_replicated_yet(self, answer: ProduceResponse.PartitionProduceResponse) -> None:
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT

    def replicated(
        self, partition: Partition, answer: ProduceResponse.PartitionProduceResponse, error: ErrorCode
    ) -> None:
        answer.error_code = error
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _name_leader(self._services, self._context, partition.topic, answer)
            if self._response is not None:
                _add_endpoints(self._services, self._context, self._response)

    def all_appended(self, response: ProduceResponse) -> None:
        self._response = response
        _add_endpoints(self._services, self._context, response)
        if self._acks == ACKS_NONE:
            _close_if_failed(response)


def _close_if_failed(response: ProduceResponse) -> None:
    """acks=0: silence is success, and an error closes the connection."""
    errors = [
        f"{topic.name}-{answer.index}: {ErrorCode.of(answer.error_code).name}"
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code
    ]
    if errors:
        raise CloseConnection(f"a produce request with acks=0 failed ({', '.join(errors[:3])})")


def _each_once(topics: list[TopicData], by_id: bool) -> list[TopicData]:
    """The topics of a request, with each of their partitions once."""
    if len(topics) > 1 and len({each.topic_id if by_id else each.name for each in topics}) < len(topics):
        return _merged(topics, by_id)
    for topic in topics:
        batches = topic.partition_data
        if len(batches) > 1 and len({each.index for each in batches}) < len(batches):
            return _merged(topics, by_id)
    return topics


def _merged(topics: list[TopicData], by_id: bool) -> list[TopicData]:
    """The topics, with the batch that a partition was given last. A batch without records is not replaced,
    because Kafka answers with its error."""
    merged: dict[bytes | str, tuple[TopicData, dict[int, PartitionData]]] = {}
    for topic in topics:
        _, batches = merged.setdefault(topic.topic_id if by_id else topic.name, (topic, {}))
        for asked in topic.partition_data:
            known = batches.get(asked.index)
            if known is None or known.records:
                batches[asked.index] = asked
    return [TopicData(topic.name, topic.topic_id, list(each.values())) for topic, each in merged.values()]


def _refusal(
    services: ProduceServices, context: RequestContext, acks: int, name: str | None, asked: PartitionData
) -> BeforeTheLog:
    """The error for a batch that is refused before it comes to the log, in Kafka's order of checks."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not context.allows(_WRITE, _TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if services.metadata.partition(name, asked.index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not asked.records:
        return ErrorCode.INVALID_RECORD
    if not ACKS_ALL <= acks <= ACKS_LEADER:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return services.replicas.why_not_hosted(name, asked.index)


def _refused(
    services: ProduceServices, context: RequestContext, name: str | None, index: int, error: ErrorCode
) -> ProduceResponse.PartitionProduceResponse:
    """A partition that failed; since version 10 with the leader that its client should have asked."""
    invariant(error is not ErrorCode.NONE, "A batch that is not in the log is refused with an error")
    answer = Answer(index, error, -1)
    if error == ErrorCode.NOT_LEADER_OR_FOLLOWER and name is not None:
        _name_leader(services, context, name, answer)
    return answer


def _name_leader(
    services: ProduceServices,
    context: RequestContext,
    topic: str,
    answer: ProduceResponse.PartitionProduceResponse,
) -> None:
    """Tells the client who leads the partition, as far as this broker knows (KIP-951)."""
    entry = services.metadata.partition(topic, answer.index)
    if entry is not None and context.version >= FIRST_VERSION_WITH_LEADERS:
        answer.current_leader = ProduceResponse.LeaderIdAndEpoch(entry.leader, entry.leader_epoch)


def _refused_batch(
    services: ProduceServices, context: RequestContext, partition: Partition, refusal: AppendRefused
) -> ProduceResponse.PartitionProduceResponse:
    """The answer for a batch that was refused by the log, or for want of replicas in sync."""
    answer = _refused(services, context, partition.topic, partition.index, refusal.error_code)
    _blame(partition, answer, refusal)
    return answer


def _refused_late(
    services: ProduceServices,
    context: RequestContext,
    partition: Partition,
    answer: ProduceResponse.PartitionProduceResponse,
    refusal: AppendRefused,
) -> None:
    """Does as `_refused_batch`, in the answer for a batch that had to wait before it was refused."""
    verdict = _refused(services, context, partition.topic, partition.index, refusal.error_code)
    answer.error_code = verdict.error_code
    answer.current_leader = verdict.current_leader
    _blame(partition, answer, refusal)


def _blame(
    partition: Partition, answer: ProduceResponse.PartitionProduceResponse, refusal: AppendRefused
) -> None:
    """Counts the batch as failed, unless Kafka expects the error, and tells what is known of it."""
    if refusal.error_code not in KNOWN_ERRORS:
        partition.counters.failed_produce_requests += 1
        answer.log_start_offset = refusal.log_start_offset
    if refusal.is_told:
        answer.error_message = refusal.message
    if refusal.record_errors:
        answer.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(error[0], error[1]) for error in refusal.record_errors
        ]


def _add_endpoints(services: ProduceServices, context: RequestContext, response: ProduceResponse) -> None:
    """Add the addresses of the leaders that the answer names (KIP-951)."""
    if context.version < FIRST_VERSION_WITH_LEADERS:
        return
    view = services.metadata.view(context.session.listener)
    named: dict[int, ProduceResponse.NodeEndpoint] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            leader = answer.current_leader
            endpoint = None if leader is None else view.reachable.get(leader.leader_id)
            if endpoint is not None:
                rack = view.brokers.by_id[endpoint.node_id].rack
                named[endpoint.node_id] = ProduceResponse.NodeEndpoint(
                    endpoint.node_id, endpoint.host, endpoint.port, rack
                )
    response.node_endpoints = list(named.values())


def _is_transactional(request: ProduceRequest) -> bool:
    """Whether any batch says that it belongs to a transaction."""
    for topic in request.topic_data:
        for asked in topic.partition_data:
            if _has_transactional_batch(asked.records):
                return True
    return False


def _has_transactional_batch(records: Any) -> bool:
    return bool(
        records
        and len(records) > _ATTRIBUTES_LOW_BYTE
        and records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
        and records[MAGIC_POSITION] == MAGIC
    )


def _produce_in_transaction(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[Any] | None:
    """A request with transactional batches: now, or when the coordinator has confirmed what it begins."""
    name = request.transactional_id
    if name is None or not context.allows(_WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return _all_refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    producers, writes = _first_writes(services, context, request)
    if len(producers) > 1:
        return _all_refused(request, ErrorCode.INVALID_PRODUCER_ID_MAPPING, _SEVERAL_PRODUCERS)
    append: Append = services.replicas.appends.append
    if not writes:
        return _produce(services, context, request, append)
    producer = Producer(name, *producers.pop())
    support = _support(context.version)
    if not services.first_writes.must_wait(producer, writes, support):
        return _produce(services, context, request, append)
    kept = _kept(request)
    looked_at = {first.partition for first in writes}
    pending: Pending[Any] = Pending(holds_request=True)

    def go_on(errors: Errors) -> None:
        refusals = {place: _unconfirmed(error, support) for place, error in errors.items()}
        late = msgspec.structs.replace(context, now_ms=services.clock.wall_ms())
        verified = partial(_append_confirmed, append, looked_at, refusals)
        pending.attempt(lambda: _produce_late(services, late, kept, verified, pending))

    services.first_writes.verify(producer, writes, support, go_on)
    return pending


def _produce_late(
    services: ProduceServices,
    context: RequestContext,
    request: ProduceRequest,
    append: Append,
    pending: Pending[Any],
) -> None:
    """Appends batches that had to wait. They are written even if the client has disconnected, as they would
    have been without the wait."""
    try:
        result = _produce(services, context, request, append)
    except CloseConnection as verdict:
        pending.complete(verdict)
        return
    pending.follow(NO_ANSWER if result is None else result)


def _first_writes(
    services: ProduceServices, context: RequestContext, request: ProduceRequest
) -> tuple[set[tuple[int, int]], list[FirstWrite]]:
    """The producer ids and epochs of all transactional batches, and where those are written that come as far
    as the log."""
    by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    hosted: Mapping[Any, Partition] = services.replicas.by_id if by_id else services.replicas.by_name
    producers: set[tuple[int, int]] = set()
    writes = []
    for topic in request.topic_data:
        key: Any = topic.topic_id if by_id else topic.name
        name = services.metadata.topic_name(key) if by_id else key
        is_open = (
            name is not None
            and context.allows(_WRITE, _TOPIC, name)
            and (name not in INTERNAL_TOPICS or context.client_id == ADMIN_CLIENT)
        )
        for asked in topic.partition_data:
            first = _first_of_producer(asked.records)
            if first is None:
                continue
            producer_id, epoch, sequence = first
            producers.add((producer_id, epoch))
            partition = hosted.get((key, asked.index))
            if is_open and partition is not None:
                writes.append(FirstWrite(partition, sequence))
    return producers, writes


def _first_of_producer(records: Any) -> tuple[int, int, int] | None:
    """The producer id, the epoch and the first sequence of a transactional batch. None for any other batch,
    and for one that the log will refuse because it names no producer or is cut off."""
    if not _has_transactional_batch(records) or len(records) < HEADER_BYTES:
        return None
    *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(records)
    return None if producer_id < 0 else (producer_id, epoch, sequence)


def _support(version: int) -> Support:
    """What the producer understands."""
    if version >= FIRST_VERSION_THAT_ADDS_PARTITIONS:
        return Support.ADDS_PARTITIONS
    return Support.ABORTABLE if version >= FIRST_VERSION_WITH_ABORTABLE_ERROR else Support.OLD_ERRORS


def _kept(request: ProduceRequest) -> ProduceRequest:
    """The request with batches of its own, for those that it came with are gone after this turn."""
    topics = []
    for topic in request.topic_data:
        batches = []
        for asked in topic.partition_data:
            records: Any = asked.records
            batches.append(PartitionData(asked.index, None if records is None else bytearray(records)))
        topics.append(TopicData(topic.name, topic.topic_id, batches))
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, topics)


def _unconfirmed(error: ErrorCode, support: Support) -> AppendRefused:
    """What the producer is told of a partition that its transaction's coordinator does not confirm."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return AppendRefused(error, _NOT_ADDED, is_told=True)
    if error in _TOLD_AS_NOT_ENOUGH_REPLICAS or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and support is not Support.ADDS_PARTITIONS
    ):
        return AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS, _NOT_VERIFIED.format(error.name), is_told=True)
    return AppendRefused(error, error.message)


def _append_confirmed(
    append: Append,
    looked_at: Set[WrittenPartition],
    refusals: Mapping[tuple[str, int], AppendRefused],
    partition: Partition,
    records: Any,
    acks: int,
    version: int,
    walked: WalkedBytes,
    now_ms: int,
) -> AppendResult | WaitingAppend:
    """Appends a batch of a request that has waited for the coordinator. Nobody was asked for a partition that
    is hosted here only since then: its producer is to send again, and the coordinator is asked."""
    refusal = refusals.get((partition.topic, partition.index))
    if refusal is not None:
        raise refusal
    if partition not in looked_at and _first_of_producer(records) is not None:
        raise refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return append(partition, records, acks, version, walked, now_ms)


def _all_refused(request: ProduceRequest, error: ErrorCode, text: str | None) -> ProduceResponse:
    """Every partition of the request is refused, whatever else is to be said of it."""
    response = ProduceResponse(
        [
            TopicAnswer(
                topic.name,
                topic.topic_id,
                [Answer(asked.index, error, -1, error_message=text) for asked in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == ACKS_NONE:
        _close_if_failed(response)
    return response
