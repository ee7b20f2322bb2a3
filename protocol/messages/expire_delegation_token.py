"""ExpireDelegationToken, API key 40. It is sent by admin clients and other clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32, i64


@request(key=40, versions="1-2", flexible="2+", listeners="broker controller")
class ExpireDelegationTokenRequest(Message):
    """Has a delegation token expire earlier, or at once."""

    hmac: bytes = b""
    expiry_time_period_ms: i64 = 0


@response(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    """Says until when the token is valid."""

    error_code: i16 = 0
    expiry_timestamp_ms: i64 = 0
    throttle_time_ms: i32 = 0
