"""DescribeUserScramCredentials (50): which SCRAM mechanisms users have. KIP-554.

Version 0; on the controller's listener as on a broker's, by what is committed. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    if not context.allows_cluster(Operation.DESCRIBE):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=error, error_message=error.message)
    return services.controller.image.scram.describe(request)
