"""DescribeAcls (29): the access control entries that a filter means. KIP-140, KIP-290.

Versions 1-3. 1 knows prefixed patterns; 2 is flexible; 3 knows resources of type USER. The broker answers
from its own image, as it authorizes by it. Needs DESCRIBE on the cluster; SECURITY_DISABLED without an
authorizer. See `controller.metadata.described_acls`.
"""

from __future__ import annotations

from typing import Protocol

from broker.services import HasConfig, HasMetadata
from controller.metadata.described_acls import described_acls
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


class DescribeAclsServices(HasConfig, HasMetadata, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: DescribeAclsServices, context: RequestContext, request: DescribeAclsRequest
) -> Turns[DescribeAclsResponse]:
    return (
        yield from described_acls(
            services.metadata.image.acls,
            context,
            request,
            has_authorizer=services.config.has_authorizer,
        )
    )
