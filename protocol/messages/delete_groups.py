"""DeleteGroups (API key 42): delete groups."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=42, versions="0-2", flexible="2+", listeners="broker")
class DeleteGroupsRequest(Message):
    """Delete groups."""

    groups_names: list[str] = []


@response(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(Message):
    """Answer: delete groups."""

    class DeletableGroupResult(Struct):
        group_id: str = ""
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult] = []
