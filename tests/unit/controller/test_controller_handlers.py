"""The controller listener's APIs, with the answers of a genuine Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from broker.controller_channel.forwarding import envelope
from controller.handlers import envelope as envelope_handler
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.log import NO_LEADER, LeaderAndEpoch, QuorumView
from controller.metadata.records import read_metadata_batches
from controller.state_machine import ImageTimeline
from controller.subjects.result import Decision
from protocol.codec.compiler import decoder
from protocol.errors import EncodeError, ErrorCode, InvariantViolated
from protocol.headers import ResponseHeader
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.metadata_log.cluster import NoOpRecord
from protocol.metadata_log.topics import TopicRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from protocol.serving.pending import Failed, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Principal, Session
from protocol.values import METADATA_TOPIC_ID, ZERO_UUID
from storage.slices import LogSlice
from tests.support.rigs.authorizers import HandmadeAuthorizer
from tests.support.rigs.controllers import CLUSTER_ID, ControllerFixture


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    return fixture


def test_api_versions_lists_what_is_served_and_what_is_finalized(fixture: ControllerFixture) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    response = fixture.call(ApiKey.API_VERSIONS, request)
    assert [entry.api_key for entry in response.api_keys] == [
        1, 17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 43, 44, 45, 46, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58,
        59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82,
    ]  # fmt: skip
    assert [(f.name, f.max_version_level) for f in response.finalized_features] == [
        ("kraft.version", 1),
        ("metadata.version", 30),
    ]
    assert [(f.name, f.min_version, f.max_version) for f in response.supported_features] == [
        ("eligible.leader.replicas.version", 0, 1),
        ("group.version", 0, 1),
        ("kraft.version", 0, 1),
        ("metadata.version", 7, 30),
        ("transaction.version", 0, 2),
    ]
    assert response.finalized_features_epoch == fixture.controller.image.offset
    bad = ApiVersionsRequest(client_software_name="a b", client_software_version="1")
    assert fixture.call(ApiKey.API_VERSIONS, bad).error_code == ErrorCode.INVALID_REQUEST
    long = ApiVersionsRequest(client_software_name="a" * 32_767, client_software_version="1")
    assert fixture.call(ApiKey.API_VERSIONS, long).error_code == 0
    assert fixture.call(ApiKey.API_VERSIONS, ApiVersionsRequest(), version=0).error_code == 0


def test_describe_cluster_tells_of_controllers_only(fixture: ControllerFixture) -> None:
    request = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    response = fixture.call(ApiKey.DESCRIBE_CLUSTER, request)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9093)]
    assert response.cluster_authorized_operations == 8096
    wrong = fixture.call(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=1))
    assert (wrong.error_code, wrong.error_message) == (
        114,
        "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
    )
    unknown = fixture.call(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=-7))
    assert (unknown.error_code, unknown.error_message) == (115, "Unsupported endpoint type -7")
    assert fixture.call(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), version=0).error_code == 42
    fixture.authorizer.forbidden.add((Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME))
    assert fixture.call(ApiKey.DESCRIBE_CLUSTER, request).error_code == 31


def test_an_active_controller_that_is_not_listed_is_not_named(fixture: ControllerFixture) -> None:
    registration = fixture.services.handlers.get(ApiKey.DESCRIBE_CLUSTER)
    assert registration is not None
    context = fixture.context(ApiKey.DESCRIBE_CLUSTER, registration.max_version)
    context.session.listener = "OTHER"
    response = registration.handler(fixture.services, context, DescribeClusterRequest(endpoint_type=2))
    assert (response.controller_id, response.brokers) == (-1, [])


def test_describe_cluster_waits_for_a_controller_that_is_known(fixture: ControllerFixture) -> None:
    """Kafka's admin client does not ask again after it has heard of none."""
    request = DescribeClusterRequest(endpoint_type=2)
    leader = fixture.log.leader
    fixture.controller._append([NoOpRecord()])
    fixture.log._leader = LeaderAndEpoch(NO_LEADER, leader.epoch)
    before = fixture.log.high_watermark
    registration = fixture.services.handlers.get(ApiKey.DESCRIBE_CLUSTER)
    assert registration is not None
    context = fixture.context(ApiKey.DESCRIBE_CLUSTER, registration.max_version)
    waiting, *others = (registration.handler(fixture.services, context, request) for _ in range(3))
    fixture.settle()
    assert fixture.log.high_watermark > before
    assert not waiting.done, "there is still none"
    others[0].cancel()
    fixture.log._leader = leader
    fixture.controller._append([NoOpRecord()])
    fixture.settle()
    assert waiting.response is not None
    assert waiting.response.controller_id == 1
    assert others[0].response is None
    assert others[1].response == waiting.response
    assert not fixture.log._advance_waiters


def test_describe_cluster_says_in_the_end_that_none_is_known(fixture: ControllerFixture) -> None:
    fixture.log._leader = LeaderAndEpoch(NO_LEADER, 1)
    waiting = fixture.call(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2))
    fixture.timers.advance(4_999)
    assert not waiting.done
    fixture.timers.advance(1)
    assert waiting.response is not None
    assert waiting.response.controller_id == -1
    assert not fixture.log._advance_waiters


def quorum_request(name: str = "__cluster_metadata", index: int = 0) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequest.PartitionData(partition_index=index)
    topic = DescribeQuorumRequest.TopicData(topic_name=name, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def test_describe_quorum_tells_leader_and_voters(fixture: ControllerFixture) -> None:
    response = fixture.call(ApiKey.DESCRIBE_QUORUM, quorum_request())
    partition = response.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
    assert partition.high_watermark == fixture.log.high_watermark
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, fixture.log.end_offset)
    assert voter.replica_directory_id != bytes(16)
    assert response.nodes[0].listeners[0].port == 9093
    for request in (quorum_request("x"), quorum_request(index=1)):
        unknown = fixture.call(ApiKey.DESCRIBE_QUORUM, request).topics[0].partitions[0]
        assert (unknown.error_code, unknown.error_message) == (
            3,
            "This server does not host this topic-partition.",
        )
    old = fixture.call(ApiKey.DESCRIBE_QUORUM, quorum_request(), version=0)
    assert old.topics[0].partitions[0].current_voters[0].replica_directory_id == bytes(16)


def test_a_leader_that_has_resigned_describes_no_quorum(fixture: ControllerFixture) -> None:
    node, epoch = fixture.log.raft, fixture.log.leader.epoch
    fixture.log._driver.feed(lambda now_ms: node.resign(epoch, now_ms))
    assert node.leader == (1, epoch)
    partition = fixture.call(ApiKey.DESCRIBE_QUORUM, quorum_request()).topics[0].partitions[0]
    assert (partition.error_code, partition.current_voters) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])


def describe_configs(fixture: ControllerFixture, kind: int, name: str, *keys: str) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    return fixture.call(ApiKey.DESCRIBE_CONFIGS, request).results[0]


def test_describe_configs_of_this_node_topics_and_what_is_wrong(fixture: ControllerFixture) -> None:
    own = describe_configs(fixture, 4, "1", "num.partitions", "process.roles")
    assert [(c.name, c.value, c.read_only) for c in own.configs] == [
        ("num.partitions", "1", True),
        ("process.roles", "broker,controller", True),
    ]
    for kind, name, code, message in [
        (4, "7", 42, "Unexpected broker id, expected 1 or empty string, but received 7"),
        (4, "abc", 42, "Broker id must be an integer, but it is: abc"),
        (2, "nosuch", 3, ""),
        (16, "", 42, "Client metrics subscription name must not be empty"),
        (32, "", 42, "Group name must not be empty"),
        (99, "x", 42, ErrorCode.INVALID_REQUEST.message),
    ]:
        result = describe_configs(fixture, kind, name)
        assert (result.error_code, result.error_message) == (code, message)
    assert len(describe_configs(fixture, 32, "g").configs) == 17
    assert [c.name for c in describe_configs(fixture, 16, "x").configs] == ["interval.ms", "match", "metrics"]
    assert describe_configs(fixture, 4, "").configs == []


def test_producer_ids_come_in_blocks_that_are_never_given_twice(fixture: ControllerFixture) -> None:
    epoch = fixture.controller.image.brokers.by_id[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    blocks = [fixture.call(ApiKey.ALLOCATE_PRODUCER_IDS, request) for _ in range(2)]
    assert [(b.producer_id_start, b.producer_id_len) for b in blocks] == [(0, 1000), (1000, 1000)]
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1)
    assert fixture.call(ApiKey.ALLOCATE_PRODUCER_IDS, stale).error_code == ErrorCode.STALE_BROKER_EPOCH
    fixture.files.cut_power()
    fixture = fixture.restart()
    epoch = fixture.bring_up(1, incarnation=b"n" * 16)[1]
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    assert fixture.call(ApiKey.ALLOCATE_PRODUCER_IDS, request).producer_id_start == 2000


def fetch_request(fixture: ControllerFixture, **changes: Any) -> FetchRequest:
    fields = {
        "current_leader_epoch": fixture.log.leader.epoch,
        "fetch_offset": fixture.log.high_watermark,
        "last_fetched_epoch": fixture.log.leader.epoch,
    }
    partition = FetchRequest.FetchPartition(**{**fields, **changes.pop("partition", {})})
    topic = FetchRequest.FetchTopic(
        topic="__cluster_metadata",
        topic_id=changes.pop("topic_id", METADATA_TOPIC_ID),
        partitions=[partition],
    )
    return FetchRequest(
        **{"cluster_id": CLUSTER_ID, "max_wait_ms": 500, "max_bytes": 1 << 20, "topics": [topic], **changes}
    )


def fetched(response: FetchResponse | None) -> FetchResponse.PartitionData:
    assert response is not None
    return response.responses[0].partitions[0]


def batches_of(data: FetchResponse.PartitionData) -> list[MetadataBatch]:
    records = data.records
    assert isinstance(records, bytes | LogSlice)
    return read_metadata_batches(records if isinstance(records, bytes) else records.read())


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"current_leader_epoch": 0, "last_fetched_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_with_wrong_epochs_learns_the_right_one(
    fixture: ControllerFixture, partition: dict[str, int], error: ErrorCode
) -> None:
    data = fetched(fixture.call(ApiKey.FETCH, fetch_request(fixture, partition=partition)))
    assert (data.error_code, data.high_watermark) == (error, -1)
    assert data.current_leader is not None
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)


def test_a_fetch_of_something_else_is_refused(fixture: ControllerFixture) -> None:
    assert fixture.call(ApiKey.FETCH, fetch_request(fixture, cluster_id="other")).error_code == 104
    assert fixture.call(ApiKey.FETCH, fetch_request(fixture, topic_id=b"z" * 16)).error_code == 42
    assert fixture.call(ApiKey.FETCH, fetch_request(fixture, topic_id=ZERO_UUID)).error_code == 42
    assert fixture.call(ApiKey.FETCH, fetch_request(fixture, topics=[])).error_code == 42
    fixture.authorizer.forbidden.add((Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
    assert fixture.call(ApiKey.FETCH, fetch_request(fixture)).error_code == 31


def test_a_fetch_from_the_beginning_has_it_all(fixture: ControllerFixture) -> None:
    request = fetch_request(fixture, partition={"fetch_offset": 0, "last_fetched_epoch": 0})
    data = fetched(fixture.call(ApiKey.FETCH, request))
    batches = batches_of(data)
    assert batches[0].base_offset == 0
    assert batches[-1].last_offset == fixture.log.high_watermark - 1 == data.high_watermark - 1


def test_a_fetch_at_the_end_waits_for_the_next_commit(fixture: ControllerFixture) -> None:
    waiting = fixture.call(ApiKey.FETCH, fetch_request(fixture))
    assert isinstance(waiting, Pending)
    fixture.register(2)
    assert waiting.response is not None
    (batch,) = batches_of(fetched(waiting.response))
    assert len(batch.records) == 1
    empty = fixture.call(ApiKey.FETCH, fetch_request(fixture))
    fixture.timers.advance(499)
    assert empty.response is None
    fixture.timers.advance(1)
    assert fetched(empty.response).records == b""
    cancelled = fixture.call(ApiKey.FETCH, fetch_request(fixture))
    cancelled.cancel()
    fixture.register(3)
    assert cancelled.response is None


def test_a_fetcher_that_knows_an_older_high_watermark_is_told_at_once(fixture: ControllerFixture) -> None:
    behind = {"high_watermark": fixture.log.high_watermark - 1}
    answered = fixture.call(ApiKey.FETCH, fetch_request(fixture, partition=behind))
    assert fetched(answered).high_watermark == fixture.log.high_watermark


def test_a_snapshot_is_fetched_in_pieces(fixture: ControllerFixture) -> None:
    snapshot = fixture.log.write_snapshot(fixture.controller.image)
    fixture.settle()

    def piece(position: int, **changes: Any) -> Any:
        partition = FetchSnapshotRequest.PartitionSnapshot(
            current_leader_epoch=changes.get("epoch", 1),
            snapshot_id=FetchSnapshotRequest.SnapshotId(
                end_offset=changes.get("end_offset", snapshot.end_offset), epoch=snapshot.epoch
            ),
            position=position,
        )
        topic = FetchSnapshotRequest.TopicSnapshot(name="__cluster_metadata", partitions=[partition])
        request = FetchSnapshotRequest(cluster_id=CLUSTER_ID, max_bytes=100, topics=[topic])
        return fixture.call(ApiKey.FETCH_SNAPSHOT, request).topics[0].partitions[0]

    content = b""
    while len(content) < piece(0).size:
        content += piece(len(content)).unaligned_records
    whole = fixture.log.read_snapshot(snapshot, 0, 1 << 20)
    assert whole is not None
    assert content == whole[0]
    assert piece(len(content)).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert piece(0, end_offset=999).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert piece(0, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert piece(0, epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def handler_of(fixture: ControllerFixture, api_key: ApiKey) -> Any:
    found = fixture.services.handlers.get(api_key)
    assert found is not None
    return found.handler


def forwarded(
    fixture: ControllerFixture, name: str = "orders", user: str = "alice", version: int = 7
) -> EnvelopeRequest:
    """What a broker makes of a client's CreateTopics."""
    session = Session(
        connection_id="c", listener="PLAINTEXT", host="10.1.2.3", principal=Principal(name=user)
    )
    context = RequestContext(19, version, 99, "client", session, 0, fixture.authorizer)
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return envelope(CreateTopicsRequest(topics=[topic]), context)


def opened(response: EnvelopeResponse, version: int = 7) -> CreateTopicsResponse:
    assert response.error_code == 0
    assert response.response_data is not None
    header, position = decoder(ResponseHeader, int(version >= 5))(response.response_data, 0)
    assert header.correlation_id == 99
    inner, end = decoder(CreateTopicsResponse, version)(response.response_data, position)
    assert end == len(response.response_data)
    return inner


def test_an_envelope_is_decided_in_the_clients_name(fixture: ControllerFixture) -> None:
    seen: list[tuple[str, str, str]] = []

    class Watching(HandmadeAuthorizer):
        def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
            seen.append((str(session.principal), session.host, operation.name))
            return str(session.principal) != "User:mallory" or operation is Operation.DESCRIBE_CONFIGS

    fixture.authorizer = Watching()  # type: ignore[assignment]
    created = opened(fixture.call(ApiKey.ENVELOPE, forwarded(fixture)))
    assert created.topics[0].error_code == 0
    assert ("User:alice", "10.1.2.3", "CREATE") in seen
    of_a_client = forwarded(fixture, name="other", user="mallory")
    of_a_client.client_host_address = bytes(15) + b"\1"
    opened(fixture.call(ApiKey.ENVELOPE, of_a_client))
    assert seen[-1][1] == "0:0:0:0:0:0:0:1", "as Kafka writes it, and hosts of entries with it"
    refused = opened(fixture.call(ApiKey.ENVELOPE, forwarded(fixture, name="secret", user="mallory")))
    assert refused.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert list(fixture.controller.image.topics.by_name) == ["orders"]


def test_a_bad_envelope_is_the_brokers_fault(fixture: ControllerFixture) -> None:
    good = forwarded(fixture)
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\x00\x00\xff"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": good.request_data[:-3]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": good.request_data[:7]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": b"\x03\xe7" + good.request_data[2:]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": b"\x00\x1e" + good.request_data[2:]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": b"\x00\x3e" + good.request_data[2:]}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\x00\x13\x00\x63" + good.request_data[4:]}, ErrorCode.UNSUPPORTED_VERSION),
    ]
    for changes, error in cases:
        fields = {name: getattr(good, name) for name in good.__struct_fields__} | changes
        response = fixture.call(ApiKey.ENVELOPE, EnvelopeRequest(**fields))
        assert (response.error_code, response.response_data) == (error, None), changes
    assert fixture.controller.image.topics.by_name == {}
    fixture.authorizer.forbidden.add((Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
    assert fixture.call(ApiKey.ENVELOPE, good).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_what_follows_a_request_in_an_envelope_is_read_over(fixture: ControllerFixture) -> None:
    request = forwarded(fixture)
    request.request_data += b"x"
    assert opened(fixture.call(ApiKey.ENVELOPE, request)).topics[0].error_code == 0


@pytest.mark.parametrize("version", [2, 4, 5, 7])
@pytest.mark.parametrize("name", ["x" * 32_700, "x" * 32_767, "\ufffd" * 10_922])
def test_a_name_of_any_length_in_an_envelope_behind_a_commit_that_waits(
    fixture: ControllerFixture, version: int, name: str
) -> None:
    """The answer leaves in the turn of the commit, with a text that quotes the name as far as it fits."""
    handler = handler_of(fixture, ApiKey.ENVELOPE)
    first = handler(fixture.services, fixture.context(ApiKey.ENVELOPE, 0), forwarded(fixture))
    long = handler(
        fixture.services, fixture.context(ApiKey.ENVELOPE, 0), forwarded(fixture, name, version=version)
    )
    last = handler(fixture.services, fixture.context(ApiKey.ENVELOPE, 0), forwarded(fixture, "last"))
    assert first.response is long.response is last.response is None
    fixture.settle()
    assert [opened(each.response).topics[0].error_code for each in (first, last)] == [0, 0]
    answer: Any = long.response
    topic = opened(answer, version).topics[0]
    assert (topic.name, topic.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)
    text = topic.error_message or ""
    assert text.startswith("Topic name is invalid: the length of")
    assert text.endswith("…")
    assert sorted(fixture.controller.image.topics.by_name) == ["last", "orders"]


def test_an_answer_that_fails_in_the_turn_of_a_commit_hurts_nobody_else(
    fixture: ControllerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = handler_of(fixture, ApiKey.ENVELOPE)

    def ask(name: str) -> Any:
        return handler(fixture.services, fixture.context(ApiKey.ENVELOPE, 0), forwarded(fixture, name))

    close = envelope_handler._close

    def close_all_but_one(inner: RequestContext, response: Any) -> EnvelopeResponse:
        if response.topics[0].name == "bad":
            raise KeyError("a bug of ours")
        return close(inner, response)

    monkeypatch.setattr(envelope_handler, "_close", close_all_but_one)
    before, bad, after = ask("before"), ask("bad"), ask("after")
    fixture.settle()
    assert isinstance(bad.response, Failed)
    assert [opened(each.response).topics[0].error_code for each in (before, after)] == [0, 0]
    assert sorted(fixture.controller.image.topics.by_name) == ["after", "bad", "before"]


def test_a_refusal_that_fails_when_leadership_is_lost(fixture: ControllerFixture) -> None:
    def refuse(code: ErrorCode) -> str:
        raise KeyError("a bug of ours")

    fixture.call(ApiKey.ENVELOPE, forwarded(fixture))
    handler = handler_of(fixture, ApiKey.ENVELOPE)
    pendings = [fixture.controller.decide(lambda image: Decision((), "done"), refuse)]
    assert pendings[0].response == "done"
    waits = handler(fixture.services, fixture.context(ApiKey.ENVELOPE, 0), forwarded(fixture, "waits"))
    refused = fixture.controller.decide(lambda image: Decision((), "done"), refuse)
    later = handler(fixture.services, fixture.context(ApiKey.ENVELOPE, 0), forwarded(fixture, "later"))
    fixture.controller.shut_down()
    assert isinstance(refused.response, Failed)
    for each in (waits, later):
        assert each.response == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_a_quorum_without_its_leader_is_asked_for_elsewhere(
    fixture: ControllerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = fixture.context(ApiKey.DESCRIBE_QUORUM, 2)
    request = envelope(quorum_request(), context)
    assert fixture.call(ApiKey.ENVELOPE, request).error_code == 0
    lost = QuorumView(LeaderAndEpoch(2, 2), False, -1, [], [], {})
    monkeypatch.setattr(type(fixture.log), "quorum", lambda _log, _now_ms: lost)
    answer = fixture.call(ApiKey.ENVELOPE, request)
    assert answer == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_a_record_that_cannot_be_written_is_refused_before_anything_is(fixture: ControllerFixture) -> None:
    record = TopicRecord(name="x" * 40_000, topic_id=bytes(16))
    with pytest.raises(EncodeError):
        fixture.controller.decide(lambda image: Decision([record], "done"), lambda code: code.name)
    assert fixture.call(ApiKey.ENVELOPE, forwarded(fixture)).error_code == 0


def test_what_was_appended_and_cannot_be_replayed_ends_the_process(
    fixture: ControllerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log and the image have parted: an answer from here on could be wrong."""

    def broken(*arguments: object) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(ImageTimeline, "append", broken)
    with pytest.raises(InvariantViolated, match="what was appended can be replayed"):
        fixture.call(ApiKey.ENVELOPE, forwarded(fixture))


def test_a_controller_that_has_resigned_says_so(fixture: ControllerFixture) -> None:
    request = forwarded(fixture)
    registration = fixture.services.handlers.get(ApiKey.ENVELOPE)
    assert registration is not None
    waiting = registration.handler(fixture.services, fixture.context(ApiKey.ENVELOPE, 0), request)
    fixture.controller.shut_down()
    assert waiting.response == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert fixture.call(ApiKey.ENVELOPE, request).error_code == ErrorCode.NOT_CONTROLLER
    assert fixture.register(3).error_code == ErrorCode.NOT_CONTROLLER
