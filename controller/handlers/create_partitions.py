"""CreatePartitions (37): topics get more partitions. KIP-195, KIP-599.

Versions 0-3. 1: throttle time; 2: flexible; 3: a quota's answer. validate_only decides the same and writes
nothing. The answer waits for the commit, not for the brokers.

Authorization: ALTER on the topic. Left out: controller mutation quotas. A request without any time is
REQUEST_TIMED_OUT, as CreateTopics.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.partition_growth import create_partitions
from controller.subjects.result import names_too_much
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.refusals import TOO_LARGE, create_partitions_refused
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: CreatePartitionsRequest
) -> Pending[CreatePartitionsResponse] | CreatePartitionsResponse:
    def refuse(error: ErrorCode, message: str | None = None) -> CreatePartitionsResponse:
        return create_partitions_refused(request, error, message)

    if request.timeout_ms <= 0:
        return refuse(ErrorCode.REQUEST_TIMED_OUT)
    if names_too_much(request):
        return refuse(ErrorCode.POLICY_VIOLATION, TOO_LARGE)

    def may_alter(topic: str) -> bool:
        return context.allows(Operation.ALTER, ResourceType.TOPIC, topic)

    controller = services.controller
    return controller.decide(
        lambda image: create_partitions(image, request, may_alter, controller.random_source), refuse
    )
