"""DeleteAcls (31): the access control entries that filters mean are removed. KIP-140, KIP-290, KIP-801.

Versions 1-3. 1 knows prefixed patterns; 2 is flexible; 3 knows resources of type USER. Each filter is told
what it has removed. The answer waits for the commit, not for the brokers. Needs ALTER on the cluster;
SECURITY_DISABLED without an authorizer.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.acl_changes import delete_acls
from controller.subjects.result import names_too_much
from protocol.errors import ErrorCode
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.refusals import NO_AUTHORIZER, TOO_LARGE, delete_acls_refused
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: DeleteAclsRequest
) -> Pending[DeleteAclsResponse] | DeleteAclsResponse:
    def refuse(error: ErrorCode, message: str | None = None) -> DeleteAclsResponse:
        return delete_acls_refused(request, error, message or error.message)

    if not context.allows_cluster(Operation.ALTER):
        return refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not services.config.has_authorizer:
        return refuse(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if names_too_much(request):
        return refuse(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    controller = services.controller
    return controller.decide(lambda image: delete_acls(image, request), refuse)
