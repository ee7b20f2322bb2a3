"""SaslAuthenticate (36): a client's token in a SASL exchange. KIP-152, KIP-368.

Versions 0-2. As on a broker's listener, a token that belongs to an exchange does not come this far. One that
does came after the authentication, or by a listener without SASL: ILLEGAL_SASL_STATE. It needs no permission.
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
