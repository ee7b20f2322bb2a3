"""RemoveRaftVoter, API key 81. It is sent by admin clients, and by controllers that join the metadata quorum
by themselves.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=81, versions="0", flexible="0+", listeners="broker controller")
class RemoveRaftVoterRequest(Message):
    """Removes a voter from the metadata quorum (KIP-853)."""

    cluster_id: str | None = ""
    voter_id: i32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@response(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse(Message):
    """Says whether the voter was removed."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
