"""BrokerRegistration (62): a broker comes to life. KIP-631, KIP-858, KIP-866, KIP-903, KIP-966.

Versions 0-4. 2 brings the log directories' ids, 3 the epoch of the broker's life before, 4 features at
level 0. The answer carries the broker's epoch; it waits for the commit, and the broker is fenced until its
heartbeats say that it has caught up. Needs CLUSTER_ACTION. Left out: a registration without directories
(below version 2) is refused, and an unclean end of the life before is not looked at (that belongs to
eligible leader replicas).
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: BrokerRegistrationRequest
) -> Pending[BrokerRegistrationResponse] | BrokerRegistrationResponse:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return BrokerRegistrationResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.controller.register_broker(request, context.version)
