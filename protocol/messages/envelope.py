"""Envelope, API key 58. It is sent by brokers."""

from protocol.codec.message import Message, data, request, response
from protocol.primitives import i16


@request(key=58, versions="0", flexible="0+", listeners="controller")
class EnvelopeRequest(Message):
    """Carries a client's request from a broker to the controller, with the principal of the client
    (KIP-590)."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


@response(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    """Carries the response to the forwarded request back to the broker."""

    response_data: bytes | None = None
    error_code: i16 = 0


@data(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """Names the principal that has sent a forwarded request, as an Envelope carries it (KIP-590)."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
