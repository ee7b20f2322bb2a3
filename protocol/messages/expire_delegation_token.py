"""ExpireDelegationToken (API key 40): expire delegation token."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16, i32, i64


@request(key=40, versions="1-2", flexible="2+", listeners="broker controller")
class ExpireDelegationTokenRequest(Message):
    """Expire delegation token."""

    hmac: bytes = b""
    expiry_time_period_ms: i64 = 0


@response(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    """Answer: expire delegation token."""

    error_code: i16 = 0
    expiry_timestamp_ms: i64 = 0
    throttle_time_ms: i32 = 0
