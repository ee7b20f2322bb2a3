"""Changes to the dynamic configs of topics, brokers, groups and client metrics. KIP-133, KIP-339.

Each resource of a request is decided on its own: it is changed as asked, or it is refused with a code and a
sentence and nothing of it changes. What is left of all resources goes into one batch of records, one for each
config that gets another value; null takes a config away::

    IncrementalAlterConfigs   SET, DELETE, APPEND, SUBTRACT on what is there
    AlterConfigs              what is named is set, what is not named goes

A config of a broker is written even if its value stays: brokers then look again at what it names (a key
store that was renewed under the same path).

With eligible leader replicas (KIP-966) `min.insync.replicas` is the cluster's: that of one broker cannot be
set, that of the cluster cannot be taken away. Where it changes, replicas that are eligible by the old one may
not be by the new one: the topic's eligible replicas are forgotten, or those of all topics. A partition whose
ISR is empty keeps its own: nobody writes to it, so they have all that is committed whatever a write takes,
and nobody else may lead it. (Apache Kafka forgets them too, and only an unclean election helps then.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from config.catalogue import BROKER, CLIENT_METRICS, GROUP, TOPIC
from config.definition import Definition
from config.errors import ConfigError, RefusedChange
from config.limits import CONFIG_VALUE_LENGTH, METADATA_RECORDS_PER_REQUEST
from config.list_changes import changed_list
from config.values import java_whole
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS
from controller.metadata.metadata_version import CORDONED_LEVEL, METADATA_VERSION_NAMES
from controller.metadata.policies import ConfigQuestion, Judge
from controller.metadata.resource_changes import (
    ConfigChangeResult,
    ConfigOperation,
    ResourceChange,
    too_large,
)
from controller.subjects.configs import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, ConfigRules
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.metadata_log.cluster import ConfigRecord
from protocol.metadata_log.topics import ClearElrRecord, PartitionChangeRecord

__all__ = ["alter_configs"]

CORDONED: Final = "cordoned.log.dirs"

_KNOWN: Final[Mapping[int, Mapping[str, Definition]]] = MappingProxyType(
    {
        ConfigResourceType.TOPIC: TOPIC,
        ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
        ConfigResourceType.GROUP: GROUP,
    }
)
"""The configs of the types of resources that have no others. A broker may have those of its plug-ins."""


def alter_configs(
    image: ClusterImage,
    resources: Sequence[ResourceChange],
    rules: ConfigRules,
    judge: Judge,
    *,
    validate_only: bool = False,
) -> Decision[list[ConfigChangeResult]]:
    """Outcomes in the order of `resources`, each of which is there once.

    judge: the operator's policy, asked last and about what is changed by name, not about what goes because a
    replacement does not name it.
    """
    records: list[Message] = []
    outcomes: list[ConfigChangeResult] = []
    for resource in resources:
        try:
            records += _alter(image, resource, rules, judge)
        except ControllerError as fault:
            outcomes.append(
                ConfigChangeResult(resource.kind, resource.name, fault.code, fault.message or None)
            )
        else:
            outcomes.append(ConfigChangeResult(resource.kind, resource.name, ErrorCode.NONE, None))
        if len(records) > METADATA_RECORDS_PER_REQUEST:
            return Decision((), too_large(resources))
    if image.features.level(ELIGIBLE_LEADER_REPLICAS):
        records += _forgotten_eligible(image, records)
        if len(records) > METADATA_RECORDS_PER_REQUEST:
            return Decision((), too_large(resources))
    return Decision([] if validate_only else records, outcomes)


def _forgotten_eligible(image: ClusterImage, records: Sequence[Message]) -> list[Message]:
    """The records that follow from changes of `min.insync.replicas`."""
    forgotten: list[Message] = []
    for record in records:
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS:
            is_topic = record.resource_type == ConfigResourceType.TOPIC
            name = record.resource_name if is_topic else ""
            forgotten.append(ClearElrRecord(topic_name=name))
            forgotten += _kept_where_none_is_in_sync(image, name)
    return forgotten


def _kept_where_none_is_in_sync(image: ClusterImage, topic_name: str) -> list[Message]:
    """Gives back to partitions without an ISR what is forgotten of them. The topic exists; an empty name
    means all of them."""
    by_name = image.topics.by_name
    topics = [by_name[topic_name]] if topic_name else by_name.values()
    return [
        PartitionChangeRecord(
            index,
            topic.id,
            eligible_leader_replicas=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
        )
        for topic in topics
        for index, partition in topic.partitions.items()
        if not partition.isr and (partition.elr or partition.last_known_elr)
    ]


def _alter(
    image: ClusterImage,
    resource: ResourceChange,
    rules: ConfigRules,
    judge: Judge,
) -> list[Message]:
    kind, name = resource.kind, resource.name
    before = _stored(image, kind, name)
    altered = _altered(resource, before)
    gone = [key for key in before if key not in altered] if resource.replaces else []
    _check_min_insync_replicas(image, kind, name, altered, gone)
    if kind == ConfigResourceType.BROKER and (CORDONED in altered or CORDONED in gone):
        _check_cordoned(image)
    after = dict(before)
    for key in gone:
        del after[key]
    for key, value in altered.items():
        if value is None:
            after.pop(key, None)
        elif len(value.encode()) > CONFIG_VALUE_LENGTH:  # a list may have been lengthened
            raise ControllerError(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{CONFIG_VALUE_LENGTH} bytes.",
            )
        else:
            after[key] = value
    try:
        rules.validate(image, kind, name, after)
    except RefusedChange as refused:
        raise ControllerError(ErrorCode.INVALID_REQUEST, str(refused)) from refused
    except ConfigError as fault:
        raise ControllerError(ErrorCode.INVALID_CONFIG, str(fault)) from fault
    _check_existence(image, kind, name)
    written = altered if kind == ConfigResourceType.BROKER else _differing(altered, before)
    verdict = judge(ConfigQuestion(ConfigResourceType(kind).name, name, tuple(written.items())))
    if verdict is not None:
        raise ControllerError(verdict.code, verdict.message)
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in [*written.items(), *((key, None) for key in gone)]
    ]


def _stored(image: ClusterImage, kind: int, name: str) -> Mapping[str, str]:
    """The configs that are set for the resource. Those of a name that this release does not know are passed
    over: another release has stored them, they stay in the image, and they forbid no other change."""
    stored = image.configs.of(kind, name)
    known = _KNOWN.get(kind)
    return stored if known is None else {key: value for key, value in stored.items() if key in known}


def _differing(altered: Mapping[str, str | None], before: Mapping[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in altered.items() if value != before.get(key)}


def _altered(resource: ResourceChange, before: Mapping[str, str]) -> dict[str, str | None]:
    """The new value of each config that is named; None for one that is removed."""
    altered: dict[str, str | None] = {}
    for key, operation, value in resource.changes:
        if operation == ConfigOperation.SET:
            altered[key] = value
        elif operation == ConfigOperation.DELETE:
            altered[key] = None
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            word = ConfigOperation(operation).name
            try:
                altered[key] = changed_list(
                    _definition(resource.kind, key), key, before.get(key), value or "", word
                )
            except ConfigError as fault:
                raise ControllerError(ErrorCode.INVALID_CONFIG, str(fault)) from fault
        else:
            raise ControllerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return altered


def _definition(kind: int, name: str) -> Definition | None:
    """The definition of a config of a topic or broker, whose list APPEND and SUBTRACT may change; None for
    others."""
    if kind == ConfigResourceType.TOPIC:
        return TOPIC.get(name)
    return BROKER.get(name) if kind == ConfigResourceType.BROKER else None


def _check_min_insync_replicas(
    image: ClusterImage, kind: int, name: str, altered: Mapping[str, str | None], gone: Sequence[str]
) -> None:
    if kind != ConfigResourceType.BROKER or not image.features.level(ELIGIBLE_LEADER_REPLICAS):
        return
    if name != CLUSTER_DEFAULT and MIN_INSYNC_REPLICAS in altered:
        raise ControllerError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.",
        )
    removed = altered.get(MIN_INSYNC_REPLICAS, "") is None or MIN_INSYNC_REPLICAS in gone
    if name == CLUSTER_DEFAULT and removed:
        raise ControllerError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )


def _check_cordoned(image: ClusterImage) -> None:
    if image.features.metadata_version < CORDONED_LEVEL:
        raise ControllerError(
            ErrorCode.INVALID_CONFIG,
            f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= "
            f"{METADATA_VERSION_NAMES[CORDONED_LEVEL]}",
        )


def _check_existence(image: ClusterImage, kind: int, name: str) -> None:
    """Raises if a topic or a single node does not exist. Groups and client metrics subscriptions may be
    created later."""
    if kind == ConfigResourceType.TOPIC and name not in image.topics.by_name:
        raise ControllerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if kind == ConfigResourceType.BROKER and name != CLUSTER_DEFAULT:
        node_id = java_whole(name)
        if node_id not in image.brokers.by_id and node_id not in image.controllers.by_id:
            raise ControllerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")
