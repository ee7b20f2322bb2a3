"""AddRaftVoter (80): an operator, or a controller itself, adds a voter to the quorum. KIP-853, KIP-1186.

Versions 0-1. 1 lets the answer come before the change is committed. Only the leader does it, one at a time;
the rules are in `controller.raft.membership`. Needs ALTER on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


@serves(ApiKey.ADD_RAFT_VOTER, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse | Pending[Message]:
    if not context.allows_cluster(Operation.ALTER):
        return AddRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.log.ask(request, version=context.version, listener=context.session.listener)
