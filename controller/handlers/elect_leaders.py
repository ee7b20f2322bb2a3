"""ElectLeaders (43): preferred and unclean elections on demand. KIP-183, KIP-460.

Versions 0-2. 1: the kind of election, an error for the whole; 2: flexible. Authorization: ALTER on the
cluster.
"""

from __future__ import annotations

from config.limits import NAMED_PER_REQUEST
from controller.services import ControllerServices
from controller.subjects.elections import elect_leaders, refused
from controller.subjects.result import TOO_LARGE
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


@serves(ApiKey.ELECT_LEADERS, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: ElectLeadersRequest
) -> Pending[ElectLeadersResponse] | ElectLeadersResponse:
    def refuse(error: ErrorCode) -> ElectLeadersResponse:
        return refused(request, error, version=context.version)

    if not context.allows_cluster(Operation.ALTER):
        return refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.timeout_ms <= 0:
        return refuse(ErrorCode.REQUEST_TIMED_OUT)
    if sum(len(topic.partitions) for topic in request.topic_partitions or ()) > NAMED_PER_REQUEST:
        return refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE, version=context.version)
    return services.controller.decide(lambda image: elect_leaders(image, request), refuse)
