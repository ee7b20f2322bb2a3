"""Vote (52): a candidate, or one that thinks of standing, asks for a vote. KIP-595, KIP-853, KIP-996.

Versions 0-2. 1 brings directory ids and the leader's address, 2 pre-votes. The rules are in
`controller.raft.elections`. Needs CLUSTER_ACTION.
"""

from __future__ import annotations

from controller.services import ControllerServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation
from protocol.serving.handler_table import LISTENER_CONTROLLER, serves
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


@serves(ApiKey.VOTE, listener=LISTENER_CONTROLLER)
def handle(
    services: ControllerServices, context: RequestContext, request: VoteRequest
) -> VoteResponse | Pending[Message]:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return services.log.ask(request, version=context.version, listener=context.session.listener)
