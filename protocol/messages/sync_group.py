"""SyncGroup, API key 14. It is sent by the members of classic groups."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=14, versions="0-5", flexible="4+", listeners="broker")
class SyncGroupRequest(Message):
    """Asks for the assignment of a member. The request of the group's leader holds the assignment of all
    members.

    From version 5 on it holds the protocol type and name, and the coordinator checks them.
    """

    class SyncGroupRequestAssignment(Struct):
        """Holds the assignment of one member."""

        member_id: str = ""
        assignment: bytes = b""

    group_id: str = ""
    generation_id: i32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None
    protocol_type: Annotated[str | None, Since(5), Ignorable] = None
    protocol_name: Annotated[str | None, Since(5), Ignorable] = None
    assignments: list[SyncGroupRequestAssignment] = []


@response(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """Holds the assignment of the member."""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
    protocol_type: Annotated[str | None, Since(5), Ignorable] = None
    protocol_name: Annotated[str | None, Since(5), Ignorable] = None
    assignment: bytes = b""
