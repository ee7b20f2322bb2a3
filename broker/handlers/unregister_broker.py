"""UnregisterBroker (64): forwarded to the controller, who decides, authorizes and answers. KIP-631.

Version 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.UNREGISTER_BROKER)
def handle(
    services: BrokerServices, context: RequestContext, request: UnregisterBrokerRequest
) -> Pending[UnregisterBrokerResponse]:
    return services.controller.forward(request, context, refuse)


def refuse(_request: UnregisterBrokerRequest, error: ErrorCode) -> UnregisterBrokerResponse:
    """The controller could not be asked."""
    return UnregisterBrokerResponse(error_code=error, error_message=error.message)
