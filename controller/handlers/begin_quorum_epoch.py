"""BeginQuorumEpoch (53): a leader makes itself known to a voter. KIP-595, KIP-853.

Versions 0-1. 1 brings directory ids and addresses. The rules are in `controller.raft.epochs`. Needs
CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


@serves(ApiKey.BEGIN_QUORUM_EPOCH, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse | Pending[Message]:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return BeginQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.log.ask(request, version=context.version, listener=context.session.listener)
