"""What each API of a broker asks the authorizer: the same questions as Apache Kafka 4.3.1.

The requests are those of `tests.hostile.test_authorization`: about the topics `secret`, which there is, and
`nowhere`, the groups `group` and `other` and the transactional id `tx`. How a question is written says
`AskedAuthorizer`. One is asked that Kafka leaves to the controller: whoever changes settings of a broker must
be allowed to before they are checked, as the stores that they name are opened for that.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from broker.handlers import forwarding
from broker.handlers.table import broker_handlers
from protocol.metadata_log.cluster import FeatureLevelRecord
from protocol.serving.authorization import ResourceType
from protocol.serving.authorized_operations import OPERATIONS
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from tests.hostile.test_authorization import CASES
from tests.support.rigs.authorizers import AskedAuthorizer
from tests.support.rigs.group_world import GroupWorld
from tests.support.rigs.handler_rig import topic_id
from tests.support.rigs.transactional_broker import TransactionalBroker

TABLE: Final = broker_handlers()
OF_RIGHTS: Final = ("DescribeCluster", "DescribeTopicPartitions", "DescribeTopicPartitions of all")

EVERY_TOPIC: Final = "; ".join(
    f"(DESCRIBE TOPIC {name})" for name in ("__consumer_offsets", "__transaction_state", "t", "secret")
)
CONFIGS: Final = "; ".join(
    f"DESCRIBE_CONFIGS{of}" for of in (" TOPIC secret", " TOPIC nowhere", "", " GROUP group")
)
QUESTIONS: Final[dict[str, tuple[str, str]]] = {
    "ApiVersions": ("", ""),
    "Produce": ("WRITE TOPIC secret; WRITE TOPIC nowhere", "WRITE TOPIC secret; WRITE TOPIC nowhere"),
    "Produce by id": ("WRITE TOPIC secret", "WRITE TOPIC secret"),
    "Produce by unknown id": ("", ""),
    "Produce in a transaction": (
        "WRITE TRANSACTIONAL_ID tx",
        "WRITE TRANSACTIONAL_ID tx; WRITE TOPIC secret; WRITE TOPIC nowhere",
    ),
    "Fetch": ("READ TOPIC secret; READ TOPIC nowhere", "READ TOPIC secret; READ TOPIC nowhere"),
    "Fetch by id": ("READ TOPIC secret", "READ TOPIC secret"),
    "Fetch by unknown id": ("", ""),
    "Fetch as a follower": ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    "ListOffsets": (
        "DESCRIBE TOPIC secret; DESCRIBE TOPIC nowhere",
        "DESCRIBE TOPIC secret; DESCRIBE TOPIC nowhere",
    ),
    "OffsetForLeaderEpoch": (
        "(CLUSTER_ACTION); DESCRIBE TOPIC secret; DESCRIBE TOPIC nowhere",
        "(CLUSTER_ACTION)",
    ),
    "Metadata of all": (
        EVERY_TOPIC,
        EVERY_TOPIC,
    ),
    "Metadata by name": (
        "DESCRIBE TOPIC secret; DESCRIBE TOPIC nowhere",
        "DESCRIBE TOPIC secret; DESCRIBE TOPIC nowhere; (CREATE)",
    ),
    "Metadata by id": ("DESCRIBE TOPIC secret", "DESCRIBE TOPIC secret"),
    "Metadata by unknown id": ("", ""),
    "DeleteRecords": (
        "DELETE TOPIC secret; DELETE TOPIC nowhere",
        "DELETE TOPIC secret; DELETE TOPIC nowhere",
    ),
    "SaslHandshake": ("", ""),
    "SaslAuthenticate": ("", ""),
    "DescribeUserScramCredentials": ("DESCRIBE", "DESCRIBE"),
    "DescribeClientQuotas": ("DESCRIBE_CONFIGS", "DESCRIBE_CONFIGS"),
    "DescribeAcls": ("DESCRIBE", "DESCRIBE"),
    "DescribeConfigs": (
        CONFIGS,
        CONFIGS,
    ),
    "AlterConfigs": ("ALTER_CONFIGS", "ALTER_CONFIGS"),
    "IncrementalAlterConfigs": ("ALTER_CONFIGS", "ALTER_CONFIGS"),
    "ListConfigResources": ("DESCRIBE_CONFIGS", "DESCRIBE_CONFIGS"),
    "DescribeLogDirs": ("DESCRIBE", "DESCRIBE"),
    "DescribeLogDirs, no place for an error": ("DESCRIBE", "DESCRIBE"),
    "AlterReplicaLogDirs": ("ALTER", "ALTER"),
    "DescribeProducers": ("READ TOPIC secret; READ TOPIC nowhere", "READ TOPIC secret; READ TOPIC nowhere"),
    "InitProducerId": ("(IDEMPOTENT_WRITE); WRITE any TOPIC", "(IDEMPOTENT_WRITE)"),
    "InitProducerId in a transaction": ("WRITE TRANSACTIONAL_ID tx", "WRITE TRANSACTIONAL_ID tx"),
    "AddPartitionsToTxn": ("WRITE TRANSACTIONAL_ID tx", "WRITE TRANSACTIONAL_ID tx; WRITE TOPIC secret"),
    "AddPartitionsToTxn of a broker": ("CLUSTER_ACTION", "CLUSTER_ACTION"),
    "AddOffsetsToTxn": ("WRITE TRANSACTIONAL_ID tx", "WRITE TRANSACTIONAL_ID tx; READ GROUP group"),
    "EndTxn": ("WRITE TRANSACTIONAL_ID tx", "WRITE TRANSACTIONAL_ID tx"),
    "WriteTxnMarkers": ("(ALTER); CLUSTER_ACTION", "(ALTER)"),
    "TxnOffsetCommit": (
        "WRITE TRANSACTIONAL_ID tx",
        "WRITE TRANSACTIONAL_ID tx; READ GROUP group; READ TOPIC secret",
    ),
    "DescribeTransactions": ("DESCRIBE TRANSACTIONAL_ID tx", "DESCRIBE TRANSACTIONAL_ID tx"),
    "ListTransactions": ("", ""),
    "FindCoordinator": ("DESCRIBE GROUP group", "DESCRIBE GROUP group"),
    "FindCoordinators": (
        "DESCRIBE GROUP group; DESCRIBE GROUP other",
        "DESCRIBE GROUP group; DESCRIBE GROUP other",
    ),
    "FindCoordinator of a transaction": ("DESCRIBE TRANSACTIONAL_ID tx", "DESCRIBE TRANSACTIONAL_ID tx"),
    "JoinGroup": ("READ GROUP group", "READ GROUP group"),
    "SyncGroup": ("READ GROUP group", "READ GROUP group"),
    "Heartbeat": ("READ GROUP group", "READ GROUP group"),
    "ConsumerGroupHeartbeat": ("READ GROUP group", "READ GROUP group; DESCRIBE TOPIC secret"),
    "ConsumerGroupDescribe": ("DESCRIBE GROUP group", "DESCRIBE GROUP group"),
    "LeaveGroup": ("READ GROUP group", "READ GROUP group"),
    "LeaveGroup, several": ("READ GROUP group", "READ GROUP group"),
    "OffsetCommit": ("READ GROUP group", "READ GROUP group; READ TOPIC secret; READ TOPIC nowhere"),
    "OffsetFetch": ("DESCRIBE GROUP group", "DESCRIBE GROUP group; DESCRIBE TOPIC secret"),
    "OffsetFetch of groups": (
        "DESCRIBE GROUP group; DESCRIBE GROUP other",
        "DESCRIBE GROUP group; DESCRIBE GROUP other",
    ),
    "DescribeGroups": (
        "DESCRIBE GROUP group; DESCRIBE GROUP other",
        "DESCRIBE GROUP group; DESCRIBE GROUP other",
    ),
    "DeleteGroups": ("DELETE GROUP group; DELETE GROUP other", "DELETE GROUP group; DELETE GROUP other"),
    "OffsetDelete": ("DELETE GROUP group", "DELETE GROUP group"),
    "ListGroups": ("(DESCRIBE); (DESCRIBE GROUP g)", "(DESCRIBE)"),
}
"""By the name of the request, what is asked of an authorizer that denies everything, and of one that allows
everything. Some requests end at the first denial."""


def asked(name: str, answer: bool) -> str:
    """The questions of one request, each once."""
    rig = TransactionalBroker(partitions=2)
    rig.apply(FeatureLevelRecord("group.version", 1))
    rig.topic("secret", number=9)
    world = GroupWorld()
    world.cluster.topics["secret"] = 1
    world.commit_error(5)
    rig.services.groups = world.groups
    no_logs: Any = SimpleNamespace(directories=[], failed_directories=[], logs={}, moves=None)
    rig.services.logs = no_logs
    case = CASES[name]
    request = case.make(topic_id(9))
    served = TABLE.get(request.declaration.key or 0)
    assert served is not None
    authorizer = AskedAuthorizer(answer)
    session = Session("1", "PLAINTEXT", "10.0.0.1")
    context = RequestContext(
        served.api_key, case.version, 1, "client", session, rig.clock.wall_ms(), authorizer
    )
    served.handler(rig.services, context, request)
    rig.timers.run_soon()
    return "; ".join(authorizer.questions)


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_an_api_asks(name: str) -> None:
    denied, allowed = QUESTIONS[name]
    assert (asked(name, False), asked(name, True)) == (denied, allowed)


def rights(resource: ResourceType, name: str) -> list[str]:
    """The questions of who wants to know what he may do (KIP-430)."""
    of = "" if resource is ResourceType.CLUSTER else f" {resource.name} {name}"
    return [f"({operation.name}{of})" for operation in OPERATIONS[resource]]


def test_what_one_may_do_is_asked_without_a_line_in_the_log() -> None:
    assert asked("DescribeCluster", False) == "DESCRIBE"
    assert asked("DescribeCluster", True).split("; ") == ["DESCRIBE", *rights(ResourceType.CLUSTER, "")]
    described = ["DESCRIBE TOPIC nowhere", "DESCRIBE TOPIC secret"]
    assert asked("DescribeTopicPartitions", False).split("; ") == described
    assert asked("DescribeTopicPartitions", True).split("; ") == [
        *described, *rights(ResourceType.TOPIC, "nowhere"), *rights(ResourceType.TOPIC, "secret"),
    ]  # fmt: skip
    assert "(DESCRIBE TOPIC secret)" in asked("DescribeTopicPartitions of all", False)
    groups = asked("DescribeGroups", True)
    assert groups == "DESCRIBE GROUP group; DESCRIBE GROUP other", "what is not there has no rights"


@pytest.mark.parametrize("name", CASES)
def test_every_api_is_in_the_table_or_asked_by_the_controller(name: str) -> None:
    key = CASES[name].make(bytes(16)).declaration.key
    is_forwarded = key in forwarding.FORWARDED
    assert is_forwarded != (name in QUESTIONS or name in OF_RIGHTS)
    if is_forwarded:
        assert asked(name, False) == asked(name, True) == ""
