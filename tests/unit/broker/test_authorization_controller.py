"""The controller listener and a caller who may do nothing: errors, nothing told, nothing changed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from controller.handler_table import controller_handlers
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from protocol.messages.controller_registration import ControllerRegistrationRequest
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.envelope import EnvelopeRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from protocol.messages.vote import VoteRequest
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.authorized_operations import OPERATIONS
from protocol.serving.pending import Pending
from protocol.serving.session import Session
from tests.support.rigs.authorizers import AskedAuthorizer, HandmadeAuthorizer
from tests.support.rigs.controllers import ControllerFixture, registration

CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


class DenyAll(HandmadeAuthorizer):
    def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        return False


CASES: Final[dict[ApiKey, tuple[Message, list[int]]]] = {
    ApiKey.API_VERSIONS: (ApiVersionsRequest("x", "1"), []),
    ApiKey.SASL_HANDSHAKE: (SaslHandshakeRequest("PLAIN"), [ErrorCode.ILLEGAL_SASL_STATE]),
    ApiKey.SASL_AUTHENTICATE: (SaslAuthenticateRequest(b""), [ErrorCode.ILLEGAL_SASL_STATE]),
    ApiKey.ALLOCATE_PRODUCER_IDS: (AllocateProducerIdsRequest(1, 1), [CLUSTER]),
    ApiKey.ALTER_PARTITION: (AlterPartitionRequest(1, 1), [CLUSTER]),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (AssignReplicasToDirsRequest(1, 1), [CLUSTER]),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData() for _ in range(2)]),
        [CLUSTER, CLUSTER],
    ),
    ApiKey.BROKER_REGISTRATION: (registration(2), [CLUSTER]),
    ApiKey.BROKER_HEARTBEAT: (BrokerHeartbeatRequest(1, 1), [CLUSTER]),
    ApiKey.CONTROLLER_REGISTRATION: (ControllerRegistrationRequest(1), [CLUSTER]),
    ApiKey.CREATE_TOPICS: (
        CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in ("t", "new")]),
        [TOPIC, TOPIC],
    ),
    ApiKey.DELETE_TOPICS: (
        DeleteTopicsRequest(
            [DeleteTopicsRequest.DeleteTopicState(name) for name in ("t", "nowhere")], timeout_ms=9
        ),
        [TOPIC, TOPIC],
    ),
    ApiKey.CREATE_ACLS: (
        CreateAclsRequest([CreateAclsRequest.AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in "ab"]),
        [CLUSTER, CLUSTER],
    ),
    ApiKey.DELETE_ACLS: (
        DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(1, None, 1, None, None, 1, 1)]),
        [CLUSTER],
    ),
    ApiKey.DESCRIBE_ACLS: (DescribeAclsRequest(1, None, 1, None, None, 1, 1), [CLUSTER]),
    ApiKey.DESCRIBE_CLUSTER: (DescribeClusterRequest(True, 2), [CLUSTER]),
    ApiKey.DESCRIBE_CONFIGS: (
        DescribeConfigsRequest(
            [
                DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
                for kind, name in ((2, "t"), (4, "1"), (16, "m"), (32, "g"))
            ]
        ),
        [TOPIC, CLUSTER, CLUSTER, GROUP],
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    kind, name, [IncrementalAlterConfigsRequest.AlterableConfig("root", 0, "DEBUG")]
                )
                for kind, name in ((2, "t"), (4, "1"), (16, "m"), (32, "g"), (8, "1"))
            ]
        ),
        [TOPIC, CLUSTER, CLUSTER, GROUP, CLUSTER],
    ),
    ApiKey.ALTER_CONFIGS: (
        AlterConfigsRequest(
            [
                AlterConfigsRequest.AlterConfigsResource(kind, name, [])
                for kind, name in ((2, "t"), (4, ""), (16, "m"), (32, "g"))
            ]
        ),
        [TOPIC, CLUSTER, CLUSTER, GROUP],
    ),
    ApiKey.ADD_RAFT_VOTER: (AddRaftVoterRequest(), [CLUSTER]),
    ApiKey.BEGIN_QUORUM_EPOCH: (BeginQuorumEpochRequest(), [CLUSTER]),
    ApiKey.END_QUORUM_EPOCH: (EndQuorumEpochRequest(), [CLUSTER]),
    ApiKey.REMOVE_RAFT_VOTER: (RemoveRaftVoterRequest(), [CLUSTER]),
    ApiKey.UPDATE_RAFT_VOTER: (UpdateRaftVoterRequest(), [CLUSTER]),
    ApiKey.UNREGISTER_BROKER: (UnregisterBrokerRequest(1), [CLUSTER]),
    ApiKey.UPDATE_FEATURES: (UpdateFeaturesRequest(9), [CLUSTER]),
    ApiKey.VOTE: (VoteRequest(), [CLUSTER]),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DescribeUserScramCredentialsRequest(), [CLUSTER]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        AlterUserScramCredentialsRequest(
            [AlterUserScramCredentialsRequest.ScramCredentialDeletion(user, 1) for user in ("a", "b")]
        ),
        [CLUSTER, CLUSTER],
    ),
    ApiKey.DESCRIBE_QUORUM: (DescribeQuorumRequest(), [CLUSTER]),
    ApiKey.ENVELOPE: (EnvelopeRequest(b"", None, b""), [CLUSTER]),
    ApiKey.FETCH: (FetchRequest(), [CLUSTER]),
    ApiKey.CREATE_PARTITIONS: (
        CreatePartitionsRequest(
            [CreatePartitionsRequest.CreatePartitionsTopic(name, 5, None) for name in ("t", "nowhere")],
            9,
        ),
        [TOPIC, TOPIC],
    ),
    ApiKey.ELECT_LEADERS: (
        ElectLeadersRequest(0, [ElectLeadersRequest.TopicPartitions("t", [0])]),
        [CLUSTER, CLUSTER],
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (AlterPartitionReassignmentsRequest(), [CLUSTER]),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (ListPartitionReassignmentsRequest(), [CLUSTER]),
    ApiKey.FETCH_SNAPSHOT: (FetchSnapshotRequest(), [CLUSTER]),
}


RIGHTS: Final = "; ".join(f"({operation.name})" for operation in OPERATIONS[ResourceType.CLUSTER])
QUESTIONS: Final = {
    ApiKey.SASL_HANDSHAKE: ("", ""),
    ApiKey.API_VERSIONS: ("", ""),
    ApiKey.SASL_AUTHENTICATE: ("", ""),
    ApiKey.ALLOCATE_PRODUCER_IDS: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.ALTER_PARTITION: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.BROKER_REGISTRATION: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.BROKER_HEARTBEAT: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.CONTROLLER_REGISTRATION: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.CREATE_TOPICS: (
        "(CREATE); CREATE TOPIC t; CREATE TOPIC new",
        "(CREATE); (DESCRIBE_CONFIGS TOPIC new)",
    ),
    ApiKey.DELETE_TOPICS: ("(DELETE); DESCRIBE TOPIC t; DESCRIBE TOPIC nowhere", "(DELETE)"),
    ApiKey.CREATE_ACLS: ("ALTER", "ALTER"),
    ApiKey.DELETE_ACLS: ("ALTER", "ALTER"),
    ApiKey.DESCRIBE_ACLS: ("DESCRIBE", "DESCRIBE"),
    ApiKey.ALTER_CLIENT_QUOTAS: ("ALTER_CONFIGS", "ALTER_CONFIGS"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("DESCRIBE", "DESCRIBE"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("ALTER", "ALTER"),
    ApiKey.DESCRIBE_CLUSTER: ("ALTER", f"ALTER; DESCRIBE; {RIGHTS}"),
    ApiKey.DESCRIBE_CONFIGS: ("DESCRIBE_CONFIGS TOPIC t; DESCRIBE_CONFIGS; DESCRIBE_CONFIGS GROUP g",) * 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        "CLUSTER_ACTION; ALTER_CONFIGS TOPIC t; ALTER_CONFIGS; ALTER_CONFIGS GROUP g",
    )
    * 2,
    ApiKey.ALTER_CONFIGS: (
        "ALTER_CONFIGS TOPIC t; ALTER_CONFIGS; ALTER_CONFIGS GROUP g",
        "ALTER_CONFIGS TOPIC t; ALTER_CONFIGS; ALTER_CONFIGS GROUP g",
    ),
    ApiKey.ADD_RAFT_VOTER: ("ALTER", "ALTER"),
    ApiKey.BEGIN_QUORUM_EPOCH: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.END_QUORUM_EPOCH: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.REMOVE_RAFT_VOTER: ("ALTER", "ALTER"),
    ApiKey.UPDATE_RAFT_VOTER: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.UNREGISTER_BROKER: ("ALTER", "ALTER"),
    ApiKey.UPDATE_FEATURES: ("ALTER", "ALTER"),
    ApiKey.VOTE: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.DESCRIBE_QUORUM: ("DESCRIBE", "DESCRIBE"),
    ApiKey.ENVELOPE: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.FETCH: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    ApiKey.CREATE_PARTITIONS: ("ALTER TOPIC t; ALTER TOPIC nowhere", "ALTER TOPIC t; ALTER TOPIC nowhere"),
    ApiKey.ELECT_LEADERS: ("ALTER", "ALTER"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("ALTER", "ALTER"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("DESCRIBE", "DESCRIBE"),
    ApiKey.FETCH_SNAPSHOT: ("CLUSTER_ACTION", "CLUSTER_ACTION"),
}
"""What Apache Kafka 4.3.1 asks of an authorizer that denies everything, and of one that allows everything;
how it is written says `AskedAuthorizer`."""


def codes(value: Any) -> list[int]:
    """All error codes of an answer that are not 0."""
    if isinstance(value, list):
        return [code for item in value for code in codes(item)]
    found: list[int] = []
    for name in getattr(value, "__struct_fields__", ()):
        inner = getattr(value, name)
        found += [inner] if name == "error_code" and inner else codes(inner)
    return found


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    topic = CreateTopicsRequest.CreatableTopic("t", 1, 1)
    assert fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic])).topics[0].error_code == 0
    fixture.authorizer = DenyAll()  # type: ignore[assignment]
    return fixture


def test_every_api_of_the_listener_is_in_the_table() -> None:
    table = controller_handlers()
    served = {key for key in ApiKey if table.get(key) is not None}
    assert served == set(CASES) == set(QUESTIONS)


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_nothing_is_allowed(fixture: ControllerFixture, key: ApiKey) -> None:
    request, expected = CASES[key]
    end, image = fixture.log.end_offset, fixture.controller.image
    answer = fixture.call(key, request)
    assert not isinstance(answer, Pending)
    assert codes(answer) == expected
    assert "topic_id=b'\\x0" not in repr(answer) or key in (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS)
    for topic in getattr(answer, "topics", ()) or getattr(answer, "responses", ()):
        assert getattr(topic, "topic_id", bytes(16)) == bytes(16), "an id that nobody may know"
    assert fixture.log.end_offset == end
    assert fixture.controller.image is image


def asked(key: ApiKey, answer: bool) -> str:
    """The questions to an authorizer that denies everything, or allows everything."""
    fixture = ControllerFixture()
    fixture.bring_up(1)
    fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)]))
    fixture.authorizer = authorizer = AskedAuthorizer(answer)  # type: ignore[assignment]
    fixture.call(key, CASES[key][0])
    return "; ".join(authorizer.questions)


@pytest.mark.parametrize("key", QUESTIONS, ids=lambda key: key.name)
def test_what_an_api_asks(key: ApiKey) -> None:
    assert (asked(key, False), asked(key, True)) == QUESTIONS[key]
