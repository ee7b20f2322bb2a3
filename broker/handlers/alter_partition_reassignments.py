"""AlterPartitionReassignments (45): forwarded to the controller, who decides, authorizes and answers.
KIP-455, KIP-860.

Versions 0-1. 1: the caller may forbid that the number of replicas changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.subjects.reassignment import alter_refused
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def handle(
    services: BrokerServices, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Pending[AlterPartitionReassignmentsResponse]:
    return services.controller.forward(request, context, alter_refused)
