"""SaslHandshake (17) and SaslAuthenticate (36) at the wrong time. KIP-43, KIP-152, KIP-368.

Versions 0-1 and 0-2. On a listener with SASL the exchange before authentication, and again before a session
ends, is `broker.security.sasl_gate`'s, whoever listens. A request that reaches one of these handlers came at
another time, or by a listener without SASL: ILLEGAL_SASL_STATE, of brokers and controllers alike. No
permission is needed.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.serving.request_context import RequestContext

__all__ = ["authenticate", "handshake"]

_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


def handshake(
    services: object, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """The handler of SaslHandshake."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def authenticate(
    services: object, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """The handler of SaslAuthenticate."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE)
