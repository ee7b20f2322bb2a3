"""A client that may do nothing at all: what each API tells it, and what it leaves out.

The broker first lives a little without an authorizer, then starts again with one that allows nothing (Apache
Kafka: its own authorizer, no ACLs, its internal traffic on a listener with passwords). The codes were learned
from Apache Kafka, and BARNABAS_TEST_AGAINST=kafka asks it again. Every API that is served is in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.ports import free_ports
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.topics import Topics
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.questions.config_steps import change, put, replace
from tests.support.samples import bad_batches as bad

TOPIC, GROUP, CLUSTER, TXN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
LOGIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="p" user_node="p";'
)


class Case(NamedTuple):
    """A request (for the id of topic `secret`), the version, and every error code of the answer."""

    make: Callable[[bytes], Message]
    version: int
    codes: tuple[int, ...]
    first_version: int | None = None
    """The same answer is expected from this version on."""


def _produce(name: str = "", topic_id: bytes = bytes(16), transactional_id: str | None = None) -> Message:
    batch = bad.good()
    if transactional_id is not None:
        batch = bad.lying(batch, attributes=16, producer_id=1, producer_epoch=0, base_sequence=0)
    part = ProduceRequest.PartitionProduceData(0, batch)
    topics = [ProduceRequest.TopicProduceData(name, topic_id, [part])]
    if name:
        topics.append(ProduceRequest.TopicProduceData("nowhere", topic_id, [part]))
    return ProduceRequest(transactional_id, -1, 1000, topics)


def _fetch(*names: str, topic_id: bytes = bytes(16), replica_id: int = -1) -> Message:
    part = FetchRequest.FetchPartition(0, partition_max_bytes=1000)
    topics = [FetchRequest.FetchTopic(name, topic_id, [part]) for name in names]
    return FetchRequest(replica_id=replica_id, max_wait_ms=0, max_bytes=1000, session_epoch=-1, topics=topics)


def _list_offsets(*names: str) -> Message:
    part = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=-1)
    return ListOffsetsRequest(
        -1, topics=[ListOffsetsRequest.ListOffsetsTopic(name, [part]) for name in names]
    )


def _epochs(*names: str) -> Message:
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition()
    cls = OffsetForLeaderEpochRequest
    return cls(-1, topics=[cls.OffsetForLeaderTopic(name, [part]) for name in names])


def _metadata(*topics: tuple[str | None, bytes]) -> Message:
    wanted = [MetadataRequest.MetadataRequestTopic(topic_id, name) for name, topic_id in topics]
    return MetadataRequest(wanted, True)


def _create(*names: str, validate_only: bool = False) -> Message:
    topics = [CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in names]
    return CreateTopicsRequest(topics, 5000, validate_only)


def _move(*names: str) -> Message:
    cls = AlterReplicaLogDirsRequest
    return cls([cls.AlterReplicaLogDir("/x", [cls.AlterReplicaLogDirTopic(name, [0]) for name in names])])


def _cut(*names: str) -> Message:
    cls = DeleteRecordsRequest
    part = cls.DeleteRecordsPartition(0, 1)
    return cls([cls.DeleteRecordsTopic(name, [part]) for name in names], 1000)


def _reassign(name: str) -> Message:
    cls = AlterPartitionReassignmentsRequest
    return cls(1000, True, [cls.ReassignableTopic(name, [cls.ReassignablePartition(0, [1])])])


def _moving(name: str) -> Message:
    cls = ListPartitionReassignmentsRequest
    return cls(1000, [cls.ListPartitionReassignmentsTopics(name, [0])])


def _configs(*resources: tuple[int, str]) -> Message:
    cls = DescribeConfigsRequest
    return cls([cls.DescribeConfigsResource(kind, name, None) for kind, name in resources])


def _entry(*names: str) -> Message:
    cls = CreateAclsRequest
    return cls([cls.AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in names])


def _commit(*names: str) -> Message:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name, partitions=[part]) for name in names]
    return OffsetCommitRequest("group", topics=topics)


def _offsets(version: int) -> Message:
    cls = OffsetFetchRequest
    if version < 8:
        return cls("group", [cls.OffsetFetchRequestTopic("secret", [0, 1])])
    groups = [cls.OffsetFetchRequestGroup(name, topics=None) for name in ("group", "other")]
    return cls(groups=groups)


def _add_partitions(version: int) -> Message:
    cls = AddPartitionsToTxnRequest
    topics = [cls.AddPartitionsToTxnTopic("secret", [0])]
    if version < 4:
        return cls([], "tx", 1, 0, topics)
    return cls([cls.AddPartitionsToTxnTransaction("tx", 1, 0, True, topics)])


def _mark() -> Message:
    cls = WriteTxnMarkersRequest
    return cls([cls.WritableTxnMarker(1, 0, True, [cls.WritableTxnMarkerTopic("secret", [0])], 0)])


def _limit(*users: str) -> Message:
    cls = AlterClientQuotasRequest
    changes = [cls.OpData("producer_byte_rate", 5.0)]
    return cls([cls.EntryData([cls.EntityData("user", user)], changes) for user in users])


def _set_password(*users: str) -> Message:
    cls = AlterUserScramCredentialsRequest
    return cls([], [cls.ScramCredentialUpsertion(user, 1, 4096, b"salt", b"salted") for user in users])


def _commit_in_transaction() -> Message:
    cls = TxnOffsetCommitRequest
    topic = cls.TxnOffsetCommitRequestTopic("secret", [cls.TxnOffsetCommitRequestPartition(0, 1)])
    return cls("tx", "group", 1, 0, topics=[topic])


NOTHING: Final = bytes(16)
CASES: Final = {
    "ApiVersions": Case(lambda _: ApiVersionsRequest("x", "1"), 4, ()),
    "SaslHandshake": Case(lambda _: SaslHandshakeRequest("PLAIN"), 1, (ErrorCode.ILLEGAL_SASL_STATE,), 0),
    "SaslAuthenticate": Case(lambda _: SaslAuthenticateRequest(b""), 2, (ErrorCode.ILLEGAL_SASL_STATE,), 0),
    "Produce": Case(lambda _: _produce("secret"), 12, (TOPIC, TOPIC), 3),
    "Produce by id": Case(lambda secret: _produce(topic_id=secret), 13, (TOPIC,)),
    "Produce by unknown id": Case(lambda _: _produce(topic_id=b"x" * 16), 13, (UNKNOWN_ID,)),
    "Produce in a transaction": Case(lambda _: _produce("secret", transactional_id="tx"), 12, (TXN, TXN)),
    "Fetch": Case(lambda _: _fetch("secret", "nowhere"), 12, (TOPIC, TOPIC), 4),
    "Fetch by id": Case(lambda secret: _fetch("", topic_id=secret), 17, (TOPIC,), 13),
    "Fetch by unknown id": Case(lambda _: _fetch("", topic_id=b"x" * 16), 17, (UNKNOWN_ID,), 13),
    "Fetch as a follower": Case(lambda _: _fetch("secret", replica_id=2), 12, (TOPIC,)),
    "ListOffsets": Case(lambda _: _list_offsets("secret", "nowhere"), 10, (TOPIC, TOPIC), 1),
    "OffsetForLeaderEpoch": Case(lambda _: _epochs("secret", "nowhere"), 4, (TOPIC, TOPIC), 2),
    "Metadata of all": Case(lambda _: MetadataRequest(None), 12, (), 1),
    "Metadata by name": Case(
        lambda _: _metadata(("secret", NOTHING), ("nowhere", NOTHING)), 12, (TOPIC, TOPIC), 4
    ),
    "Metadata by id": Case(lambda secret: _metadata((None, secret)), 12, (TOPIC,)),
    "Metadata by unknown id": Case(lambda _: _metadata((None, b"x" * 16)), 12, (UNKNOWN_ID,)),
    "DescribeTopicPartitions of all": Case(lambda _: DescribeTopicPartitionsRequest(), 0, ()),
    "DescribeTopicPartitions": Case(
        lambda _: DescribeTopicPartitionsRequest(
            [DescribeTopicPartitionsRequest.TopicRequest(name) for name in ("secret", "nowhere")]
        ),
        0,
        (TOPIC, TOPIC),
    ),
    "CreateTopics": Case(lambda _: _create("new", "secret"), 7, (TOPIC, TOPIC), 2),
    "CreateTopics, only to see": Case(lambda _: _create("new", validate_only=True), 7, (TOPIC,), 2),
    "CreateTopics, bad name": Case(lambda _: _create("bad/name"), 7, (TOPIC,)),
    "DeleteTopics": Case(
        lambda _: DeleteTopicsRequest([], ["secret", "nowhere"], 5000), 5, (TOPIC, TOPIC), 1
    ),
    "DeleteTopics by id": Case(
        lambda secret: DeleteTopicsRequest(
            [DeleteTopicsRequest.DeleteTopicState(None, secret)], timeout_ms=5000
        ),
        6,
        (TOPIC,),
    ),
    "CreatePartitions": Case(
        lambda _: CreatePartitionsRequest(
            [CreatePartitionsRequest.CreatePartitionsTopic(name, 5, None) for name in ("secret", "nowhere")],
            5000,
        ),
        3,
        (TOPIC, TOPIC),
        0,
    ),
    "DeleteRecords": Case(lambda _: _cut("secret", "nowhere"), 2, (TOPIC, TOPIC), 0),
    "ElectLeaders": Case(
        lambda _: ElectLeadersRequest(0, [ElectLeadersRequest.TopicPartitions("secret", [0, 1])]),
        2,
        (CLUSTER, CLUSTER, CLUSTER),
        1,
    ),
    "UpdateFeatures": Case(lambda _: UpdateFeaturesRequest(9), 2, (CLUSTER,)),
    "DescribeUserScramCredentials": Case(lambda _: DescribeUserScramCredentialsRequest(), 0, (CLUSTER,)),
    "AlterUserScramCredentials": Case(lambda _: _set_password("a", "b"), 0, (CLUSTER, CLUSTER)),
    "DescribeClientQuotas": Case(lambda _: DescribeClientQuotasRequest(), 1, (CLUSTER,), 0),
    "AlterClientQuotas": Case(lambda _: _limit("a", "b"), 1, (CLUSTER, CLUSTER), 0),
    "UnregisterBroker": Case(lambda _: UnregisterBrokerRequest(1), 0, (CLUSTER,)),
    "AddRaftVoter": Case(lambda _: AddRaftVoterRequest(None, 5000, 7, bytes(15) + b"\1"), 1, (CLUSTER,), 0),
    "RemoveRaftVoter": Case(lambda _: RemoveRaftVoterRequest(None, 1, bytes(15) + b"\1"), 0, (CLUSTER,)),
    "ElectLeaders everywhere": Case(lambda _: ElectLeadersRequest(0, None), 2, (CLUSTER,), 1),
    "AlterPartitionReassignments": Case(lambda _: _reassign("secret"), 1, (CLUSTER, CLUSTER), 0),
    "ListPartitionReassignments": Case(lambda _: _moving("secret"), 0, (CLUSTER,)),
    "DescribeCluster": Case(lambda _: DescribeClusterRequest(True), 2, (), 0),
    "CreateAcls": Case(lambda _: _entry("secret", "nowhere"), 3, (CLUSTER, CLUSTER), 1),
    "DeleteAcls": Case(
        lambda _: DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(1, None, 1, None, None, 1, 1)]),
        3,
        (CLUSTER,),
        1,
    ),
    "DescribeAcls": Case(lambda _: DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3, (CLUSTER,), 1),
    "DescribeConfigs": Case(
        lambda _: _configs((2, "secret"), (2, "nowhere"), (4, "1"), (8, "1"), (16, "m"), (32, "group")),
        4,
        (TOPIC, TOPIC, CLUSTER, CLUSTER, CLUSTER, GROUP),
    ),
    "IncrementalAlterConfigs": Case(
        lambda _: change(
            (2, "secret", [put("retention.ms", "1")]),
            (2, "nowhere", [put("retention.ms", "1")]),
            (4, "", [put("log.retention.ms", "1")]),
            (8, "1", [put("root", "TRACE")]),
            (16, "m", [put("interval.ms", "1000")]),
            (32, "group", [put("share.isolation.level", "read_committed")]),
        ),
        1,
        (TOPIC, TOPIC, CLUSTER, CLUSTER, CLUSTER, GROUP),
        0,
    ),
    "AlterConfigs": Case(
        lambda _: replace(
            (2, "secret", {}), (2, "nowhere", {}), (4, "1", {}), (16, "m", {}), (32, "group", {})
        ),
        2,
        (TOPIC, TOPIC, CLUSTER, CLUSTER, GROUP),
        0,
    ),
    "ListConfigResources": Case(lambda _: ListConfigResourcesRequest(), 1, (CLUSTER,), 0),
    "DescribeLogDirs": Case(lambda _: DescribeLogDirsRequest(None), 5, (CLUSTER,), 3),
    "DescribeLogDirs, no place for an error": Case(lambda _: DescribeLogDirsRequest(None), 2, (), 1),
    "AlterReplicaLogDirs": Case(lambda _: _move("secret", "nowhere"), 2, (CLUSTER, CLUSTER), 1),
    "DescribeProducers": Case(
        lambda _: DescribeProducersRequest(
            [DescribeProducersRequest.TopicRequest(name, [0]) for name in ("secret", "nowhere")]
        ),
        0,
        (TOPIC, TOPIC),
    ),
    "DescribeQuorum": Case(
        lambda _: DescribeQuorumRequest(
            [DescribeQuorumRequest.TopicData("__cluster_metadata", [DescribeQuorumRequest.PartitionData(0)])]
        ),
        2,
        (CLUSTER,),
        0,
    ),
    "InitProducerId": Case(lambda _: InitProducerIdRequest(None, 1000), 5, (CLUSTER,), 0),
    "InitProducerId in a transaction": Case(lambda _: InitProducerIdRequest("tx", 1000), 5, (TXN,), 0),
    "AddPartitionsToTxn": Case(lambda _: _add_partitions(3), 3, (TXN,), 0),
    "AddPartitionsToTxn of a broker": Case(lambda _: _add_partitions(5), 5, (CLUSTER,), 4),
    "AddOffsetsToTxn": Case(lambda _: AddOffsetsToTxnRequest("tx", 1, 0, "group"), 4, (TXN,), 0),
    "EndTxn": Case(lambda _: EndTxnRequest("tx", 1, 0, True), 5, (TXN,), 0),
    "WriteTxnMarkers": Case(lambda _: _mark(), 2, (CLUSTER,), 1),
    "TxnOffsetCommit": Case(lambda _: _commit_in_transaction(), 5, (TXN,), 0),
    "DescribeTransactions": Case(lambda _: DescribeTransactionsRequest(["tx"]), 0, (TXN,), 0),
    "ListTransactions": Case(lambda _: ListTransactionsRequest(), 2, (), 0),
    "FindCoordinator": Case(lambda _: FindCoordinatorRequest("group"), 3, (GROUP,), 0),
    "FindCoordinators": Case(
        lambda _: FindCoordinatorRequest("", 0, ["group", "other"]), 6, (GROUP, GROUP), 4
    ),
    "FindCoordinator of a transaction": Case(lambda _: FindCoordinatorRequest("", 1, ["tx"]), 5, (TXN,), 4),
    "JoinGroup": Case(
        lambda _: JoinGroupRequest(
            "group",
            10_000,
            10_000,
            "",
            None,
            "consumer",
            [JoinGroupRequest.JoinGroupRequestProtocol("range")],
        ),
        9,
        (GROUP,),
        0,
    ),
    "SyncGroup": Case(lambda _: SyncGroupRequest("group", 1, "m", None, "consumer", "range"), 5, (GROUP,), 5),
    "Heartbeat": Case(lambda _: HeartbeatRequest("group", 1, "m"), 4, (GROUP,), 0),
    "ConsumerGroupHeartbeat": Case(
        lambda _: ConsumerGroupHeartbeatRequest(
            "group", "m", 0, None, None, 1000, ["secret"], topic_partitions=[]
        ),
        0,
        (GROUP,),
    ),
    "ConsumerGroupDescribe": Case(lambda _: ConsumerGroupDescribeRequest(["group"]), 1, (GROUP,), 0),
    "LeaveGroup": Case(lambda _: LeaveGroupRequest("group", "m"), 2, (GROUP,), 0),
    "LeaveGroup, several": Case(
        lambda _: LeaveGroupRequest("group", members=[LeaveGroupRequest.MemberIdentity("m")]), 5, (GROUP,), 3
    ),
    "OffsetCommit": Case(lambda _: _commit("secret", "nowhere"), 9, (GROUP, GROUP), 2),
    "OffsetFetch": Case(lambda _: _offsets(7), 7, (GROUP,), 2),
    "OffsetFetch of groups": Case(lambda _: _offsets(9), 9, (GROUP, GROUP), 8),
    "DescribeGroups": Case(lambda _: DescribeGroupsRequest(["group", "other"], True), 6, (GROUP, GROUP), 3),
    "DeleteGroups": Case(lambda _: DeleteGroupsRequest(["group", "other"]), 2, (GROUP, GROUP), 0),
    "OffsetDelete": Case(lambda _: OffsetDeleteRequest("group"), 0, (GROUP,), 0),
    "ListGroups": Case(lambda _: ListGroupsRequest(), 5, (), 0),
}


class Secrets(NamedTuple):
    """A broker that allows nothing, and the id of the topic `secret`, which it has."""

    broker: AnyBroker
    topic_id: bytes


@pytest.fixture(scope="module")
def secrets(make_broker: Callable[..., AnyBroker]) -> Secrets:
    broker = make_broker({"group.initial.rebalance.delay.ms": "0"})
    Topics(broker.bootstrap_servers).create("secret")
    Topics(broker.bootstrap_servers).produce("secret", ["a"])
    with RawConnection(broker.bootstrap_servers) as client:
        answer = client.ask_for(MetadataResponse, _metadata(("secret", NOTHING)), 12)
    broker.stop()
    if isinstance(broker, BarnabasProcess):
        broker.module = "tests.support.brokers.denying_broker"
        broker.start_anywhere()
    else:
        guard(broker)
        broker.start()
    return Secrets(broker, answer.topics[0].topic_id)


def guard(kafka: GenuineKafka) -> None:
    """Kafka's own authorizer, without ACLs; the node talks to itself as a super user."""
    (internal,) = free_ports(1)
    client, controller = kafka.bootstrap_servers, kafka.bootstrap_controllers
    kafka.properties |= {
        "listeners": f"PLAINTEXT://{client},INTERNAL://127.0.0.1:{internal},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{client},INTERNAL://127.0.0.1:{internal}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": LOGIN,
        "listener.name.controller.plain.sasl.jaas.config": LOGIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
    }


def codes(value: Any) -> list[int]:
    """All error codes of an answer that are not 0, in the order in which they stand."""
    if isinstance(value, list):
        return [code for item in value for code in codes(item)]
    if not hasattr(value, "__struct_fields__"):
        return []
    found: list[int] = []
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        found += [inner] if name.endswith("error_code") and inner else codes(inner)
    return found


def words(value: Any) -> set[str]:
    """Every text of an answer."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, list):
        return set().union(*map(words, value)) if value else set()
    if hasattr(value, "__struct_fields__"):
        return set().union(*(words(getattr(value, name)) for name in value.__struct_fields__))
    return set()


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_allowed(secrets: Secrets, name: str) -> None:
    case = CASES[name]
    first = case.version if case.first_version is None else case.first_version
    for version in range(first, case.version + 1):
        with RawConnection(secrets.broker.bootstrap_servers) as client:
            answer = client.ask(case.make(secrets.topic_id), version)
            assert tuple(codes(answer)) == case.codes, version
            if not case.codes or "by id" in name:
                assert "secret" not in words(answer), "a name that nobody may know"


def test_nothing_has_changed(secrets: Secrets) -> None:
    """After all those requests the broker has the topics that it had."""
    directories = {path.name for path in secrets.broker.data.iterdir() if path.is_dir()}
    assert directories <= {"secret-0", "__cluster_metadata-0"}


def test_every_api_that_is_served_was_asked(secrets: Secrets) -> None:
    with RawConnection(secrets.broker.bootstrap_servers) as client:
        offered = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("x", "1"), 4)
    asked = {case.make(bytes(16)).declaration.key for case in CASES.values()}
    if isinstance(secrets.broker, BarnabasProcess):
        assert {each.api_key for each in offered.api_keys} == asked
