"""DeleteAcls, API key 31. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=31, versions="1-3", flexible="2+", listeners="broker controller")
class DeleteAclsRequest(Message):
    """Removes the access control entries that match one of the filters."""

    class DeleteAclsFilter(Struct):
        """Says which access control entries are to be removed."""

        resource_type_filter: i8 = 0
        resource_name_filter: str | None = ""
        pattern_type_filter: i8 = 3
        principal_filter: str | None = ""
        host_filter: str | None = ""
        operation: i8 = 0
        permission_type: i8 = 0

    filters: list[DeleteAclsFilter] = []


@response(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(Message):
    """Says for each filter which entries were removed."""

    class DeleteAclsFilterResult(Struct):
        """Lists the entries that were removed because they matched one filter."""

        error_code: i16 = 0
        error_message: str | None = ""
        matching_acls: list["DeleteAclsResponse.DeleteAclsMatchingAcl"] = []

    class DeleteAclsMatchingAcl(Struct):
        """Holds an access control entry that matched the filter."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""
        pattern_type: i8 = 3
        principal: str = ""
        host: str = ""
        operation: i8 = 0
        permission_type: i8 = 0

    throttle_time_ms: i32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
