"""JoinGroup, API key 11. Asked by: client (classic group)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, NullableSince, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=11, versions="0-9", flexible="6+", listeners="broker")
class JoinGroupRequest(Message):
    """Join a classic group, or a new round of its rebalance.

    From version 4 the first attempt is told its member id (KIP-394), 5 static members (KIP-345), 8 a reason
    (KIP-800).
    """

    class JoinGroupRequestProtocol(Struct):
        """A protocol that the member can use, with its metadata, the best first."""

        name: str = ""
        metadata: bytes = b""

    group_id: str = ""
    session_timeout_ms: i32 = 0
    """The member is removed when it has sent no heartbeat for so long."""
    rebalance_timeout_ms: Annotated[i32, Since(1), Ignorable] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, Since(8), Ignorable] = None


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """The generation, who leads it, and for the leader all members.

    From version 9 the leader may be told to skip the assignment (KIP-814).
    """

    class JoinGroupResponseMember(Struct):
        """A member, as the leader sees it."""

        member_id: str = ""
        group_instance_id: Annotated[str | None, Since(5), Ignorable] = None
        metadata: bytes = b""

    throttle_time_ms: Annotated[i32, Since(2), Ignorable] = 0
    error_code: i16 = 0
    generation_id: i32 = -1
    protocol_type: Annotated[str | None, Since(7), Ignorable] = None
    protocol_name: Annotated[str | None, NullableSince(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, Since(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []
