"""The APIs that only the controller decides: a broker carries them there and brings the answer back. KIP-590.

| API                              | versions | Kafka's proposals                  |
|----------------------------------|----------|------------------------------------|
| CreateTopics (19)                | 2-7      | KIP-4, KIP-464, KIP-525, KIP-599   |
| DeleteTopics (20)                | 1-6      | KIP-4, KIP-516, KIP-599            |
| CreateAcls (30)                  | 1-3      | KIP-140, KIP-290                   |
| DeleteAcls (31)                  | 1-3      | KIP-140, KIP-290                   |
| CreatePartitions (37)            | 0-3      | KIP-195, KIP-599                   |
| ElectLeaders (43)                | 0-2      | KIP-183, KIP-460                   |
| AlterPartitionReassignments (45) | 0-1      | KIP-455, KIP-860                   |
| ListPartitionReassignments (46)  | 0        | KIP-455                            |
| AlterClientQuotas (49)           | 0-1      | KIP-546                            |
| AlterUserScramCredentials (51)   | 0        | KIP-554                            |
| DescribeQuorum (55)              | 0-2      | KIP-595, KIP-836                   |
| UpdateFeatures (57)              | 0-2      | KIP-584, KIP-778                   |
| UnregisterBroker (64)            | 0        | KIP-631                            |
| AddRaftVoter (80)                | 0-1      | KIP-853, KIP-1186                  |
| RemoveRaftVoter (81)             | 0        | KIP-853                            |

What the versions promise, who may ask and what is left out stands in the module of the same name in
`controller.handlers`, of the last two in its `raft_requests`; the way there is
`broker.controller_channel.forwarding`. Nothing is authorized here: the controller asks its authorizer in the
client's name. If it cannot be asked, this broker answers for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from broker.services import HasController
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterResponse
from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from protocol.messages.unregister_broker import UnregisterBrokerResponse
from protocol.messages.update_features import UpdateFeaturesResponse
from protocol.refusals import (
    alter_client_quotas_refused,
    alter_partition_reassignments_refused,
    alter_user_scram_credentials_refused,
    create_acls_refused,
    create_partitions_refused,
    create_topics_refused,
    delete_acls_refused,
    delete_topics_refused,
    elect_leaders_refused,
    list_partition_reassignments_refused,
)
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

Refuse = Callable[[Any, ErrorCode, int], Message]
"""Makes the answer from a request, the error and the request's version, if the controller cannot be asked."""

FORWARDED: Final[Mapping[ApiKey, Refuse]] = MappingProxyType(
    {
        ApiKey.CREATE_TOPICS: lambda asked, error, _: create_topics_refused(asked, error, error.message),
        ApiKey.DELETE_TOPICS: lambda asked, error, _: delete_topics_refused(asked, error, None),
        ApiKey.CREATE_ACLS: lambda asked, error, _: create_acls_refused(asked, error, error.message),
        ApiKey.DELETE_ACLS: lambda asked, error, _: delete_acls_refused(asked, error, error.message),
        ApiKey.CREATE_PARTITIONS: lambda asked, error, _: create_partitions_refused(
            asked, error, error.message
        ),
        ApiKey.ELECT_LEADERS: lambda asked, error, version: elect_leaders_refused(
            asked, error, None, version
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda asked, error, _: alter_partition_reassignments_refused(
            asked, error
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda asked, error, _: list_partition_reassignments_refused(
            asked, error
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: lambda asked, error, _: alter_client_quotas_refused(
            asked, error, error.message
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda asked, error, _: alter_user_scram_credentials_refused(
            asked, error, error.message
        ),
        ApiKey.DESCRIBE_QUORUM: lambda _asked, error, _: DescribeQuorumResponse(
            error_code=error, error_message=error.message
        ),
        ApiKey.UPDATE_FEATURES: lambda _asked, error, _: UpdateFeaturesResponse(
            error_code=error, error_message=error.message
        ),
        ApiKey.UNREGISTER_BROKER: lambda _asked, error, _: UnregisterBrokerResponse(
            error_code=error, error_message=error.message
        ),
        ApiKey.ADD_RAFT_VOTER: lambda _asked, error, _: AddRaftVoterResponse(
            error_code=error, error_message=error.message
        ),
        ApiKey.REMOVE_RAFT_VOTER: lambda _asked, error, _: RemoveRaftVoterResponse(
            error_code=error, error_message=error.message
        ),
    }
)


def handle(services: HasController, context: RequestContext, request: Message) -> Pending[Any]:
    """Serves every API of `FORWARDED`."""
    refuse = FORWARDED[ApiKey(context.api_key)]
    return services.controller.forward(
        request, context, lambda asked, error: refuse(asked, error, context.version)
    )
