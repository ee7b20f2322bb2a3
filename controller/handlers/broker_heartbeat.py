"""BrokerHeartbeat (63): a broker lives, wishes to be unfenced, or wishes to go. KIP-631, KIP-841, KIP-858,
KIP-1066.

Versions 0-2. 1 names directories that went offline, 2 those that take no new replicas. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: BrokerHeartbeatRequest
) -> Pending[BrokerHeartbeatResponse] | BrokerHeartbeatResponse:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return BrokerHeartbeatResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.controller.heartbeat(request)
