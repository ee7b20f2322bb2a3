"""DescribeConfigs (32): the configuration in force, where each value comes from, and what it does. KIP-133,
KIP-226.

Versions 1-4. 1: synonyms and the source of a value; 2: throttled after the answer; 3: types and
documentation; 4: flexible.

Resources: topics (2), brokers (4), brokers' loggers (8), client metrics subscriptions (16), groups (32). A
broker answers for itself and, under the empty name, for the dynamic defaults of all brokers; asked for
another broker it refuses, since it does not know that one's file. Values of secrets are null.

Needs DESCRIBE_CONFIGS on the topic or group, on the cluster for all else. The loggers are this process's own,
by the names in its log, with the level in force; `root` stands above all.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, Protocol

from broker.services import HasConfig, HasLoggers, HasMetadata, HasNodeId
from config.describe import (
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from config.errors import InvalidValue
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.topic_names import name_fault
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

Result = DescribeConfigsResponse.DescribeConfigsResult
Row = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym
Resource = DescribeConfigsRequest.DescribeConfigsResource

_KINDS: Final = tuple(kind for kind in ConfigResourceType if kind != ConfigResourceType.UNKNOWN)
_CLUSTER_WIDE: Final = (
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
)
_DENIED: Final = MappingProxyType(
    {
        ConfigResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ConfigResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
)


class DescribeConfigsServices(HasNodeId, HasConfig, HasMetadata, HasLoggers, Protocol):
    """What this handler needs of the broker's services."""


class Refused(Exception):
    """A resource that cannot be described, with the code and the words for it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message
        super().__init__(self.message)


@in_turns
def handle(
    services: DescribeConfigsServices, context: RequestContext, request: DescribeConfigsRequest
) -> Turns[DescribeConfigsResponse]:
    if any(resource.resource_type not in _KINDS for resource in request.resources):
        # Kafka drops the whole request then, and says of each resource the same.
        code = ErrorCode.INVALID_REQUEST
        for each in request.resources:
            yield Result(code, code.message, each.resource_type, each.resource_name)
        return DescribeConfigsResponse()
    for resource in request.resources:
        try:
            rows = _describe(services, context, resource)
        except Refused as refusal:
            yield Result(refusal.code, refusal.message, resource.resource_type, resource.resource_name)
            continue
        configs = [_row(row, request) for row in rows]
        yield Result(0, "", resource.resource_type, resource.resource_name, configs)
    return DescribeConfigsResponse()


def _describe(
    services: DescribeConfigsServices,
    context: RequestContext,
    resource: DescribeConfigsRequest.DescribeConfigsResource,
) -> list[DescribedConfig]:
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    _authorize(context, kind, name)
    overrides = services.metadata.image.configs.of(kind, name)
    try:
        if kind == ConfigResourceType.TOPIC:
            fault = name_fault(name)
            if fault is not None:
                raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
            if services.metadata.topic(name) is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return describe_topic(services.config, overrides, keys)
        if kind == ConfigResourceType.BROKER:
            return _describe_broker(services, name, keys)
        if kind == ConfigResourceType.GROUP:
            _require_name(name, "Group name must not be empty")
            return describe_group(services.config, overrides, keys)
        if kind == ConfigResourceType.CLIENT_METRICS:
            _require_name(name, "Client metrics subscription name must not be empty")
            return describe_client_metrics(overrides, keys)
    except InvalidValue as invalid:
        raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from invalid
    _require_name(name, "Broker id must not be empty")
    _require_own_id(services, name, "")
    return describe_loggers(services.loggers, keys)


def _describe_broker(
    services: DescribeConfigsServices, name: str, keys: Sequence[str] | None
) -> list[DescribedConfig]:
    if name == "":
        return describe_cluster_default(services.config, keys)
    _require_own_id(services, name, " or empty string,")
    return describe_broker(services.config, keys)


def _require_name(name: str, message: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, message)


def _require_own_id(services: DescribeConfigsServices, name: str, alternative: str) -> None:
    """A broker speaks for itself only."""
    try:
        broker_id = int(name)
    except ValueError:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != services.node_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.node_id}{alternative} but received {name}",
        )


def _authorize(context: RequestContext, kind: int, name: str) -> None:
    if kind in _CLUSTER_WIDE:
        if not context.allows_cluster(Operation.DESCRIBE_CONFIGS):
            raise Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif kind == ConfigResourceType.TOPIC:
        if not context.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            raise Refused(_DENIED[ConfigResourceType.TOPIC])
    elif not context.allows(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name):
        raise Refused(_DENIED[ConfigResourceType.GROUP])


def _row(
    row: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    synonyms = (
        [Synonym(synonym.name, synonym.value, synonym.source) for synonym in row.synonyms]
        if request.include_synonyms
        else []
    )
    return Row(
        row.name,
        row.value,
        row.read_only,
        row.source,
        row.sensitive,
        synonyms,
        row.type,
        row.documentation if request.include_documentation else None,
    )
