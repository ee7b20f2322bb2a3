"""CreatePartitions: topics get more partitions, never fewer (KIP-195).

Each topic of a request has its own answer. New partitions have as many replicas as partition 0 has, those of
a reassignment that is under way included, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from config.limits import PARTITIONS_PER_CREATE_REQUEST
from config.ports import RandomSource
from controller.metadata.image.cluster_image import ClusterImage
from controller.subjects.mutation_quota import MutationQuota
from controller.subjects.placement import bad_assignment, check_led, check_replicas, new_partition, place
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

__all__ = ["create_partitions"]

Topic = CreatePartitionsRequest.CreatePartitionsTopic
Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def create_partitions(
    image: ClusterImage,
    request: CreatePartitionsRequest,
    may_alter: Callable[[str], bool],
    random_source: RandomSource,
    quota: MutationQuota,
) -> Decision[CreatePartitionsResponse]:
    """may_alter: the caller's right on a topic of that name. A name that stands twice is answered once.
    quota: of partitions that the client may create."""
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _refusal(name, ControllerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    records: list[Message] = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        try:
            if not may_alter(topic.name):
                raise ControllerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            added = _grow(image, topic, PARTITIONS_PER_CREATE_REQUEST - len(records), random_source)
            quota.take(len(added))
        except ControllerError as fault:
            results.append(_refusal(topic.name, fault))
        else:
            records += added
            results.append(Result(name=topic.name))
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _refusal(name: str, fault: ControllerError) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    """The result of a refused topic. Kafka sends no message where it is only the default text of the error
    code."""
    message = None if fault.message in ("", fault.code.message) else fault.message
    return Result(name=name, error_code=fault.code, error_message=message)


def _grow(
    image: ClusterImage,
    topic: CreatePartitionsRequest.CreatePartitionsTopic,
    limit: int,
    random_source: RandomSource,
) -> list[Message]:
    existing = image.topics.by_name.get(topic.name)
    if existing is None:
        raise ControllerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(existing.partitions)
    if topic.count == present:
        raise ControllerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise ControllerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an "
            "increase.",
        )
    additional = topic.count - present
    assignments = topic.assignments
    if assignments is not None and len(assignments) != additional:
        raise bad_assignment(
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    if additional > limit:
        # The metadata log takes no larger batch. Kafka answers the same, and writes a part of it.
        raise ControllerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    factor = len(existing.partitions[0].replicas)
    if assignments is None:
        replicas = place(image, additional, factor, random_source)
    else:
        replicas = [assignment.broker_ids for assignment in assignments]
        for index, brokers in enumerate(replicas, present):
            check_replicas(image, brokers, factor)
            check_led(image, index, brokers)
    return [
        new_partition(image, existing.id, index, brokers) for index, brokers in enumerate(replicas, present)
    ]
