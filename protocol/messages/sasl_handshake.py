"""SaslHandshake, API key 17. It is sent by clients that authenticate with SASL."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16


@request(key=17, versions="0-1", flexible="none", listeners="broker controller")
class SaslHandshakeRequest(Message):
    """Chooses a SASL mechanism.

    After version 0 the tokens of the exchange follow without a header, after version 1 in SaslAuthenticate
    requests (KIP-152).
    """

    mechanism: str = ""


@response(key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Message):
    """Lists the SASL mechanisms that the listener supports."""

    error_code: i16 = 0
    mechanisms: list[str] = []
