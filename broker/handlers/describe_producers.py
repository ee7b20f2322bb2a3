"""DescribeProducers (61): who wrote to a partition with sequence numbers, and whose transaction is open
there. KIP-664.

Version 0. Any replica answers, the leader is not needed. A producer is told of until it expires
(`producer.id.expiration.ms` after its last batch); an open transaction has its first offset, none has -1.

A partition that is named again and again is looked at once for each time that its topic is named. An answer
with more than `PRODUCERS_PER_ANSWER` producers is too long.

Needs READ on the topic. The errors of a topic carry a sentence, those of a partition none, as in Kafka.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.services import HasMetadata, HasReplicas
from config.limits import PRODUCERS_PER_ANSWER
from controller.metadata.topic_names import name_fault
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import AnswerTooLong
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns
from storage.producer_state import ProducerEntry

TopicAnswer = DescribeProducersResponse.TopicResponse
PartitionAnswer = DescribeProducersResponse.PartitionResponse
Producer = DescribeProducersResponse.ProducerState

_PRODUCERS_AT_ONCE: Final = 500
"""The number of producers that are told of in less than a millisecond."""


class ProducersServices(HasMetadata, HasReplicas, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: ProducersServices, context: RequestContext, request: DescribeProducersRequest
) -> Turns[DescribeProducersResponse]:
    told = 0
    for topic in request.topics:
        refusal = _refusal(services, context, topic.name)
        answers: dict[int, DescribeProducersResponse.PartitionResponse] = {}
        for index in topic.partition_indexes:
            if index not in answers:
                if refusal is None:
                    answers[index] = yield from _partition(services, topic.name, index, told)
                    told += len(answers[index].active_producers)
                else:
                    answers[index] = PartitionAnswer(index, *refusal)
            yield None
        yield TopicAnswer(topic.name, [answers[index] for index in topic.partition_indexes])
    return DescribeProducersResponse()


def _refusal(services: ProducersServices, context: RequestContext, name: str) -> tuple[ErrorCode, str] | None:
    """Error and sentence for all partitions of the topic; None if they may be looked at."""
    fault = name_fault(name)
    if fault is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, fault
    if not context.allows(Operation.READ, ResourceType.TOPIC, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif services.metadata.topic(name) is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        return None
    return error, error.message


def _partition(
    services: ProducersServices, name: str, index: int, told: int
) -> Turns[DescribeProducersResponse.PartitionResponse]:
    """The producers of a partition. told: how many the answer has already; raises AnswerTooLong before there
    are too many."""
    hosted = services.replicas.partition(name, index)
    if isinstance(hosted, ErrorCode):
        return PartitionAnswer(index, hosted)
    entries = list(hosted.log.producer_state.entries())
    if told + len(entries) > PRODUCERS_PER_ANSWER:
        most = f"more than {PRODUCERS_PER_ANSWER} producers"
        raise AnswerTooLong(f"the answer to a DescribeProducers request would have {most}")
    producers: list[DescribeProducersResponse.ProducerState] = []
    for start in range(0, len(entries), _PRODUCERS_AT_ONCE):
        producers += map(_producer, entries[start : start + _PRODUCERS_AT_ONCE])
        yield None
    return PartitionAnswer(index, active_producers=producers)


def _producer(entry: ProducerEntry) -> DescribeProducersResponse.ProducerState:
    return Producer(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )
