"""IncrementalAlterConfigs (44): single configs are set, taken away, or as lists added to and taken from.
KIP-339; levels of loggers KIP-412, groups KIP-848, client metrics KIP-714.

Versions 0-1. 1 is flexible. What concerns this broker alone is checked and, for its loggers, done here; the
rest is forwarded to the controller, who decides, authorizes and answers. See `broker.config_requests`.

Authorization here: ALTER_CONFIGS on the cluster for loggers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config_requests import in_one_answer, preprocess
from controller.subjects.config_changes import Change, Outcome, ResourceChange
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.registry import ApiKey
from protocol.serving import Pending, RequestContext, serves

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def handle(
    services: BrokerServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | Pending[IncrementalAlterConfigsResponse]:
    resources = [_change(each) for each in request.resources]
    here = preprocess(services, context, resources, validate_only=request.validate_only)
    left = [each for each, outcome in zip(request.resources, here, strict=True) if outcome is None]
    if not left:
        return _answer(0, [outcome for outcome in here if outcome is not None])
    pending: Pending[IncrementalAlterConfigsResponse] = Pending()

    def answered(response: IncrementalAlterConfigsResponse) -> None:
        there = [
            (each.error_code, each.error_message, each.resource_type, each.resource_name)
            for each in response.responses
        ]
        pending.complete(_answer(response.throttle_time_ms, in_one_answer(resources, here, there)))

    rest = IncrementalAlterConfigsRequest(left, request.validate_only)
    services.controller.forward(rest, context, refuse).on_complete(answered)
    return pending


def _change(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> ResourceChange:
    changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
    return ResourceChange(resource.resource_type, resource.resource_name, changes)


def _answer(throttle_time_ms: int, outcomes: list[Outcome]) -> IncrementalAlterConfigsResponse:
    each = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    responses = [each(error, message, kind, name) for kind, name, error, message in outcomes]
    return IncrementalAlterConfigsResponse(throttle_time_ms, responses)


def refuse(request: IncrementalAlterConfigsRequest, error: ErrorCode) -> IncrementalAlterConfigsResponse:
    """The controller could not be asked: every resource fails with the same error."""
    return _answer(
        0,
        [Outcome(each.resource_type, each.resource_name, error, error.message) for each in request.resources],
    )
