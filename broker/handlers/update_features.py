"""UpdateFeatures (57): forwarded to the controller, who decides, authorizes and answers. KIP-584, KIP-778.

Versions 0-2. 1: kinds of change, dry run; 2: one answer for all features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.UPDATE_FEATURES)
def handle(
    services: BrokerServices, context: RequestContext, request: UpdateFeaturesRequest
) -> Pending[UpdateFeaturesResponse]:
    return services.controller.forward(request, context, refuse)


def refuse(_request: UpdateFeaturesRequest, error: ErrorCode) -> UpdateFeaturesResponse:
    """The controller could not be asked."""
    return UpdateFeaturesResponse(error_code=error, error_message=error.message)
