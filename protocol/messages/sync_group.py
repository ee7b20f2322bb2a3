"""SyncGroup, API key 14. Asked by: client (classic group)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=14, versions="0-5", flexible="4+", listeners="broker")
class SyncGroupRequest(Message):
    """The leader hands in the assignment of a generation; the others ask for their part.

    From version 5 the protocol type and name are checked.
    """

    class SyncGroupRequestAssignment(Struct):
        """The part of one member."""

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
    """The member's part of the assignment."""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
    protocol_type: Annotated[str | None, Since(5), Ignorable] = None
    protocol_name: Annotated[str | None, Since(5), Ignorable] = None
    assignment: bytes = b""
