"""CreatePartitions (37): topics get more partitions. KIP-195, KIP-599.

Versions 0-3. 1: throttle time; 2: flexible; 3: a quota's answer. validate_only decides the same and writes
nothing. The answer waits for the commit, not for the brokers.

Authorization: ALTER on the topic. Left out: controller mutation quotas. The request's timeout is for the wait
in Kafka's queue of events; here nothing waits in one.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.partition_growth import create_partitions
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.registry import ApiKey
from protocol.serving import (
    LISTENER_CONTROLLER,
    Operation,
    Pending,
    RequestContext,
    ResourceType,
    serves,
)


@serves(ApiKey.CREATE_PARTITIONS, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: CreatePartitionsRequest
) -> Pending[CreatePartitionsResponse]:
    def may_alter(topic: str) -> bool:
        return context.allows(Operation.ALTER, ResourceType.TOPIC, topic)

    def refuse(error: ErrorCode) -> CreatePartitionsResponse:
        result = CreatePartitionsResponse.CreatePartitionsTopicResult
        return CreatePartitionsResponse(
            results=[result(topic.name, error, error.message) for topic in request.topics]
        )

    controller = services.controller
    return controller.decide(
        lambda image: create_partitions(image, request, may_alter, controller.chance), refuse
    )
