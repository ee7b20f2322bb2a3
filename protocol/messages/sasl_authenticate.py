"""SaslAuthenticate (API key 36): SASL token exchange, session lifetime."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, request, response
from protocol.primitives import i16, i64


@request(key=36, versions="0-2", flexible="2+", listeners="broker controller")
class SaslAuthenticateRequest(Message):
    """SASL token exchange, session lifetime."""

    auth_bytes: bytes = b""


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """Answer: SASL token exchange, session lifetime."""

    error_code: i16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[i64, Since(1), Ignorable] = 0
