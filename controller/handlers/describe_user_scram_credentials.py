"""DescribeUserScramCredentials (50): which SCRAM mechanisms users have. KIP-554.

Version 0; on the controller's listener as on a broker's, by what is committed. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from controller.metadata.described_credentials import described_credentials
from controller.services import ControllerServices
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    return described_credentials(services.controller.image.scram, context, request)
