"""Creation and deletion of topics.

Each topic of a request has its own answer, and a topic with a fault leaves no record. All other records go
into one batch, so a topic never exists in part.

::

    CreateTopics:  TopicRecord, ConfigRecord*, PartitionRecord*      per topic
    DeleteTopics:  RemoveTopicRecord                                 replay takes partitions and configs too

A topic is deleted when the record is committed. Brokers remove the data when they replay it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from config.errors import some_of
from config.limits import METADATA_RECORDS_PER_REQUEST, PARTITIONS_PER_CREATE_REQUEST
from config.ports import RandomSource
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.policies import ConfigQuestion, Judge, PolicyQuestion, TopicQuestion
from controller.metadata.random_ids import random_uuid
from controller.metadata.topic_names import METADATA_TOPIC, Collisions, name_fault
from controller.subjects.configs import ConfigRules
from controller.subjects.mutation_quota import MutationQuota
from controller.subjects.placement import bad_assignment, check_led, check_replicas, new_partition, place
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.metadata_log.cluster import ConfigRecord
from protocol.metadata_log.topics import RemoveTopicRecord, TopicRecord
from protocol.refusals import TOO_LARGE

__all__ = ["CreationRules", "create_topics", "delete_topics", "new_topic_id"]

UNSET: Final = -1

Result = CreateTopicsResponse.CreatableTopicResult

_DUPLICATE: Final = ControllerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
_METADATA_LOG: Final = ControllerError(
    ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
)


class CreationRules(msgspec.Struct, frozen=True):
    """The settings of this controller for the creation of topics.

    may_create and may_describe_configs: the principal's rights on a topic name. judge: the operator's own
    policies, asked about what is valid otherwise. quota: of partitions that the client may create.
    """

    default_partitions: int
    default_replication_factor: int
    configs: ConfigRules
    may_create: Callable[[str], bool]
    may_describe_configs: Callable[[str], bool]
    judge: Judge
    quota: MutationQuota


def new_topic_id(random_source: RandomSource, image: ClusterImage) -> bytes:
    """A random UUID that no existing topic has as its id."""
    while True:
        candidate = random_uuid(random_source)
        if candidate not in image.topics.by_id:
            return candidate


def create_topics(
    image: ClusterImage, request: CreateTopicsRequest, rules: CreationRules, random_source: RandomSource
) -> Decision[CreateTopicsResponse]:
    """Creates topics. The response has Kafka's order: first the topics that were decided, in the order of the
    request, then names that stand there more than once, answered once, then those that may not be created."""
    counts = Counter(topic.name for topic in request.topics)
    wanted, prohibited = [], []
    duplicates = [_refusal(name, _DUPLICATE) for name, count in counts.items() if count > 1]
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        if topic.name == METADATA_TOPIC:
            prohibited.append(_refusal(topic.name, _METADATA_LOG))
        elif not rules.may_create(topic.name):
            fault = ControllerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            prohibited.append(_refusal(topic.name, fault))
        else:
            wanted.append(topic)
    results: list[Result] = []
    records: list[Message] = []
    if sum(_partition_count(topic, rules) for topic in wanted) > PARTITIONS_PER_CREATE_REQUEST:
        results = _refuse_all(wanted, "Excessively large number of partitions per request.")
        wanted = []
    collisions = Collisions(image.topics.by_name)
    for topic in wanted:
        try:
            topic_records, result = _create(image, topic, rules, random_source, collisions)
            records += topic_records
        except ControllerError as fault:
            result = _refusal(topic.name, fault)
        results.append(result)
        if len(records) > METADATA_RECORDS_PER_REQUEST:
            records, results = [], _refuse_all(wanted, TOO_LARGE)
            break
    answers = [*results, *duplicates, *prohibited]
    return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=answers))


def _partition_count(topic: CreateTopicsRequest.CreatableTopic, rules: CreationRules) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return rules.default_partitions if topic.num_partitions == UNSET else max(topic.num_partitions, 0)


def _refuse_all(topics: Sequence[CreateTopicsRequest.CreatableTopic], sentence: str) -> list[Result]:
    fault = ControllerError(ErrorCode.POLICY_VIOLATION, sentence)
    return [_refusal(topic.name, fault) for topic in topics]


def _refusal(name: str, fault: ControllerError) -> Result:
    return Result(name=name, error_code=fault.code, error_message=fault.message or None)


def _create(
    image: ClusterImage,
    topic: CreateTopicsRequest.CreatableTopic,
    rules: CreationRules,
    random_source: RandomSource,
    collisions: Collisions,
) -> tuple[list[Message], Result]:
    if topic.name in image.topics.by_name:
        raise ControllerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    sentence = name_fault(topic.name)
    if sentence is not None:
        raise ControllerError(ErrorCode.INVALID_TOPIC_EXCEPTION, sentence)
    other = collisions.of(topic.name)
    if other is not None:
        raise ControllerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}"
        )
    configs = _configs(image, topic, rules)
    if configs:
        _ask(rules, ConfigQuestion("TOPIC", topic.name, tuple(configs.items())))
    replicas = _replicas(image, topic, rules, random_source)
    _ask(rules, _question(topic, configs, replicas))
    rules.quota.take(len(replicas))
    topic_id = new_topic_id(random_source, image)
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    for name, value in configs.items():
        records.append(
            ConfigRecord(
                resource_type=ConfigResourceType.TOPIC, resource_name=topic.name, name=name, value=value
            )
        )
    for index, brokers in enumerate(replicas):
        records.append(new_partition(image, topic_id, index, brokers))
    result = Result(name=topic.name, topic_id=topic_id, error_message=None)
    if rules.may_describe_configs(topic.name):
        result.num_partitions = len(replicas)
        result.replication_factor = len(replicas[0])
        result.configs = rules.configs.effective_topic_configs(image.configs, configs)
    else:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return records, result


def _ask(rules: CreationRules, question: PolicyQuestion) -> None:
    verdict = rules.judge(question)
    if verdict is not None:
        raise ControllerError(verdict.code, verdict.message)


def _question(
    topic: CreateTopicsRequest.CreatableTopic, configs: Mapping[str, str], replicas: list[list[int]]
) -> TopicQuestion:
    own = tuple(configs.items())
    if topic.assignments:
        assigned = tuple((index, tuple(brokers)) for index, brokers in enumerate(replicas))
        return TopicQuestion(topic.name, None, None, assigned, own)
    return TopicQuestion(topic.name, len(replicas), len(replicas[0]), None, own)


def _configs(
    image: ClusterImage, topic: CreateTopicsRequest.CreatableTopic, rules: CreationRules
) -> dict[str, str]:
    """The topic's own configs, checked; the last of several values of one name counts."""
    configs: dict[str, str] = {}
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise ControllerError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {some_of(nulls)}"
        )
    for config in topic.configs:
        configs[config.name] = config.value or ""
    sentence = rules.configs.topic_config_fault(image.configs, configs)
    if sentence is not None:
        raise ControllerError(ErrorCode.INVALID_CONFIG, sentence)
    return configs


def _replicas(
    image: ClusterImage,
    topic: CreateTopicsRequest.CreatableTopic,
    rules: CreationRules,
    random_source: RandomSource,
) -> list[list[int]]:
    if topic.assignments:
        return _assigned(image, topic)
    if topic.replication_factor < UNSET or topic.replication_factor == 0:
        raise ControllerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < UNSET or topic.num_partitions == 0:
        raise ControllerError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    factor = topic.replication_factor
    factor = rules.default_replication_factor if factor == UNSET else factor
    try:
        return place(image, _partition_count(topic, rules), factor, random_source)
    except ControllerError as fault:
        sentence = f"Unable to replicate the partition {factor} time(s): {fault.message}"
        raise ControllerError(fault.code, sentence) from fault


def _assigned(image: ClusterImage, topic: CreateTopicsRequest.CreatableTopic) -> list[list[int]]:
    """The manual assignment of a new topic. Its faults are found in the same order as in Kafka."""
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != UNSET:
        raise ControllerError(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != UNSET:
        raise ControllerError(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    by_index: dict[int, list[int]] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in by_index:
            raise bad_assignment(
                f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            )
        check_replicas(image, assignment.broker_ids, factor)
        check_led(image, assignment.partition_index, assignment.broker_ids)
        by_index[assignment.partition_index] = assignment.broker_ids
        factor = len(assignment.broker_ids)
    if sorted(by_index) != list(range(len(by_index))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [by_index[index] for index in range(len(by_index))]


def delete_topics(
    image: ClusterImage, topic_ids: Sequence[bytes], quota: MutationQuota
) -> Decision[dict[bytes, ErrorCode]]:
    """Deletes topics. Returns the outcome by topic id, UNKNOWN_TOPIC_ID for one that does not exist, or not
    any more. quota: of partitions that the client may delete."""
    outcome: dict[bytes, ErrorCode] = {}
    records: list[Message] = []
    for topic_id in topic_ids:
        if topic_id not in image.topics.by_id:
            outcome[topic_id] = ErrorCode.UNKNOWN_TOPIC_ID
        elif topic_id not in outcome:
            try:
                quota.take(len(image.topics.by_id[topic_id].partitions))
            except ControllerError as fault:
                outcome[topic_id] = fault.code
                continue
            outcome[topic_id] = ErrorCode.NONE
            records.append(RemoveTopicRecord(topic_id=topic_id))
    return Decision(records, outcome)
