"""The requests of the quorum itself, which the raft replica answers. KIP-595, KIP-853, KIP-996, KIP-1186.

| API                  | versions | needs          | rules in                     |
|----------------------|----------|----------------|------------------------------|
| Vote (52)            | 0-2      | CLUSTER_ACTION | `controller.raft.elections`  |
| BeginQuorumEpoch (53)| 0-1      | CLUSTER_ACTION | `controller.raft.epochs`     |
| EndQuorumEpoch (54)  | 0-1      | CLUSTER_ACTION | `controller.raft.epochs`     |
| AddRaftVoter (80)    | 0-1      | ALTER          | `controller.raft.membership` |
| RemoveRaftVoter (81) | 0        | ALTER          | `controller.raft.membership` |
| UpdateRaftVoter (82) | 0        | CLUSTER_ACTION | `controller.raft.membership` |

Vote: a candidate asks for a vote; 1 brings directory ids and the leader's address, 2 asks before it stands
(pre-votes). BeginQuorumEpoch: a leader makes itself known to a voter. EndQuorumEpoch: a leader resigns and
says who should stand first. Both have directory ids and addresses since version 1. AddRaftVoter: an operator,
or a controller itself, adds a voter; since version 1 the answer may come before the change is committed.
RemoveRaftVoter: an operator takes a voter out. UpdateRaftVoter: a voter tells its addresses and versions.
Only the leader changes the voters, one at a time, itself too.

Fetch and FetchSnapshot have modules of their own, since they carry the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from controller.services import ControllerServices
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.registry import ApiKey, api
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

NEEDED: Final[Mapping[ApiKey, Operation]] = MappingProxyType(
    {
        ApiKey.VOTE: Operation.CLUSTER_ACTION,
        ApiKey.BEGIN_QUORUM_EPOCH: Operation.CLUSTER_ACTION,
        ApiKey.END_QUORUM_EPOCH: Operation.CLUSTER_ACTION,
        ApiKey.ADD_RAFT_VOTER: Operation.ALTER,
        ApiKey.REMOVE_RAFT_VOTER: Operation.ALTER,
        ApiKey.UPDATE_RAFT_VOTER: Operation.CLUSTER_ACTION,
    }
)
"""The right on the cluster that each API needs."""


def handle(
    services: ControllerServices, context: RequestContext, request: Message
) -> Message | Pending[Message]:
    """Serves every API of `NEEDED`."""
    key = ApiKey(context.api_key)
    if not context.allows_cluster(NEEDED[key]):
        response: type[Any] = api(key).response
        refused: Message = response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return refused
    return services.log.ask(request, version=context.version, listener=context.session.listener)
