"""BrokerHeartbeat, API key 63. It is sent by brokers."""

from typing import Annotated

from protocol.codec.message import Message, Tag, request, response
from protocol.primitives import Uuid, i16, i32, i64


@request(key=63, versions="0-2", flexible="0+", listeners="controller")
class BrokerHeartbeatRequest(Message):
    """Tells the controller that a registered broker is alive, and whether it wants to be unfenced or to shut
    down (KIP-631).

    From version 1 on it names log directories that have gone offline (KIP-858), and from version 2 on those
    that are cordoned.
    """

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    current_metadata_offset: i64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Annotated[list[Uuid], Tag(0, since=1)] = []
    cordoned_log_dirs: Annotated[list[Uuid] | None, Tag(1, since=2)] = None


@response(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(Message):
    """Says whether the broker is fenced, and whether it may shut down."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
