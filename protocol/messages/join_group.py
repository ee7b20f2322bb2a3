"""JoinGroup, API key 11. It is sent by the members of classic groups."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, NullableSince, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=11, versions="0-9", flexible="6+", listeners="broker")
class JoinGroupRequest(Message):
    """Joins a classic group, or takes part in a rebalance of it.

    From version 4 on a new member is told its member id and joins again with it (KIP-394). Version 5 has
    added static members (KIP-345), and version 8 the reason for joining (KIP-800).
    """

    class JoinGroupRequestProtocol(Struct):
        """Names a protocol that the member can use, with its metadata. The preferred protocol comes first."""

        name: str = ""
        metadata: bytes = b""

    group_id: str = ""
    session_timeout_ms: i32 = 0
    """The member is removed if it sends no heartbeat for so long."""
    rebalance_timeout_ms: Annotated[i32, Since(1), Ignorable] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, Since(8), Ignorable] = None


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """Tells the member the generation of the group and its leader, and tells the leader all members.

    From version 9 on the leader may be told to skip the assignment (KIP-814).
    """

    class JoinGroupResponseMember(Struct):
        """Describes a member to the leader of the group."""

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
