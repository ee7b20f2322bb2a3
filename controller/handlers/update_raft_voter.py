"""UpdateRaftVoter (82): a voter tells its addresses and versions. KIP-853.

Version 0. Only the leader takes them; the rules are in `controller.raft.membership`. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


@serves(ApiKey.UPDATE_RAFT_VOTER, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse | Pending[Message]:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return UpdateRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.log.ask(request, version=context.version, listener=context.session.listener)
