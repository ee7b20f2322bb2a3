"""CreatePartitions (37): topics get more partitions. KIP-195, KIP-599.

Versions 0-3. 1: throttle time; 2: flexible; 3: a quota's answer. validate_only decides the same and writes
nothing. The answer waits for the commit, not for the brokers.

Authorization: ALTER on the topic. Since version 3 a quota refuses, before it throttles. A request without
any time is REQUEST_TIMED_OUT, as CreateTopics.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.services import ControllerServices
from controller.subjects.partition_growth import create_partitions
from controller.subjects.result import Decision, names_too_much
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.refusals import TOO_LARGE, create_partitions_refused
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

STRICT_QUOTA_SINCE: Final = 3


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

    controller, clock = services.controller, services.clock
    quota = services.mutation_quota(context, STRICT_QUOTA_SINCE)

    def decide(image: ClusterImage) -> Decision[CreatePartitionsResponse]:
        quota.begin(clock.monotonic_ms())
        return create_partitions(image, request, may_alter, controller.random_source, quota)

    def throttled(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.throttle_time_ms = quota.throttle_ms(clock.monotonic_ms())
        return response

    return controller.decide(decide, refuse).then(throttled)
