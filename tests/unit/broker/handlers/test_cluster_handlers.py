"""ApiVersions, DescribeCluster, DescribeConfigs, InitProducerId, and what is passed on to the controller."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import (
    api_versions,
    describe_cluster,
    describe_configs,
    forwarding,
    init_producer_id,
)
from broker.handlers.table import broker_handlers
from protocol.codec.compiler import decode, encode
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.headers import ResponseHeader, decode_request_header
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.peer_channel import PeerError
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.handler_table import HandlerTable
from protocol.serving.pending import CloseConnection, Pending
from protocol.serving.session import Principal
from tests.support.rigs.handler_rig import CLUSTER_ID, HandlerRig, now


@pytest.fixture
def rig() -> HandlerRig:
    made = HandlerRig()
    made.services.handlers = HandlerTable(
        "broker", [row for row in broker_handlers() if row.api_key in (0, 1, 18, 22)]
    )
    return made


# ApiVersions.


def versions(rig: HandlerRig, version: int, name: str = "kcat", release: str = "1.7.0") -> Any:
    request = ApiVersionsRequest(name, release)
    response = api_versions.handle(rig.services, rig.context(18, version), request)
    return decode(ApiVersionsResponse, version, encode(response, version))


@pytest.mark.parametrize("version", range(5))
def test_only_what_is_answered_is_promised(rig: HandlerRig, version: int) -> None:
    told = {api.api_key: (api.min_version, api.max_version) for api in versions(rig, version).api_keys}
    assert told == {0: (0, 13), 1: (4, 18), 18: (0, 4), 22: (0, 5)}


def test_of_what_is_passed_on_the_versions_are_told_that_the_controller_serves(rig: HandlerRig) -> None:
    """Of AlterPartitionReassignments a controller of Apache Kafka 4.0 knows version 0 alone."""
    rig.services.handlers = broker_handlers()
    ours = {api.api_key: (api.min_version, api.max_version) for api in versions(rig, 4).api_keys}
    assert ours[45] == (0, 1)
    there = {key: first_and_last for key, first_and_last in ours.items() if key != ApiKey.ADD_RAFT_VOTER}
    there |= {
        ApiKey.CREATE_TOPICS: (5, 9),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (1, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.UPDATE_FEATURES: (3, 5),
        ApiKey.FETCH: (17, 17),
    }
    rig.peer.versions = there
    told = {api.api_key: (api.min_version, api.max_version) for api in versions(rig, 4).api_keys}
    for gone in (ApiKey.ADD_RAFT_VOTER, ApiKey.UPDATE_FEATURES):
        del ours[gone]
    assert told == ours | {
        ApiKey.CREATE_TOPICS: (5, 7),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (1, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    }


def test_features_are_told_since_version_3(rig: HandlerRig) -> None:
    three, four = versions(rig, 3), versions(rig, 4)
    assert [(f.name, f.min_version, f.max_version) for f in three.supported_features] == [
        ("metadata.version", 7, 30)
    ]
    assert [(f.name, f.min_version, f.max_version) for f in four.supported_features] == [
        ("metadata.version", 7, 30),
        ("kraft.version", 0, 1),
    ]
    assert [(f.name, f.max_version_level) for f in four.finalized_features] == [
        ("kraft.version", 1),
        ("metadata.version", 30),
    ]
    assert four.finalized_features_epoch == rig.image.offset
    assert not four.zk_migration_ready


def test_before_the_first_image_nothing_is_finalized(rig: HandlerRig) -> None:
    rig.services.metadata = HandlerRig().metadata.__class__(random_source=rig.random_source)
    told = versions(rig, 4)
    assert (told.finalized_features, told.finalized_features_epoch) == ([], -1)


@pytest.mark.parametrize("name", ["", "-kcat", "kcat-", "kc at", "kcat\n"])
def test_software_must_have_a_decent_name(rig: HandlerRig, name: str) -> None:
    told = versions(rig, 3, name=name)
    assert (told.error_code, told.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert versions(rig, 2, name=name).error_code == ErrorCode.NONE


def test_software_may_have_a_long_name(rig: HandlerRig) -> None:
    assert versions(rig, 3, name="k" * 32_767, release="1" * 32_767).error_code == ErrorCode.NONE


# DescribeCluster.


def cluster(rig: HandlerRig, version: int = 2, **options: Any) -> DescribeClusterResponse:
    request = DescribeClusterRequest(**options)
    received = decode(DescribeClusterRequest, version, encode(request, version))
    response = describe_cluster.handle(rig.services, rig.context(60, version), received)
    return decode(DescribeClusterResponse, version, encode(response, version))


def test_the_cluster_and_its_brokers(rig: HandlerRig) -> None:
    rig.apply(
        rig.broker_record(2, rack="r"), rig.broker_record(3, fenced=True), rig.broker_record(4, listener="X")
    )
    told = cluster(rig)
    assert (told.cluster_id, told.error_code) == (CLUSTER_ID, 0)
    assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in told.brokers] == [
        (1, "host1", 9001, None, False),
        (2, "host2", 9002, "r", False),
    ]
    assert {cluster(rig).controller_id for _ in range(6)} == {1, 2, -1}, "broker 4 is not listed here"
    assert [(b.broker_id, b.is_fenced) for b in cluster(rig, include_fenced_brokers=True).brokers] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert cluster(rig, version=0).cluster_authorized_operations == -(2**31)
    assert cluster(rig, include_cluster_authorized_operations=True).cluster_authorized_operations > 0
    rig.deny(Operation.DESCRIBE, ResourceType.CLUSTER)
    assert cluster(rig, include_cluster_authorized_operations=True).cluster_authorized_operations == 0


WRONG_ENDPOINT = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type"


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (2, (ErrorCode.MISMATCHED_ENDPOINT_TYPE, f"{WRONG_ENDPOINT} CONTROLLER")),
        (7, (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7")),
    ],
)
def test_controllers_are_not_found_here(rig: HandlerRig, wanted: int, error: tuple[ErrorCode, str]) -> None:
    told = cluster(rig, endpoint_type=wanted)
    assert ((told.error_code, told.error_message), told.brokers) == (error, [])


# DescribeConfigs.


def configs(
    rig: HandlerRig, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **options: Any
) -> DescribeConfigsResponse.DescribeConfigsResult:
    request = DescribeConfigsRequest(
        [DescribeConfigsRequest.DescribeConfigsResource(kind, name, keys)], **options
    )
    received = decode(DescribeConfigsRequest, version, encode(request, version))
    response = describe_configs.handle(rig.services, rig.context(32, version), received)
    (result,) = decode(DescribeConfigsResponse, version, encode(response, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def test_a_topics_configs_with_their_sources() -> None:
    rig = HandlerRig(log_segment_bytes="2097152")
    rig.topic("t", retention_ms="5000")
    rows = {row.name: row for row in configs(rig, 2, "t", include_synonyms=True).configs}
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("5000", 1)
    assert [(s.name, s.value, s.source) for s in rows["segment.bytes"].synonyms] == [
        ("log.segment.bytes", "2097152", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert len(rows) == 33
    assert rows["retention.ms"].documentation in (None, "")
    (row,) = configs(rig, 2, "t", ["retention.ms"], include_documentation=True).configs
    assert row.documentation
    assert row.synonyms == []
    assert [row.name for row in configs(rig, 2, "t", ["segment.ms"], version=1).configs] == ["segment.ms"]


def test_a_brokers_configs_and_the_clusters_defaults(rig: HandlerRig) -> None:
    rows = {row.name: row for row in configs(rig, 4, "1").configs}
    assert (rows["node.id"].value, rows["node.id"].read_only) == ("1", True)
    assert rows["ssl.keystore.password"].is_sensitive
    assert rows["ssl.keystore.password"].value is None
    assert configs(rig, 4, "").configs == []
    assert configs(rig, 8, "1").error_code == 0
    assert len(configs(rig, 32, "g").configs) == 17
    assert len(configs(rig, 16, "metrics").configs) == 3


@pytest.mark.parametrize(
    ("kind", "name", "code", "text"),
    [
        (2, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (2, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (
            4,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (4, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (4, " 1", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is:  1"),
        (8, "0_1", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: 0_1"),
        (8, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (8, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (16, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (32, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (3, "x", ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message),
    ],
)
def test_resources_that_cannot_be_described(
    rig: HandlerRig, kind: int, name: str, code: ErrorCode, text: str | None
) -> None:
    result = configs(rig, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message == text if text is not None else result.error_message


@pytest.mark.parametrize(
    ("kind", "name", "resource", "code"),
    [
        (2, "t", ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (4, "1", ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (8, "1", ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (16, "m", ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (32, "g", ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_the_right_to_describe_configs(
    rig: HandlerRig, kind: int, name: str, resource: ResourceType, code: ErrorCode
) -> None:
    rig.deny(Operation.DESCRIBE_CONFIGS, resource)
    assert configs(rig, kind, name).error_code == code


# InitProducerId.


def init(rig: HandlerRig, **options: Any) -> Any:
    request = InitProducerIdRequest(**({"transactional_id": None} | options))
    return init_producer_id.handle(rig.services, rig.context(22, 5), request)


def give_blocks(rig: HandlerRig) -> None:
    """A controller that gives blocks of ten ids."""
    blocks = iter(range(0, 1000, 10))

    def answer(request: Message) -> Message:
        assert isinstance(request, AllocateProducerIdsRequest)
        assert (request.broker_id, request.broker_epoch) == (1, 5)
        return AllocateProducerIdsResponse(0, 0, next(blocks), 10)

    rig.peer.answer = answer


def test_ids_are_given_once_each_out_of_blocks(rig: HandlerRig) -> None:
    give_blocks(rig)
    answers = [now(init(rig)) for _ in range(25)]
    assert [answer.producer_id for answer in answers] == list(range(25))
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}


def test_the_next_block_is_asked_for_before_it_is_needed(rig: HandlerRig) -> None:
    give_blocks(rig)
    for _ in range(8):
        init(rig)
    assert len(rig.peer.requests) == 1
    init(rig)
    assert len(rig.peer.requests) == 2


def test_producers_wait_for_a_block_that_is_on_its_way(rig: HandlerRig) -> None:
    answers = [init(rig) for _ in range(3)]
    assert len(rig.peer.requests) == 1
    rig.peer.open[0](AllocateProducerIdsResponse(0, 0, 500, 2))
    assert [answer.response and answer.response.producer_id for answer in answers] == [500, 501, None]
    rig.peer.open[1](AllocateProducerIdsResponse(0, 0, 900, 2))
    assert answers[2].response.producer_id == 900


@pytest.mark.parametrize(
    "failure", [PeerError("gone"), AllocateProducerIdsResponse(0, ErrorCode.STALE_BROKER_EPOCH)]
)
def test_without_a_block_producers_try_again(rig: HandlerRig, failure: Any) -> None:
    rig.peer.answer = lambda request: failure
    answer = now(init(rig))
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    give_blocks(rig)
    assert now(init(rig)).producer_id == 0


def test_the_right_to_write_idempotently(rig: HandlerRig) -> None:
    give_blocks(rig)
    rig.deny(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    assert now(init(rig)).error_code == ErrorCode.NONE, "who may write to some topic may do it so (KIP-679)"
    rig.deny(Operation.WRITE, ResourceType.TOPIC)
    assert now(init(rig)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("producer_id", "epoch", "error"), [(5, -1, 42), (-1, 3, 42), (5, 3, 0)])
def test_id_and_epoch_come_together(rig: HandlerRig, producer_id: int, epoch: int, error: int) -> None:
    give_blocks(rig)
    assert now(init(rig, producer_id=producer_id, producer_epoch=epoch)).error_code == error


# Forwarding.


def wrapped(rig: HandlerRig, response: Message, version: int, header_version: int) -> EnvelopeResponse:
    return EnvelopeResponse(encode(ResponseHeader(1), header_version) + encode(response, version))


def test_a_request_goes_to_the_controller_as_its_client_sent_it(rig: HandlerRig) -> None:
    request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("new", 3, 1)])
    context = rig.context(19, 7, client_id="admin")
    context.session.principal = Principal("alice")
    answer = forwarding.handle(rig.services, context, request)
    assert isinstance(answer, Pending)
    (sent,) = rig.peer.requests
    assert isinstance(sent, EnvelopeRequest)
    header, position = decode_request_header(sent.request_data, 0)
    assert (header.request_api_key, header.request_api_version, header.correlation_id, header.client_id) == (
        19,
        7,
        1,
        "admin",
    )
    assert decode(CreateTopicsRequest, 7, sent.request_data[position:]) == request
    assert sent.request_principal is not None
    assert sent.request_principal[:2] == b"\0\0"
    assert decode(DefaultPrincipalData, 0, sent.request_principal[2:]) == DefaultPrincipalData(
        "User", "alice"
    )
    assert sent.client_host_address == bytes([10, 0, 0, 7])
    given = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult("new", num_partitions=3)])
    rig.peer.open[0](wrapped(rig, given, 7, 1))
    assert answer.response == given


def test_no_controller_for_a_moment_is_no_error(rig: HandlerRig) -> None:
    answer = forwarding.handle(rig.services, rig.context(20, 5), DeleteTopicsRequest(topic_names=["t"]))
    for attempt in range(3):
        rig.peer.open[attempt](EnvelopeResponse(None, ErrorCode.NOT_CONTROLLER))
        assert answer.response is None
        rig.timers.advance(50)
    assert len(rig.peer.open) == 4


def test_no_controller_for_long_is_a_timeout(rig: HandlerRig) -> None:
    rig.peer.answer = lambda request: EnvelopeResponse(None, ErrorCode.NOT_CONTROLLER)
    request = DeleteTopicsRequest(topic_names=["t"])
    answer = forwarding.handle(rig.services, rig.context(20, 5), request)
    rig.timers.advance(31_000)
    assert answer.response is not None
    (result,) = answer.response.responses
    assert (result.name, result.error_code) == ("t", ErrorCode.REQUEST_TIMED_OUT)


REQUEST_TIMEOUT_MS = 60_000


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (PeerError("gone"), ErrorCode.REQUEST_TIMED_OUT),
        (PeerError("it knows no envelopes", is_unsupported=True), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(b"\0\0\0\1\0\xff"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(b"\0\0\0\7\0"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_faults_of_the_wrapping_are_not_the_clients(
    rig: HandlerRig, failure: Message, error: ErrorCode
) -> None:
    rig.peer.answer = lambda request: failure
    quorum = forwarding.handle(rig.services, rig.context(55, 2), DescribeQuorumRequest())
    rig.timers.advance(REQUEST_TIMEOUT_MS)  # a broken connection is tried again until the time is up
    assert quorum.response is not None
    assert (quorum.response.error_code, quorum.response.error_message) == (error, error.message)
    topics = CreateTopicsRequest(
        [CreateTopicsRequest.CreatableTopic("a"), CreateTopicsRequest.CreatableTopic("b")]
    )
    answer = forwarding.handle(rig.services, rig.context(19, 5), topics)
    rig.timers.advance(REQUEST_TIMEOUT_MS)
    assert answer.response is not None
    assert [(t.name, t.error_code) for t in answer.response.topics] == [("a", error), ("b", error)]


def test_a_client_whose_version_the_controller_does_not_serve_is_to_negotiate_again(rig: HandlerRig) -> None:
    answer = forwarding.handle(rig.services, rig.context(55, 2), DescribeQuorumRequest())
    rig.peer.open[0](EnvelopeResponse(None, ErrorCode.UNSUPPORTED_VERSION))
    assert isinstance(answer.response, CloseConnection)
    assert str(answer.response) == "the controller cannot read version 2 of DescribeQuorum"


def test_a_client_that_has_gone_is_not_answered(rig: HandlerRig) -> None:
    answer = forwarding.handle(rig.services, rig.context(19, 7), CreateTopicsRequest())
    answer.cancel()
    rig.peer.open[0](EnvelopeResponse(None, ErrorCode.NOT_CONTROLLER))
    rig.timers.advance(1000)
    assert len(rig.peer.requests) == 1
    assert answer.response is None
