"""CreateTopics (19): forwarded to the controller, who decides, authorizes and answers. KIP-4, KIP-464,
KIP-525, KIP-599.

Versions 2-7. 2: throttle time; 4: -1 partitions or replicas mean the controller's default; 5: flexible, the
configs of what was created; 6: THROTTLING_QUOTA_EXCEEDED may come; 7: topic ids.

See `broker.controller_channel.forwarding` for the way there and `controller.handlers` for what is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.CREATE_TOPICS)
def handle(
    services: BrokerServices, context: RequestContext, request: CreateTopicsRequest
) -> Pending[CreateTopicsResponse]:
    return services.controller.forward(request, context, refuse)


def refuse(request: CreateTopicsRequest, error: ErrorCode) -> CreateTopicsResponse:
    """The controller could not be asked: every topic fails with the same error."""
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(
                topic.name, error_code=error, error_message=error.message
            )
            for topic in request.topics
        ]
    )
