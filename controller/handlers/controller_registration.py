"""ControllerRegistration (70): where a controller listens and which features it knows. KIP-919.

Version 0. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: ControllerRegistrationRequest
) -> Pending[ControllerRegistrationResponse] | ControllerRegistrationResponse:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ControllerRegistrationResponse(error_code=error, error_message=error.message)
    return services.controller.register_controller(request)
