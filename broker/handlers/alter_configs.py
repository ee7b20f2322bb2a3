"""AlterConfigs (33): the whole configuration of resources is replaced. KIP-133.

Versions 0-2. 2 is flexible. Kept for older clients; IncrementalAlterConfigs (44) has taken its place. A
broker's settings are checked here, all else is for the controller to decide. See
`broker.metadata.config_requests`.

Authorization here: ALTER_CONFIGS on the cluster for brokers, before their settings are checked.

Left out: loggers, as in Kafka. A resource that stands in a request twice is refused; Kafka trips over its own
answer then and never sends it.
"""

from __future__ import annotations

from itertools import compress

from broker.metadata.config_requests import AlterConfigsServices, change, refused
from controller.metadata.resource_changes import Change, ConfigChangeResult, ConfigOperation, ResourceChange
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: AlterConfigsServices, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | Pending[AlterConfigsResponse]:
    resources = [_change(each) for each in request.resources]

    def forward(left: list[bool]) -> Pending[AlterConfigsResponse]:
        if all(left):
            return services.controller.forward(request, context, refuse)
        rest = AlterConfigsRequest(list(compress(request.resources, left)), request.validate_only)
        return services.controller.forward(rest, context, refuse, is_changed=True)

    return change(
        services, context, resources, validate_only=request.validate_only, forward=forward, answer=_answer
    )


def _change(resource: AlterConfigsRequest.AlterConfigsResource) -> ResourceChange:
    changes = [Change(each.name, ConfigOperation.SET, each.value) for each in resource.configs]
    return ResourceChange(resource.resource_type, resource.resource_name, changes, replaces=True)


def _answer(throttle_time_ms: int, outcomes: list[ConfigChangeResult]) -> AlterConfigsResponse:
    each = AlterConfigsResponse.AlterConfigsResourceResponse
    responses = [each(error, message, kind, name) for kind, name, error, message in outcomes]
    return AlterConfigsResponse(throttle_time_ms, responses)


def refuse(request: AlterConfigsRequest, error: ErrorCode) -> AlterConfigsResponse:
    return _answer(0, refused([_change(each) for each in request.resources], error))
