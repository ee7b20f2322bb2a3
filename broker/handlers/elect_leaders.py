"""ElectLeaders (43): forwarded to the controller, who decides, authorizes and answers. KIP-460.

Versions 0-2. 1: the kind of election, an error for the whole; 2: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.subjects.elections import refused
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.ELECT_LEADERS)
def handle(
    services: BrokerServices, context: RequestContext, request: ElectLeadersRequest
) -> Pending[ElectLeadersResponse]:
    return services.controller.forward(
        request, context, lambda asked, error: refused(asked, error, version=context.version)
    )
