"""FindCoordinator (API key 10): locate group / txn / share coordinator."""

from typing import Annotated

from protocol.codec.message import Between, Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i8, i16, i32


@request(key=10, versions="0-6", flexible="3+", listeners="broker")
class FindCoordinatorRequest(Message):
    """Locate group / txn / share coordinator."""

    key: Annotated[str, Until(3)] = ""
    key_type: Annotated[i8, Since(1)] = 0
    coordinator_keys: Annotated[list[str], Since(4)] = []


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    """Answer: locate group / txn / share coordinator."""

    class Coordinator(Struct):
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
