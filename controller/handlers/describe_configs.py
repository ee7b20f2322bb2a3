"""DescribeConfigs (32) at a controller: its own configs, the cluster's defaults, and those of topics and
groups, and the levels of its loggers.

Versions 1-4. 3 brings type and documentation. A broker resource must name this node or nobody (""); the
answers come from the committed image and this node's own file. KIP-133, KIP-226, KIP-569.

Authorization: DESCRIBE_CONFIGS on the cluster for nodes, loggers and client metrics, on the topic or group
for these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from config.broker_config import BrokerConfig
from config.describe import (
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.topic_names import name_fault
from controller.services import ControllerServices
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

Resource = DescribeConfigsRequest.DescribeConfigsResource
Result = DescribeConfigsResponse.DescribeConfigsResult
Row = DescribeConfigsResponse.DescribeConfigsResourceResult

_DESCRIBE: Final = Operation.DESCRIBE_CONFIGS


@in_turns
def handle(
    services: ControllerServices, context: RequestContext, request: DescribeConfigsRequest
) -> Turns[DescribeConfigsResponse]:
    image = services.controller.image
    for resource in request.resources:
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            rows = _describe(services, context, image, resource)
            result.configs = [_row(row, request) for row in rows]
        except ControllerError as fault:
            result.error_code = fault.code
            result.error_message = fault.message
        yield result
    return DescribeConfigsResponse()


def _describe(
    services: ControllerServices, context: RequestContext, image: ClusterImage, resource: Resource
) -> Sequence[DescribedConfig]:
    kind, name = resource.resource_type, resource.resource_name
    config = services.controller.rules.in_force(image.configs)
    own = image.configs.of(kind, name)
    if kind == ConfigResourceType.TOPIC:
        _require(context.allows(_DESCRIBE, ResourceType.TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        _check_topic(image, name)
        return describe_topic(config, own, resource.configuration_keys)
    if kind == ConfigResourceType.GROUP:
        _require(context.allows(_DESCRIBE, ResourceType.GROUP, name), ErrorCode.GROUP_AUTHORIZATION_FAILED)
        _require(bool(name), ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(config, own, resource.configuration_keys)
    _require(context.allows_cluster(_DESCRIBE), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if kind == ConfigResourceType.BROKER:
        return _broker(config, name)(config, resource.configuration_keys)
    if kind == ConfigResourceType.CLIENT_METRICS:
        _require(bool(name), ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(own, resource.configuration_keys)
    if kind == ConfigResourceType.BROKER_LOGGER:
        _require(bool(name), ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_node(config, name, "")
        return describe_loggers(services.loggers, resource.configuration_keys)
    raise ControllerError(ErrorCode.INVALID_REQUEST)


def _require(holds: bool, error: ErrorCode, message: str | None = None) -> None:
    if not holds:
        raise ControllerError(error, message)


def _check_topic(image: ClusterImage, name: str) -> None:
    fault = name_fault(name)
    if fault is not None:
        raise ControllerError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name not in image.topics.by_name:
        raise ControllerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")


Describe = Callable[[BrokerConfig, Sequence[str] | None], list[DescribedConfig]]


def _broker(config: BrokerConfig, name: str) -> Describe:
    if not name:
        return describe_cluster_default
    _check_node(config, name, " or empty string,")
    return describe_broker


def _check_node(config: BrokerConfig, name: str, alternative: str) -> None:
    if not name.removeprefix("-").isdecimal():
        raise ControllerError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != config.node_id:
        raise ControllerError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {config.node_id}{alternative} but received {name}",
        )


def _row(row: DescribedConfig, request: DescribeConfigsRequest) -> Row:
    synonyms = row.synonyms if request.include_synonyms else ()
    return Row(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=int(row.source),
        is_sensitive=row.sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(name=s.name, value=s.value, source=int(s.source))
            for s in synonyms
        ],
        config_type=int(row.type),
        documentation=row.documentation if request.include_documentation else None,
    )
