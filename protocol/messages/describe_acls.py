"""DescribeAcls, API key 29. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=29, versions="1-3", flexible="2+", listeners="broker controller")
class DescribeAclsRequest(Message):
    """Asks for the access control entries that match a filter."""

    resource_type_filter: i8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: i8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: i8 = 0
    permission_type: i8 = 0


@response(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Message):
    """Lists the access control entries that match, by resource."""

    class DescribeAclsResource(Struct):
        """Names a resource, and lists its entries that match."""

        resource_type: i8 = 0
        resource_name: str = ""
        pattern_type: i8 = 3
        acls: list["DescribeAclsResponse.AclDescription"] = []

    class AclDescription(Struct):
        """Holds one access control entry of the resource."""

        principal: str = ""
        host: str = ""
        operation: i8 = 0
        permission_type: i8 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = []
