"""AlterUserScramCredentials (51): SCRAM credentials of users are set and deleted. KIP-554.

Version 0. Each user is answered for itself. The request carries the salted password, and no answer, log line
or error message ever does. Needs ALTER on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.result import names_too_much
from controller.subjects.scram_credentials import alter_user_scram_credentials
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from protocol.refusals import TOO_LARGE, alter_user_scram_credentials_refused
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Pending[AlterUserScramCredentialsResponse] | AlterUserScramCredentialsResponse:
    def refuse(error: ErrorCode) -> AlterUserScramCredentialsResponse:
        return alter_user_scram_credentials_refused(request, error, error.message)

    if not context.allows_cluster(Operation.ALTER):
        return refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if names_too_much(request):
        return alter_user_scram_credentials_refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return services.controller.decide(lambda image: alter_user_scram_credentials(image, request), refuse)
