"""DescribeCluster (60): the cluster's id, its brokers, and what the client may do with it. KIP-700, KIP-919.

Versions 0-2. 1: the client says whether it wants brokers or controllers; 2: fenced brokers on request.

On a broker's listener the controller id is any broker that lives, because all of them forward (KIP-590); it
is -1 if that one is not in the list, because it has no endpoint there.
Whoever asks here for controllers asked at the wrong kind of listener. No permission is needed for the list;
the operations are 0 for a client that may not DESCRIBE the cluster.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.metadata.cache import UNKNOWN_BROKER
from broker.services import HasClusterId, HasMetadata
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.serving.authorized_operations import NOT_ASKED, cluster_operations
from protocol.serving.request_context import RequestContext

BROKERS: Final = 1
CONTROLLERS: Final = 2


class DescribeClusterServices(HasClusterId, HasMetadata, Protocol):
    """What this handler needs of the broker's services."""


def handle(
    services: DescribeClusterServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    metadata = services.metadata
    view = metadata.view(context.session.listener)
    brokers = []
    for broker_id, endpoint in view.reachable.items():
        registration = view.brokers.by_id[broker_id]
        if registration.fenced and not request.include_fenced_brokers:
            continue
        brokers.append(
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id, endpoint.host, endpoint.port, registration.rack, registration.fenced
            )
        )
    controller_id = metadata.any_broker_id()
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=services.cluster_id,
        controller_id=controller_id if controller_id in view.reachable else UNKNOWN_BROKER,
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    """The client wanted something that this kind of listener does not have."""
    if endpoint_type != CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {endpoint_type}",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        error_message=(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        ),
    )
