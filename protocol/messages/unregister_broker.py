"""UnregisterBroker, API key 64. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32


@request(key=64, versions="0", flexible="0+", listeners="broker controller")
class UnregisterBrokerRequest(Message):
    """Unregisters a broker that will not come back."""

    broker_id: i32 = 0


@response(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """Says whether the broker was unregistered."""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
