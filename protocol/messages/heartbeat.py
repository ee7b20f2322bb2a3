"""Heartbeat (API key 12): classic heartbeat."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, request, response
from protocol.primitives import i16, i32


@request(key=12, versions="0-4", flexible="4+", listeners="broker")
class HeartbeatRequest(Message):
    """Classic heartbeat."""

    group_id: str = ""
    generation_id: i32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3)] = None


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """Answer: classic heartbeat."""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
