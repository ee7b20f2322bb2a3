"""SaslHandshake (API key 17): select SASL mechanism."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16


@request(key=17, versions="0-1", flexible="none", listeners="broker controller")
class SaslHandshakeRequest(Message):
    """Select SASL mechanism."""

    mechanism: str = ""


@response(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Message):
    """Answer: select SASL mechanism."""

    error_code: i16 = 0
    mechanisms: list[str] = []
