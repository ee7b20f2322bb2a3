"""AllocateProducerIds (67): the next block of 1000 producer ids for a broker. KIP-730.

Version 0. STALE_BROKER_EPOCH for a broker that is not registered in this epoch. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AllocateProducerIdsRequest
) -> Pending[AllocateProducerIdsResponse] | AllocateProducerIdsResponse:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.controller.allocate_producer_ids(request)
