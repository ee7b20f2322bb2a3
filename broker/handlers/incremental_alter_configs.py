"""IncrementalAlterConfigs (44): single configs are set, taken away, or as lists added to and taken from.
KIP-339; levels of loggers KIP-412, groups KIP-848, client metrics KIP-714.

Versions 0-1. 1 is flexible. What concerns this broker alone is checked and, for its loggers, done here; the
rest is forwarded to the controller, who decides, authorizes and answers. See
`broker.metadata.config_requests`.

Authorization here: ALTER_CONFIGS on the cluster for loggers, and for brokers before their settings are
checked.
"""

from __future__ import annotations

from itertools import compress

from broker.metadata.config_requests import AlterConfigsServices, change, refused
from controller.metadata.resource_changes import Change, ConfigChangeResult, ResourceChange
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: AlterConfigsServices,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse | Pending[IncrementalAlterConfigsResponse]:
    resources = [_change(each) for each in request.resources]

    def forward(left: list[bool]) -> Pending[IncrementalAlterConfigsResponse]:
        if all(left):
            return services.controller.forward(request, context, refuse)
        rest = IncrementalAlterConfigsRequest(list(compress(request.resources, left)), request.validate_only)
        return services.controller.forward(rest, context, refuse, is_changed=True)

    return change(
        services, context, resources, validate_only=request.validate_only, forward=forward, answer=_answer
    )


def _change(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> ResourceChange:
    changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
    return ResourceChange(resource.resource_type, resource.resource_name, changes)


def _answer(throttle_time_ms: int, outcomes: list[ConfigChangeResult]) -> IncrementalAlterConfigsResponse:
    each = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    responses = [each(error, message, kind, name) for kind, name, error, message in outcomes]
    return IncrementalAlterConfigsResponse(throttle_time_ms, responses)


def refuse(request: IncrementalAlterConfigsRequest, error: ErrorCode) -> IncrementalAlterConfigsResponse:
    return _answer(0, refused([_change(each) for each in request.resources], error))
