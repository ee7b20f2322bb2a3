"""CreatePartitions (37): forwarded to the controller, who decides, authorizes and answers. KIP-195, KIP-599.

Versions 0-3. 1: throttle time; 2: flexible; 3: THROTTLING_QUOTA_EXCEEDED may come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.CREATE_PARTITIONS)
def handle(
    services: BrokerServices, context: RequestContext, request: CreatePartitionsRequest
) -> Pending[CreatePartitionsResponse]:
    return services.controller.forward(request, context, refuse)


def refuse(request: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    """The controller could not be asked: every topic fails with the same error."""
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[result(topic.name, error, error.message) for topic in request.topics]
    )
