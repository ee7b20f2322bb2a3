"""ListPartitionReassignments (46): partitions on the move, with the replicas that come and go. KIP-455.

Version 0. What is committed is shown, by the active controller alone. Authorization: DESCRIBE on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.reassignment import list_reassignments, list_refused
from protocol.errors import ErrorCode
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.request_context import RequestContext


@serves(ApiKey.LIST_PARTITION_REASSIGNMENTS, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not context.allows_cluster(Operation.DESCRIBE):
        return list_refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not services.controller.is_active:
        return list_refused(request, ErrorCode.NOT_CONTROLLER)
    return list_reassignments(services.controller.image, request)
