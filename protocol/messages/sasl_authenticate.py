"""SaslAuthenticate, API key 36. It is sent by clients that authenticate with SASL."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, request, response
from protocol.primitives import i16, i64


@request(key=36, versions="0-2", flexible="2+", listeners="broker controller")
class SaslAuthenticateRequest(Message):
    """Holds a token that the client sends in a SASL exchange."""

    auth_bytes: bytes = b""


@response(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """Holds the token with which the broker answers. From version 1 on it tells how long the session lasts
    (KIP-368)."""

    error_code: i16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[i64, Since(1), Ignorable] = 0
