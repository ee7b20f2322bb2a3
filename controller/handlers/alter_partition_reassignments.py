"""AlterPartitionReassignments (45): partitions move to other replicas, or stay after all. KIP-455, KIP-860.

Versions 0-1. 1: the caller may forbid that the number of replicas changes. The answer says that a move was
begun; `ListPartitionReassignments` says whether it goes on. Authorization: ALTER on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.reassignment import alter_reassignments
from controller.subjects.result import names_too_much
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.refusals import alter_partition_reassignments_refused
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Pending[AlterPartitionReassignmentsResponse] | AlterPartitionReassignmentsResponse:
    if not context.allows_cluster(Operation.ALTER):
        return alter_partition_reassignments_refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.timeout_ms <= 0:
        return alter_partition_reassignments_refused(request, ErrorCode.REQUEST_TIMED_OUT)
    if names_too_much(request):
        return alter_partition_reassignments_refused(request, ErrorCode.POLICY_VIOLATION)
    controller = services.controller
    return controller.decide(
        lambda image: alter_reassignments(image, request, controller.rules.leadership(image)),
        lambda error: alter_partition_reassignments_refused(request, error),
    )
