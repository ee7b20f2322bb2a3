"""DescribeQuorum (55): who votes on the metadata log, who leads, who lags. Forwarded to the controller.
KIP-595, KIP-836.

Versions 0-2. 1: when a replica last fetched and last was level; 2: directory ids, endpoints, a text beside
the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.registry import ApiKey
from protocol.serving.handler_table import serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.services import BrokerServices


@serves(ApiKey.DESCRIBE_QUORUM)
def handle(
    services: BrokerServices, context: RequestContext, request: DescribeQuorumRequest
) -> Pending[DescribeQuorumResponse]:
    return services.controller.forward(request, context, refuse)


def refuse(request: DescribeQuorumRequest, error: ErrorCode) -> DescribeQuorumResponse:
    """The controller could not be asked."""
    return DescribeQuorumResponse(error_code=error, error_message=error.message)
