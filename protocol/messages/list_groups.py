"""ListGroups, API key 16. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=16, versions="0-5", flexible="3+", listeners="broker")
class ListGroupsRequest(Message):
    """Asks for the groups that a broker coordinates.

    From version 4 on it can ask for groups in some states (KIP-518), and from version 5 on for groups of some
    types (KIP-848).
    """

    states_filter: Annotated[list[str], Since(4)] = []
    types_filter: Annotated[list[str], Since(5)] = []


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """Lists the groups with their protocol type, state and type."""

    class ListedGroup(Struct):
        """Names one group that the broker coordinates."""

        group_id: str = ""
        protocol_type: str = ""
        group_state: Annotated[str, Since(4), Ignorable] = ""
        group_type: Annotated[str, Since(5), Ignorable] = ""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: i16 = 0
    groups: list[ListedGroup] = []
