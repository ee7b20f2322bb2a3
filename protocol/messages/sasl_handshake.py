"""SaslHandshake, API key 17. Asked by: client (SASL)."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16


@request(key=17, versions="0-1", flexible="none", listeners="broker controller")
class SaslHandshakeRequest(Message):
    """Choose a SASL mechanism.

    After 0 raw tokens follow, after 1 SaslAuthenticate requests (KIP-152).
    """

    mechanism: str = ""


@response(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Message):
    """The mechanisms that the listener takes."""

    error_code: i16 = 0
    mechanisms: list[str] = []
