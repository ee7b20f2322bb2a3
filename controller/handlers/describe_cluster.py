"""DescribeCluster (60) at a controller: the controllers of the cluster. KIP-700, KIP-919, KIP-1073.

Versions 0-2. 1 brings the endpoint type: only type 2 (controllers) is answered here, so version 0, which
means brokers, never is. Controllers are listed with their endpoint of the listener that was asked.
controller_id is the active one's. Needs ALTER on the cluster, more than a broker asks for its list.
"""

from __future__ import annotations

from typing import Final

from controller.services import ControllerServices
from protocol.authorized_operations import NOT_ASKED, cluster_operations
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.registry import ApiKey
from protocol.serving import LISTENER_CONTROLLER, Operation, RequestContext, serves

BROKERS: Final = 1
CONTROLLERS: Final = 2


@serves(ApiKey.DESCRIBE_CLUSTER, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if not context.allows_cluster(Operation.ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClusterResponse(error_code=error, error_message=error.message)
    if request.endpoint_type != CONTROLLERS:
        return _wrong_endpoint(context.version, request.endpoint_type)
    controllers = services.controller.image.controllers.by_id
    listed = []
    for controller_id in sorted(controllers):
        endpoint = controllers[controller_id].endpoints.get(context.session.listener)
        if endpoint is not None:
            listed.append(
                DescribeClusterResponse.DescribeClusterBroker(
                    broker_id=controller_id, host=endpoint.host, port=endpoint.port
                )
            )
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=services.log.leader.leader_id,
        brokers=listed,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _wrong_endpoint(version: int, endpoint_type: int) -> DescribeClusterResponse:
    """Versions before 1 do not know the code of a wrong endpoint."""
    wanted = "BROKER" if endpoint_type == BROKERS else "UNKNOWN"
    known = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    if endpoint_type != BROKERS:
        known = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    return DescribeClusterResponse(
        error_code=known if version >= 1 else ErrorCode.INVALID_REQUEST,
        error_message=(
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type "
            f"{wanted}"
        ),
    )
