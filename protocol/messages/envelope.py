"""Envelope, API key 58. Asked by: broker."""

from protocol.codec.message import Message, data, request, response
from protocol.primitives import i16


@request(key=58, versions="0", flexible="0+", listeners="controller")
class EnvelopeRequest(Message):
    """A broker forwards a client's request to the controller, with the principal (KIP-590)."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


@response(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    """The answer to the forwarded request."""

    response_data: bytes | None = None
    error_code: i16 = 0


@data(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """The principal that sent a forwarded request, as an Envelope carries it (KIP-590)."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
