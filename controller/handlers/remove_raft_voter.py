"""RemoveRaftVoter (81): an operator takes a voter out of the quorum. KIP-853.

Version 0. Only the leader does it, one at a time, itself too; the rules are in
`controller.raft.membership`. Needs ALTER on the cluster.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


@serves(ApiKey.REMOVE_RAFT_VOTER, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse | Pending[Message]:
    if not context.allows_cluster(Operation.ALTER):
        return RemoveRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.log.ask(request, version=context.version, listener=context.session.listener)
