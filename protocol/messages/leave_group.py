"""LeaveGroup, API key 13. Asked by: client (classic group, admin)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i16, i32


@request(key=13, versions="0-5", flexible="4+", listeners="broker")
class LeaveGroupRequest(Message):
    """Leave a classic group, or remove members from it.

    From version 3 several members at once (KIP-345), 5 with a reason (KIP-800).
    """

    class MemberIdentity(Struct):
        """A member that leaves."""

        member_id: str = ""
        group_instance_id: str | None = None
        reason: Annotated[str | None, Since(5), Ignorable] = None

    group_id: str = ""
    member_id: Annotated[str, Until(2)] = ""
    members: Annotated[list[MemberIdentity], Since(3)] = []


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    """Says which members have left."""

    class MemberResponse(Struct):
        """Says whether one member has left."""

        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: i16 = 0

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
    members: Annotated[list[MemberResponse], Since(3)] = []
