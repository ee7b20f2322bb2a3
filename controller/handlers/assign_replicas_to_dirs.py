"""AssignReplicasToDirs (73): in which log directories the replicas of a broker lie. KIP-858.

Version 0. Per partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER where the
broker has no replica of it. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.metadata.image.cluster_image import ClusterImage
from controller.services import ControllerServices
from controller.subjects.directories import assign_replicas
from controller.subjects.result import Decision
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AssignReplicasToDirsRequest
) -> Pending[AssignReplicasToDirsResponse] | AssignReplicasToDirsResponse:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return AssignReplicasToDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller = services.controller

    def decide(image: ClusterImage) -> Decision[AssignReplicasToDirsResponse]:
        return assign_replicas(image, request, controller.rules.leadership(image))

    return controller.decide(decide, lambda code: AssignReplicasToDirsResponse(error_code=code))
