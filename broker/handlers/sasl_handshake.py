"""SaslHandshake (17): a client chooses its SASL mechanism. KIP-43, KIP-152.

Versions 0-1. On a listener with SASL the exchange before authentication, and again before a session ends, is
`broker.security.sasl_gate`'s. A handshake that reaches this handler came at another time, or by a listener
without SASL: ILLEGAL_SASL_STATE. No permission is needed.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.serving.request_context import RequestContext


def handle(services: object, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
