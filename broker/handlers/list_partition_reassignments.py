"""ListPartitionReassignments (46): forwarded to the controller, who knows, authorizes and answers. KIP-455.

Version 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.subjects.reassignment import list_refused
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def handle(
    services: BrokerServices, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Pending[ListPartitionReassignmentsResponse]:
    return services.controller.forward(request, context, list_refused)
