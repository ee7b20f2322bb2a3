"""Envelope (API key 58): forward a client request with principal to controller."""

from protocol.codec.message import Message, request, response
from protocol.primitives import i16


@request(key=58, versions="0", flexible="0+", listeners="controller")
class EnvelopeRequest(Message):
    """Forward a client request with principal to controller."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


@response(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    """Answer: forward a client request with principal to controller."""

    response_data: bytes | None = None
    error_code: i16 = 0
