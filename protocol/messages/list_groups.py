"""ListGroups (API key 16): list groups with state/type filters."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=16, versions="0-5", flexible="3+", listeners="broker")
class ListGroupsRequest(Message):
    """List groups with state/type filters."""

    states_filter: Annotated[list[str], Since(4)] = []
    types_filter: Annotated[list[str], Since(5)] = []


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """Answer: list groups with state/type filters."""

    class ListedGroup(Struct):
        group_id: str = ""
        protocol_type: str = ""
        group_state: Annotated[str, Since(4), Ignorable] = ""
        group_type: Annotated[str, Since(5), Ignorable] = ""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
    groups: list[ListedGroup] = []
