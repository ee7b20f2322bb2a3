"""ListConfigResources (74): what there is that has, or could have, dynamic configs. KIP-1142; version 0 was
ListClientMetricsResources (KIP-1000).

Versions 0-1. 0 knows client metrics subscriptions only. 1 names the types that are asked for, or none for
all; topics and brokers are listed whether anything is set for them or not, groups and subscriptions where
something is. A type that cannot be listed refuses the request with UNSUPPORTED_VERSION.

Authorization: DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from typing import Final

from broker.services import HasMetadata
from controller.metadata.image.configs import ConfigResourceType
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext

TYPES_SINCE: Final = 1

_IN_ORDER: Final = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


def handle(
    services: HasMetadata, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if not context.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: set[int] = set(request.resource_types or _IN_ORDER)
    if context.version < TYPES_SINCE:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    if any(kind not in _IN_ORDER for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resource = ListConfigResourcesResponse.ConfigResource
    return ListConfigResourcesResponse(
        config_resources=[
            resource(name, kind) for kind in _IN_ORDER if kind in wanted for name in _names(services, kind)
        ]
    )


def _names(services: HasMetadata, kind: ConfigResourceType) -> list[str]:
    image = services.metadata.image
    if kind == ConfigResourceType.TOPIC:
        return sorted(image.topics.by_name)
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return [str(broker.id) for broker in image.brokers.unfenced()]
    return sorted(name for resource_type, name in image.configs.by_resource if resource_type == kind)
