"""AlterConfigs (33): the whole configuration of resources is replaced; IncrementalAlterConfigs came after it.
KIP-133.

Versions 0-2. 2 is flexible. What a resource does not name goes back to its default, a null likewise. Loggers
cannot be asked for here.

Authorization: ALTER_CONFIGS on the topic or group, on the cluster for brokers and client metrics.
"""

from __future__ import annotations

from controller.config_requests import alter
from controller.metadata.resource_changes import ConfigChangeResult, replaced_by
from controller.services import ControllerServices
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AlterConfigsRequest
) -> Pending[AlterConfigsResponse]:
    wanted = [
        replaced_by(
            resource.resource_type,
            resource.resource_name,
            {config.name: config.value for config in resource.configs},
        )
        for resource in request.resources
    ]

    def answer(outcomes: list[ConfigChangeResult]) -> AlterConfigsResponse:
        each = AlterConfigsResponse.AlterConfigsResourceResponse
        responses = [each(error, message, kind, name) for kind, name, error, message in outcomes]
        return AlterConfigsResponse(0, responses)

    return alter(services, context, wanted, validate_only=request.validate_only).then(answer)
