"""ListPartitionReassignments (46): partitions on the move, with the replicas that come and go. KIP-455.

Version 0. What is committed is shown, by the active controller alone. Authorization: DESCRIBE on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.reassignment import list_reassignments
from protocol.errors import ErrorCode
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.refusals import list_partition_reassignments_refused
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not context.allows_cluster(Operation.DESCRIBE):
        return list_partition_reassignments_refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not services.controller.is_active:
        return list_partition_reassignments_refused(request, ErrorCode.NOT_CONTROLLER)
    return list_reassignments(services.controller.image, request)
