"""DescribeProducers (61): who wrote to a partition with sequence numbers, and whose transaction is open
there. KIP-664.

Version 0. Any replica answers, the leader is not needed. A producer is told of until it expires
(`producer.id.expiration.ms` after its last batch); an open transaction has its first offset, none has -1.

Needs READ on the topic. The errors of a topic carry a sentence, those of a partition none, as in Kafka.
"""

from __future__ import annotations

from typing import Protocol

from broker.services import HasMetadata, HasReplicas
from controller.metadata.topic_names import name_fault
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

TopicAnswer = DescribeProducersResponse.TopicResponse
PartitionAnswer = DescribeProducersResponse.PartitionResponse
Producer = DescribeProducersResponse.ProducerState


class ProducersServices(HasMetadata, HasReplicas, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: ProducersServices, context: RequestContext, request: DescribeProducersRequest
) -> Turns[DescribeProducersResponse]:
    for topic in request.topics:
        refusal = _refusal(services, context, topic.name)
        answers = []
        for index in topic.partition_indexes:
            answers.append(
                PartitionAnswer(index, *refusal) if refusal else _partition(services, topic.name, index)
            )
            yield None
        yield TopicAnswer(topic.name, answers)
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
    services: ProducersServices, name: str, index: int
) -> DescribeProducersResponse.PartitionResponse:
    hosted = services.replicas.partition(name, index)
    if isinstance(hosted, ErrorCode):
        return PartitionAnswer(index, hosted)
    producers = [
        Producer(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for entry in hosted.log.producer_state.entries()
    ]
    return PartitionAnswer(index, active_producers=producers)
