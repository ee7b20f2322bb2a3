"""ElectLeaders (43): preferred and unclean elections on demand. KIP-183, KIP-460.

Versions 0-2. 1: the kind of election, an error for the whole; 2: flexible. Authorization: ALTER on the
cluster.
"""

from __future__ import annotations

from config.limits import NAMED_PER_REQUEST
from controller.services import ControllerServices
from controller.subjects.elections import Elections
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.refusals import TOO_LARGE, elect_leaders_refused
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: ElectLeadersRequest
) -> Pending[ElectLeadersResponse] | ElectLeadersResponse:
    def refuse(error: ErrorCode, message: str | None = None) -> ElectLeadersResponse:
        return elect_leaders_refused(request, error, message, context.version)

    if not context.allows_cluster(Operation.ALTER):
        return refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.timeout_ms <= 0:
        return refuse(ErrorCode.REQUEST_TIMED_OUT)
    if sum(len(topic.partitions) for topic in request.topic_partitions or ()) > NAMED_PER_REQUEST:
        return refuse(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    controller = services.controller
    return controller.decide(Elections(request, controller.rules.leadership).decide, refuse)
