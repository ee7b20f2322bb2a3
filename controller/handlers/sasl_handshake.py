"""SaslHandshake (17): a client chooses its SASL mechanism. KIP-43, KIP-152.

Versions 0-1. As on a broker's listener, a handshake that belongs to an exchange does not come this far. One
that does came after it, or by a listener without SASL: ILLEGAL_SASL_STATE. No permission is needed.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.serving.request_context import RequestContext


def handle(services: object, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
