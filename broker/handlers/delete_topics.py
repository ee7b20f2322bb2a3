"""DeleteTopics (20): forwarded to the controller, who decides, authorizes and answers. KIP-4, KIP-516,
KIP-599.

Versions 1-6. 1: throttle time; 3: TOPIC_DELETION_DISABLED may come; 4: flexible; 5: a text beside the
error, and THROTTLING_QUOTA_EXCEEDED may come; 6: topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices

Result: Final = DeleteTopicsResponse.DeletableTopicResult


@serves(ApiKey.DELETE_TOPICS)
def handle(
    services: BrokerServices, context: RequestContext, request: DeleteTopicsRequest
) -> Pending[DeleteTopicsResponse]:
    return services.controller.forward(request, context, refuse)


def refuse(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    """The controller could not be asked: every topic fails with the same error."""
    results = [Result(topic.name, topic.topic_id, error) for topic in request.topics]
    results += [Result(name, error_code=error) for name in request.topic_names]
    return DeleteTopicsResponse(0, results)
