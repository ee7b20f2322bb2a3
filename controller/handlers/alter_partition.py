"""AlterPartition (56): the leader of a partition asks for another ISR. KIP-497, KIP-704, KIP-841, KIP-903.

Versions 2-3. 3 names the broker epoch of each replica. Per partition: UNKNOWN_TOPIC_ID,
UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST,
INELIGIBLE_REPLICA, NEW_LEADER_ELECTED. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.alter_partition import Alterations
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AlterPartitionRequest
) -> Pending[AlterPartitionResponse] | AlterPartitionResponse:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller = services.controller
    alterations = Alterations(request, context.version, controller.rules.leadership)
    return controller.decide(alterations.decide, lambda code: AlterPartitionResponse(error_code=code))
