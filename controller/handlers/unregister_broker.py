"""UnregisterBroker (64): a broker that will not come back is forgotten. KIP-631.

Version 0. Its partitions lose it from their ISRs and are led by others first, where there are any; they keep
it as a replica. A broker that still runs is forgotten all the same, and serves on until it notices that its
heartbeats are refused; it registers again at its next start. Needs ALTER on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: UnregisterBrokerRequest
) -> Pending[UnregisterBrokerResponse] | UnregisterBrokerResponse:
    if not context.allows_cluster(Operation.ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=error, error_message=error.message)
    return services.controller.unregister_broker(request)
