"""FindCoordinator, API key 10. It is sent by all clients, and by brokers for share groups."""

from typing import Annotated

from protocol.codec.message import Between, Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i8, i16, i32


@request(key=10, versions="0-6", flexible="3+", listeners="broker")
class FindCoordinatorRequest(Message):
    """Asks which broker coordinates a group, a transactional id or a share partition.

    Key type 0 stands for a group, 1 for a transactional id, and from version 6 on 2 for a share partition.
    From version 4 on a request can name many keys (KIP-699).
    """

    key: Annotated[str, Until(3)] = ""
    key_type: Annotated[i8, Since(1)] = 0
    coordinator_keys: Annotated[list[str], Since(4)] = []


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    """Names the coordinator of each key."""

    class Coordinator(Struct):
        """Names the coordinator of one key."""

        key: str = ""
        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: Annotated[i32, Since(1), Ignorable] = 0
    error_code: Annotated[i16, Until(3)] = 0
    error_message: Annotated[str | None, Between(1, 3), Ignorable] = ""
    node_id: Annotated[i32, Until(3)] = 0
    host: Annotated[str, Until(3)] = ""
    port: Annotated[i32, Until(3)] = 0
    coordinators: Annotated[list[Coordinator], Since(4)] = []
