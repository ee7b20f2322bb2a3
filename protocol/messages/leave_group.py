"""LeaveGroup, API key 13. It is sent by the members of classic groups, and by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i16, i32


@request(key=13, versions="0-5", flexible="4+", listeners="broker")
class LeaveGroupRequest(Message):
    """Leaves a classic group, or removes members from it.

    From version 3 on it names several members (KIP-345), and from version 5 on the reason (KIP-800).
    """

    class MemberIdentity(Struct):
        """Names a member that leaves or is removed."""

        member_id: str = ""
        group_instance_id: str | None = None
        reason: Annotated[str | None, Since(5), Ignorable] = None

    group_id: str = ""
    member_id: Annotated[str, Until(2)] = ""
    members: Annotated[list[MemberIdentity], Since(3)] = []


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    """Says which members have left the group."""

    class MemberResponse(Struct):
        """Says whether one member has left the group."""

        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: i16 = 0

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
    members: Annotated[list[MemberResponse], Since(3)] = []
