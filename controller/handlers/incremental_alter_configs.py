"""IncrementalAlterConfigs (44): single configs are set, taken away, or as lists added to and taken from.
KIP-339; levels of loggers KIP-412.

Versions 0-1. 1 is flexible. Each resource has its own answer. Levels of loggers (BROKER_LOGGER) are this
node's own and change at once; all else is decided over the metadata log. Brokers pass clients' requests on;
who speaks to the controller itself can configure a cluster whose brokers do not start, so a broker's configs
are only checked as far as no file is needed.

Authorization: ALTER_CONFIGS on the topic or group, on the cluster for brokers and client metrics;
CLUSTER_ACTION on the cluster for loggers.
"""

from __future__ import annotations

from controller.config_requests import alter
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.resource_changes import (
    Change,
    ConfigChangeResult,
    LoggerRequest,
    ResourceChange,
    alter_loggers,
)
from controller.services import ControllerServices
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Pending[IncrementalAlterConfigsResponse]:
    wanted = []
    levels: list[ConfigChangeResult] = []
    for resource in request.resources:
        changes = {
            each.name: Change(each.name, each.config_operation, each.value) for each in resource.configs
        }
        kind, name = resource.resource_type, resource.resource_name
        if kind == ConfigResourceType.BROKER_LOGGER:
            asked = LoggerRequest(name, list(changes.values()), request.validate_only)
            allowed = context.allows_cluster(Operation.CLUSTER_ACTION)
            levels.append(alter_loggers(services.loggers, services.node_id, asked, allowed=allowed))
        else:
            wanted.append(ResourceChange(kind, name, list(changes.values())))

    def answer(outcomes: list[ConfigChangeResult]) -> IncrementalAlterConfigsResponse:
        each = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        responses = [each(error, message, kind, name) for kind, name, error, message in [*outcomes, *levels]]
        return IncrementalAlterConfigsResponse(0, responses)

    return alter(services, context, wanted, validate_only=request.validate_only).then(answer)
