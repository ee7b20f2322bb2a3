"""SaslAuthenticate (36): a client's token in a SASL exchange. KIP-152, KIP-368.

Versions 0-2. 1: how long the session lasts; 2: flexible. Tokens that belong to an exchange are
`broker.security.sasl_gate`'s. One that reaches this handler came after the authentication, or by a listener
without SASL: ILLEGAL_SASL_STATE. No permission is needed.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.serving.request_context import RequestContext

_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


def handle(
    services: object, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE)
