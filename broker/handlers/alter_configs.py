"""AlterConfigs (33): the whole configuration of resources is replaced. KIP-133.

Versions 0-2. 2 is flexible. Kept for older clients; IncrementalAlterConfigs (44) has taken its place. A
broker's settings are checked here, all else is for the controller to decide. See `broker.config_requests`.

Left out: loggers, as in Kafka. A resource that stands in a request twice is refused; Kafka trips over its own
answer then and never sends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config_requests import in_one_answer, preprocess
from controller.subjects.config_changes import Change, ConfigOperation, Outcome, ResourceChange
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.registry import ApiKey
from protocol.serving import Pending, RequestContext, serves

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.ALTER_CONFIGS)
def handle(
    services: BrokerServices, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | Pending[AlterConfigsResponse]:
    resources = [_change(each) for each in request.resources]
    here = preprocess(services, context, resources, validate_only=request.validate_only)
    left = [each for each, outcome in zip(request.resources, here, strict=True) if outcome is None]
    if not left:
        return _answer(0, [outcome for outcome in here if outcome is not None])
    pending: Pending[AlterConfigsResponse] = Pending()

    def answered(response: AlterConfigsResponse) -> None:
        there = [
            (each.error_code, each.error_message, each.resource_type, each.resource_name)
            for each in response.responses
        ]
        pending.complete(_answer(response.throttle_time_ms, in_one_answer(resources, here, there)))

    rest = AlterConfigsRequest(left, request.validate_only)
    services.controller.forward(rest, context, refuse).on_complete(answered)
    return pending


def _change(resource: AlterConfigsRequest.AlterConfigsResource) -> ResourceChange:
    changes = [Change(each.name, ConfigOperation.SET, each.value) for each in resource.configs]
    return ResourceChange(resource.resource_type, resource.resource_name, changes, replaces=True)


def _answer(throttle_time_ms: int, outcomes: list[Outcome]) -> AlterConfigsResponse:
    each = AlterConfigsResponse.AlterConfigsResourceResponse
    responses = [each(error, message, kind, name) for kind, name, error, message in outcomes]
    return AlterConfigsResponse(throttle_time_ms, responses)


def refuse(request: AlterConfigsRequest, error: ErrorCode) -> AlterConfigsResponse:
    """The controller could not be asked: every resource fails with the same error."""
    return _answer(
        0,
        [Outcome(each.resource_type, each.resource_name, error, error.message) for each in request.resources],
    )
