"""What DescribeAcls answers, on the listeners of brokers and of controllers alike: each tells what its own
image holds.

One entry of the answer is a resource pattern with its entries that the filter means. Needs DESCRIBE on the
cluster. Without an authorizer the answer is SECURITY_DISABLED, whatever the image holds.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.acl_filters import AclFilter, matching, unknown_part
from controller.metadata.image.acls import AclsImage
from protocol.errors import ErrorCode
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns

__all__ = ["described_acls"]

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"

Resource = DescribeAclsResponse.DescribeAclsResource
Description = DescribeAclsResponse.AclDescription


def described_acls(
    acls: AclsImage, context: RequestContext, request: DescribeAclsRequest, *, has_authorizer: bool
) -> Turns[DescribeAclsResponse]:
    """has_authorizer: whether `authorizer.class.name` names one."""
    if not context.allows_cluster(Operation.DESCRIBE):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeAclsResponse(error_code=error, error_message=error.message)
    if not has_authorizer:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    wanted = AclFilter(
        request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter,
        request.principal_filter, request.host_filter, request.operation, request.permission_type,
    )  # fmt: skip
    unknown = unknown_part(wanted)
    if unknown is not None:
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=f"Unknown {unknown}.")
    for found in matching(acls, wanted):
        if found is None:
            yield None
            continue
        (resource_type, pattern_type, name), entries = found
        descriptions = [
            Description(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in entries
        ]
        yield Resource(resource_type, name, pattern_type, descriptions)
    return DescribeAclsResponse()
