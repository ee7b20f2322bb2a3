"""AddRaftVoter, API key 80. It is sent by admin clients, and by controllers that join the metadata quorum by
themselves.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=80, versions="0-1", flexible="0+", listeners="broker controller")
class AddRaftVoterRequest(Message):
    """Adds a voter to the metadata quorum (KIP-853)."""

    class Listener(Struct):
        """Names a listener of the node, and the address at which it is reached."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    cluster_id: str | None = ""
    timeout_ms: i32 = 0
    voter_id: i32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = []
    ack_when_committed: Annotated[bool, Since(1)] = True


@response(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse(Message):
    """Says whether the voter was added."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
