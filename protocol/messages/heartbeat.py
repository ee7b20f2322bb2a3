"""Heartbeat, API key 12. It is sent by the members of classic groups."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, request, response
from protocol.primitives import i16, i32


@request(key=12, versions="0-4", flexible="4+", listeners="broker")
class HeartbeatRequest(Message):
    """Tells the group coordinator that a member of a classic group is alive.

    From version 3 on static members are named (KIP-345).
    """

    group_id: str = ""
    generation_id: i32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """Says whether the member may go on, or must join the group again."""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
