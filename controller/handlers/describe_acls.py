"""DescribeAcls (29) at a controller: the access control entries that a filter means. KIP-140, KIP-290,
KIP-919.

Versions 1-3. 1 knows prefixed patterns; 2 is flexible; 3 knows resources of type USER. Every controller
answers from its own image. Needs DESCRIBE on the cluster; SECURITY_DISABLED without an authorizer. See
`controller.metadata.described_acls`.
"""

from __future__ import annotations

from controller.metadata.described_acls import described_acls
from controller.services import ControllerServices
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: ControllerServices, context: RequestContext, request: DescribeAclsRequest
) -> Turns[DescribeAclsResponse]:
    return (
        yield from described_acls(
            services.controller.image.acls,
            context,
            request,
            has_authorizer=services.config.has_authorizer,
        )
    )
