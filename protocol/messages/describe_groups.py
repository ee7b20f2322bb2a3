"""DescribeGroups, API key 15. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=15, versions="0-6", flexible="5+", listeners="broker")
class DescribeGroupsRequest(Message):
    """Asks for a description of classic groups.

    From version 3 on it can ask for the authorized operations. From version 6 on the error of a group that
    does not exist is GROUP_ID_NOT_FOUND.
    """

    groups: list[str] = []
    include_authorized_operations: Annotated[bool, Since(3)] = False


@response(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    """Describes the groups and their members."""

    class DescribedGroup(Struct):
        """Describes one group, or says why it cannot be described."""

        error_code: i16 = 0
        error_message: Annotated[str | None, Since(6)] = None
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list["DescribeGroupsResponse.DescribedGroupMember"] = []
        authorized_operations: Annotated[i32, Since(3)] = -2147483648

    class DescribedGroupMember(Struct):
        """Describes one member of the group."""

        member_id: str = ""
        group_instance_id: Annotated[str | None, Since(4), Ignorable] = None
        client_id: str = ""
        client_host: str = ""
        member_metadata: bytes = b""
        member_assignment: bytes = b""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    groups: list[DescribedGroup] = []
