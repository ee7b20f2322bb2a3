"""A leader asks transaction coordinators before it takes the first batch of a transaction. KIP-890.

    a batch, an offset commit ──► the coordinator of the transactional id ──► AddPartitionsToTxn ──► answers

One request at a time is under way to each broker, with all that waits for it then, but with one question per
transactional id at most: an answer names nothing else, and a zombie may have the transactional id of the
producer that has replaced it. For producers of version 2 of transactions the partitions are added, for older
ones it is only asked whether they belong to the transaction. What one producer asks is asked in its order,
and one question at a time, because the batches that wait for the answers must come into the log in that
order.

The marker of a producer's last transaction may still be on its way when the first batch of the next one
comes: such an answer (CONCURRENT_TRANSACTIONS) is waited out for a moment, for producers of version 2. Where
the marker comes while the question is under way nobody can tell which transaction the answer is about, and
the coordinator is asked once more.

What an error becomes:

    no coordinator                      COORDINATOR_NOT_AVAILABLE
    no answer                           NETWORK_EXCEPTION
    CLUSTER_AUTHORIZATION_FAILED        INVALID_TXN_STATE: the producer cannot help it
    PRODUCER_FENCED                     INVALID_PRODUCER_EPOCH
    TRANSACTION_ABORTABLE               INVALID_TXN_STATE for those that do not know it

Pure: who coordinates, how a request leaves, and time are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Final, Protocol

import msgspec

from broker.coordinator.transaction.transaction_markers import NO_LEADER, BrokerChannel
from broker.coordinator.transaction.transaction_metadata import TopicPartition
from broker.coordinator.transaction.transaction_records import partitions_by_topic
from config.ports import Clock, Timers
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

PARTITIONS_PER_REQUEST: Final = 2_000
"""The number of partitions in a request from which on the others wait for the next request."""

__all__ = ["PartitionVerification", "Producer", "Support", "VerificationSettings"]

Errors = Mapping[TopicPartition, ErrorCode]
OnErrors = Callable[[Errors], None]
IsOutdated = Callable[[Errors], bool]
"""Returns whether a marker has come to a partition that was confirmed since it was looked at."""


class Support(IntEnum):
    """What a producer understands, by the version of its request."""

    OLD_ERRORS = 0
    """The producer knows neither TRANSACTION_ABORTABLE nor partitions that join a transaction by a write."""
    ABORTABLE = 1
    ADDS_PARTITIONS = 2


class Producer(msgspec.Struct, frozen=True):
    """The producer of the transaction."""

    transactional_id: str
    producer_id: int
    epoch: int


class VerificationSettings(msgspec.Struct, frozen=True):
    """The broker configs of the same names."""

    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    request_timeout_ms: int = 30_000


class Coordinators(Protocol):
    """Knows the coordinators of transactional ids."""

    def coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates an id; -1 or None if there is none now."""
        ...


class _Question(msgspec.Struct, eq=False):
    producer: Producer
    look: Callable[[], Collection[TopicPartition]]
    partitions: Collection[TopicPartition]
    """The partitions that `look` returned when it was called last."""
    support: Support
    until_ms: int
    """The monotonic time until which the answer CONCURRENT_TRANSACTIONS is followed by another attempt."""
    is_outdated: IsOutdated
    on_errors: OnErrors


class PartitionVerification:
    """The questions for all producers that write to this broker."""

    def __init__(
        self,
        settings: VerificationSettings,
        *,
        coordinators: Coordinators,
        channel: BrokerChannel,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._settings = settings
        self._coordinators = coordinators
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._of_producer: dict[int, deque[_Question]] = {}
        """The questions by producer id. The first one has been asked, the others wait for its answer."""
        self._waiting: dict[int, list[_Question]] = {}
        """The questions by broker that wait for the request that is under way to it."""
        self._busy: set[int] = set()

    def is_busy(self, producer_id: int) -> bool:
        """Whether a question for the producer is not answered yet."""
        return producer_id in self._of_producer

    def ask(
        self,
        producer: Producer,
        look: Callable[[], Collection[TopicPartition]],
        support: Support,
        is_outdated: IsOutdated,
        on_errors: OnErrors,
    ) -> None:
        """Calls `on_errors` once, not before this returns: with the partitions that do not belong to the
        transaction.

        look: returns the partitions to ask for. It is called when all earlier questions for the producer are
        answered, and whenever the coordinator is asked again. Nothing is asked if there are none any more.
        """
        settings = self._settings
        patience_ms = min(settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms)
        until_ms = self._clock.monotonic_ms() + patience_ms
        question = _Question(producer, look, (), support, until_ms, is_outdated, on_errors)
        waiting = self._of_producer.setdefault(producer.producer_id, deque())
        waiting.append(question)
        if len(waiting) == 1:
            self._timers.call_soon(lambda: self._put(question))

    def _put(self, question: _Question) -> None:
        """Asks the coordinator, now or when it has answered the request before."""
        question.partitions = question.look()
        if not question.partitions:
            self._answered(question, {})
            return
        broker_id = self._coordinators.coordinator(question.producer.transactional_id)
        if broker_id is None or broker_id == NO_LEADER:
            self._answered(question, dict.fromkeys(question.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        self._waiting.setdefault(broker_id, []).append(question)
        if broker_id not in self._busy:
            self._send(broker_id)

    def _send(self, broker_id: int) -> None:
        waiting = self._waiting.pop(broker_id, [])
        if not waiting:
            return
        chosen: dict[str, _Question] = {}
        later: list[_Question] = []
        partitions = 0
        for question in waiting:
            transactional_id = question.producer.transactional_id
            if transactional_id in chosen or partitions >= PARTITIONS_PER_REQUEST:
                later.append(question)
            else:
                chosen[transactional_id] = question
                partitions += len(question.partitions)
        questions = list(chosen.values())
        if later:
            self._waiting[broker_id] = later
        self._busy.add(broker_id)
        request = AddPartitionsToTxnRequest(transactions=[_asked(question) for question in questions])
        self._channel.send(broker_id, request, lambda response: self._take(broker_id, questions, response))

    def _take(self, broker_id: int, questions: list[_Question], response: Message | None) -> None:
        self._busy.discard(broker_id)
        for question in questions:
            self._answered(question, _errors(question, response))
        if broker_id not in self._busy:
            self._send(broker_id)

    def _answered(self, question: _Question, errors: Errors) -> None:
        settings = self._settings
        if (
            question.support is Support.ADDS_PARTITIONS
            and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            and self._clock.monotonic_ms() < question.until_ms
        ):
            at_ms = self._clock.monotonic_ms() + settings.add_partitions_to_txn_retry_backoff_ms
            self._timers.call_at(at_ms, lambda: self._put(question))
            return
        if question.is_outdated(errors):
            self._put(question)
            return
        waiting = self._of_producer[question.producer.producer_id]
        waiting.popleft()
        if waiting:
            following = waiting[0]
            self._timers.call_soon(lambda: self._put(following))
        else:
            del self._of_producer[question.producer.producer_id]
        question.on_errors(errors)


def _asked(question: _Question) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    producer = question.producer
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=question.support is not Support.ADDS_PARTITIONS,
        topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, indexes)
            for topic, indexes in partitions_by_topic(question.partitions).items()
        ],
    )


def _errors(question: _Question, response: Message | None) -> Errors:
    """The errors for the producer in the coordinator's answer; empty if there are none."""
    if not isinstance(response, AddPartitionsToTxnResponse):
        return dict.fromkeys(question.partitions, ErrorCode.NETWORK_EXCEPTION)
    if response.error_code:
        error = _told(ErrorCode.of(response.error_code), question.support)
        return dict.fromkeys(question.partitions, error)
    told = {
        (topic.name, each.partition_index): each.partition_error_code
        for result in response.results_by_transaction
        if result.transactional_id == question.producer.transactional_id
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    errors: dict[TopicPartition, ErrorCode] = {}
    for partition in question.partitions:
        code = told.get(partition, ErrorCode.NETWORK_EXCEPTION)
        if code:
            errors[partition] = _told(ErrorCode.of(code), question.support)
    return errors


def _told(error: ErrorCode, support: Support) -> ErrorCode:
    """The coordinator's error in the form that the producer knows."""
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is Support.OLD_ERRORS:
        return ErrorCode.INVALID_TXN_STATE
    return error
