"""How DescribeConfigs is answered, by brokers and controllers alike; in Kafka this is `ConfigHelper`.

Both know the configs that the metadata log holds, and the config file of their own node. So a node describes
topics, groups, client metrics subscriptions, the dynamic defaults of all brokers (the broker named ""), and
itself with its loggers; a resource of another node is refused.

DESCRIBE_CONFIGS is needed on the topic or group, and on the cluster for everything else.
"""

from __future__ import annotations

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
from config.errors import InvalidValue
from config.log_levels import Loggers
from config.values import java_whole
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.topic_names import name_fault
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns

__all__ = ["ResourceDescriber"]

Resource = DescribeConfigsRequest.DescribeConfigsResource
Result = DescribeConfigsResponse.DescribeConfigsResult
Row = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym

_KINDS: Final = tuple(kind for kind in ConfigResourceType if kind != ConfigResourceType.UNKNOWN)
_DESCRIBE: Final = Operation.DESCRIBE_CONFIGS


class _NotDescribed(Exception):
    """A resource cannot be described. Holds the error of its result."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message
        super().__init__(self.message)


class ResourceDescriber:
    """Describes resources by one image. config: that of this node, with its dynamic configs."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, loggers: Loggers) -> None:
        self._config = config
        self._image = image
        self._loggers = loggers

    def answer(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> Turns[DescribeConfigsResponse]:
        """Yields the result of each resource, see `protocol.serving.turns`."""
        if any(resource.resource_type not in _KINDS for resource in request.resources):
            # Kafka refuses the whole request then.
            code = ErrorCode.INVALID_REQUEST
            for each in request.resources:
                yield Result(code, code.message, each.resource_type, each.resource_name)
            return DescribeConfigsResponse()
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            try:
                rows = self._describe(context, resource)
            except _NotDescribed as refusal:
                yield Result(refusal.code, refusal.message, kind, name)
                continue
            yield Result(0, "", kind, name, [_row(row, request) for row in rows])
        return DescribeConfigsResponse()

    def _describe(self, context: RequestContext, resource: Resource) -> list[DescribedConfig]:
        kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
        _authorize(context, kind, name)
        overrides = self._image.configs.of(kind, name)
        try:
            if kind == ConfigResourceType.TOPIC:
                self._require_topic(name)
                return describe_topic(self._config, overrides, keys)
            if kind == ConfigResourceType.GROUP:
                _require_name(name, "Group name must not be empty")
                return describe_group(self._config, overrides, keys)
            if kind == ConfigResourceType.CLIENT_METRICS:
                _require_name(name, "Client metrics subscription name must not be empty")
                return describe_client_metrics(overrides, keys)
            if kind == ConfigResourceType.BROKER:
                if not name:
                    return describe_cluster_default(self._config, keys)
                self._require_own_id(name, " or empty string,")
                return describe_broker(self._config, keys)
        except InvalidValue as invalid:
            raise _NotDescribed(ErrorCode.INVALID_CONFIG, str(invalid)) from invalid
        _require_name(name, "Broker id must not be empty")
        self._require_own_id(name, "")
        return describe_loggers(self._loggers, keys)

    def _require_topic(self, name: str) -> None:
        fault = name_fault(name)
        if fault is not None:
            raise _NotDescribed(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if name not in self._image.topics.by_name:
            raise _NotDescribed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")

    def _require_own_id(self, name: str, alternative: str) -> None:
        broker_id = java_whole(name)
        if broker_id is None:
            message = f"Broker id must be an integer, but it is: {name}"
            raise _NotDescribed(ErrorCode.INVALID_REQUEST, message)
        own_id = self._config.node_id
        if broker_id != own_id:
            raise _NotDescribed(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {own_id}{alternative} but received {name}",
            )


def _require_name(name: str, message: str) -> None:
    if not name:
        raise _NotDescribed(ErrorCode.INVALID_REQUEST, message)


def _authorize(context: RequestContext, kind: int, name: str) -> None:
    if kind == ConfigResourceType.TOPIC:
        if not context.allows(_DESCRIBE, ResourceType.TOPIC, name):
            raise _NotDescribed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif kind == ConfigResourceType.GROUP:
        if not context.allows(_DESCRIBE, ResourceType.GROUP, name):
            raise _NotDescribed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not context.allows_cluster(_DESCRIBE):
        raise _NotDescribed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _row(row: DescribedConfig, request: DescribeConfigsRequest) -> Row:
    """A config as the response shows it, with the parts that the request asks for."""
    synonyms = row.synonyms if request.include_synonyms else ()
    return Row(
        row.name,
        row.value,
        row.read_only,
        row.source,
        row.sensitive,
        [Synonym(synonym.name, synonym.value, synonym.source) for synonym in synonyms],
        row.type,
        row.documentation if request.include_documentation else None,
    )
