"""DeleteGroups, API key 42. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=42, versions="0-2", flexible="2+", listeners="broker")
class DeleteGroupsRequest(Message):
    """Deletes groups that have no members."""

    groups_names: list[str] = []


@response(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(Message):
    """Says for each group whether it was deleted."""

    class DeletableGroupResult(Struct):
        """Says whether one group was deleted."""

        group_id: str = ""
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult] = []
