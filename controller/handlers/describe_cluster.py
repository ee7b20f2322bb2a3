"""DescribeCluster (60) at a controller: the controllers of the cluster. KIP-700, KIP-919, KIP-1073.

Versions 0-2. 1 brings the endpoint type: only type 2 (controllers) is answered here, so version 0, which
means brokers, never is. Controllers are listed with their endpoint of the listener that was asked.
controller_id is the active one's, or -1 if that one is not listed. Needs ALTER on the cluster, more than a
broker asks for its list. Below `metadata.version` 3.7-IV0, where the log cannot hold controllers' addresses,
it is refused with UNSUPPORTED_VERSION, so that tools with --bootstrap-controller say at once what is wrong.

While no active controller is known, or known and not registered yet, the answer waits for a moment. Kafka's
admin client (4.3.1, with --bootstrap-controller) takes "none" for the last word: `add-controller`,
`remove-controller` and the like then do not ask again, and end after their 60 seconds with "Timed out waiting
for a node assignment". A controller that led and has removed itself is in that state for a second or two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.metadata.log import NO_LEADER
from controller.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL
from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.serving.authorization import Operation
from protocol.serving.authorized_operations import NOT_ASKED, cluster_operations
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

BROKERS: Final = 1
CONTROLLERS: Final = 2
LONGEST_WAIT_MS: Final = 5_000


def handle(
    services: ControllerServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse | Pending[DescribeClusterResponse]:
    if _is_too_old(services):
        return _too_old()
    if not context.allows_cluster(Operation.ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClusterResponse(error_code=error, error_message=error.message)
    if request.endpoint_type != CONTROLLERS:
        return _wrong_endpoint(context.version, request.endpoint_type)
    if _is_known(services):
        return _answer(services, context, request)
    return _wait(services, context, request)


def _is_known(services: ControllerServices) -> bool:
    """Whether the active controller and its address are known. Its registration is among the first records of
    its epoch."""
    return services.log.leader.leader_id in services.controller.image.controllers.by_id


def _is_too_old(services: ControllerServices) -> bool:
    """Whether the cluster is at a level at which the log has no addresses of controllers."""
    image = services.controller.image
    return not image.is_empty and image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL


def _too_old() -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Direct-to-controller communication is not supported with the current MetadataVersion.",
    )


def _wait(
    services: ControllerServices, context: RequestContext, request: DescribeClusterRequest
) -> Pending[DescribeClusterResponse]:
    """Looks again at each rise of the high watermark, because a new leader commits a record at once."""
    pending: Pending[DescribeClusterResponse] = Pending()
    deadline_ms = services.clock.monotonic_ms() + LONGEST_WAIT_MS

    def look() -> None:
        is_decided = _is_known(services) or _is_too_old(services)
        if not is_decided and services.clock.monotonic_ms() < deadline_ms:
            if not pending.done:
                wait_on()
            return
        tidy_up()
        pending.complete_by(lambda: _answer(services, context, request))

    def wait_on() -> None:
        # In the turn in which the watermark rises the new leader may not be announced yet.
        waits[0] = services.log.on_advance(lambda: services.timers.call_soon(look))

    def tidy_up() -> None:
        timer.cancel()
        for forget in waits:
            forget()

    waits: list[Callable[[], None]] = [lambda: None]
    timer = services.timers.call_at(deadline_ms, look)
    pending.on_cancel(tidy_up)
    wait_on()
    return pending


def _answer(
    services: ControllerServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if _is_too_old(services):
        return _too_old()
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
    leader_id = services.log.leader.leader_id
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=leader_id if any(each.broker_id == leader_id for each in listed) else NO_LEADER,
        brokers=listed,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _wrong_endpoint(version: int, endpoint_type: int) -> DescribeClusterResponse:
    """The error for a wrong endpoint type. Versions before 1 have no code for it."""
    if endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {endpoint_type}",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if version >= 1 else ErrorCode.INVALID_REQUEST,
        error_message=(
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        ),
    )
