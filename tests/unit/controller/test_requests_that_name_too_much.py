"""Requests that would make more records than one may: refused with Kafka's answer, before they are looked
at."""

from __future__ import annotations

from typing import Any

import pytest

from broker.controller_channel.forwarding import envelope
from config.errors import some_of
from config.limits import LONG_REQUEST_BYTES, METADATA_RECORDS_PER_REQUEST, NAMED_PER_REQUEST
from controller.metadata.image.cluster_image import EMPTY_IMAGE
from controller.metadata.resource_changes import Change, ConfigOperation, ResourceChange
from controller.metadata.topic_names import Collisions
from controller.subjects import topics as topics_subject
from controller.subjects.config_changes import alter_configs
from controller.subjects.configs import ConfigRules
from protocol.codec.budget import count_elements
from protocol.codec.compiler import decoder
from protocol.errors import ErrorCode
from protocol.headers import ResponseHeader
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.envelope import EnvelopeRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from tests.support.rigs.controllers import ControllerFixture

TOO_MUCH = NAMED_PER_REQUEST + 1
SENTENCE = "Unable to perform excessively large batch operation."


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    return fixture


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def replicas(count: int) -> list[AlterPartitionReassignmentsRequest.ReassignablePartition]:
    return [AlterPartitionReassignmentsRequest.ReassignablePartition(index, [1]) for index in range(count)]


REQUESTS: dict[ApiKey, Any] = {
    ApiKey.CREATE_TOPICS: lambda count: CreateTopicsRequest(
        [CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in names(count)], 1000
    ),
    ApiKey.DELETE_TOPICS: lambda count: DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name) for name in names(count)], timeout_ms=1000
    ),
    ApiKey.CREATE_PARTITIONS: lambda count: CreatePartitionsRequest(
        [CreatePartitionsRequest.CreatePartitionsTopic(name, 2) for name in names(count)], 1000
    ),
    ApiKey.ALTER_CONFIGS: lambda count: AlterConfigsRequest(
        [AlterConfigsRequest.AlterConfigsResource(2, name) for name in names(count)]
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda count: IncrementalAlterConfigsRequest(
        [
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                2,
                "t",
                [IncrementalAlterConfigsRequest.AlterableConfig(name, 0, "1") for name in names(count - 1)],
            )
        ]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda count: AlterPartitionReassignmentsRequest(
        1000, topics=[AlterPartitionReassignmentsRequest.ReassignableTopic("t", replicas(count - 1))]
    ),
    ApiKey.ELECT_LEADERS: lambda count: ElectLeadersRequest(
        0, [ElectLeadersRequest.TopicPartitions("t", list(range(count)))], 1000
    ),
}


def codes(response: Any) -> set[int]:
    """The error codes of the innermost structs."""
    found: set[int] = set()
    for name in response.__struct_fields__:
        value = getattr(response, name)
        if isinstance(value, list):
            for each in value:
                if hasattr(each, "__struct_fields__"):
                    found |= codes(each)
    if not found and hasattr(response, "error_code"):
        found.add(response.error_code)
    return found


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_too_much_is_refused_before_it_is_looked_at(
    fixture: ControllerFixture, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fixture.log.end_offset
    decided: list[object] = []
    monkeypatch.setattr(fixture.controller, "decide", lambda *given: decided.append(given))
    response = fixture.call(key, REQUESTS[key](TOO_MUCH))
    assert codes(response) == {ErrorCode.POLICY_VIOLATION}
    assert decided == []
    assert fixture.log.end_offset == before


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_as_much_as_may_be_is_looked_at(fixture: ControllerFixture, key: ApiKey) -> None:
    response = fixture.call(key, REQUESTS[key](NAMED_PER_REQUEST))
    if isinstance(response, Pending):  # it is decided in parts
        while not response.done:
            fixture.settle()
        response = response.response
    if key is not ApiKey.CREATE_TOPICS:  # so many topics are more partitions than may be made together
        assert ErrorCode.POLICY_VIOLATION not in codes(response)


def test_the_refusal_has_kafkas_sentence(fixture: ControllerFixture) -> None:
    for key in (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS):
        response = fixture.call(key, REQUESTS[key](TOO_MUCH))
        answers = response.topics if key is ApiKey.CREATE_TOPICS else response.responses
        assert {answer.error_message for answer in answers} == {SENTENCE}
        assert len(answers) == TOO_MUCH


def test_a_decision_ends_when_it_has_made_too_many_records(
    fixture: ControllerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[str] = []
    create = topics_subject._create

    def counting(image: Any, topic: Any, *rest: Any) -> Any:
        created.append(topic.name)
        return create(image, topic, *rest)

    monkeypatch.setattr(topics_subject, "_create", counting)
    response = fixture.call(ApiKey.CREATE_TOPICS, REQUESTS[ApiKey.CREATE_TOPICS](9_000))
    assert {(topic.error_code, topic.error_message) for topic in response.topics} == {
        (ErrorCode.POLICY_VIOLATION, SENTENCE)
    }
    assert len(response.topics) == 9_000
    assert len(created) == METADATA_RECORDS_PER_REQUEST // 2 + 1


def test_configs_too(fixture: ControllerFixture) -> None:
    asked: list[object] = []
    resources = [
        ResourceChange(
            32, f"g{number}", [Change("consumer.session.timeout.ms", ConfigOperation.SET, "50000")]
        )
        for number in range(METADATA_RECORDS_PER_REQUEST + 500)
    ]

    def judge(question: object) -> None:
        asked.append(question)

    decision = alter_configs(EMPTY_IMAGE, resources, ConfigRules(fixture.config), judge)
    assert decision.records == ()
    assert {(outcome.error, outcome.message) for outcome in decision.response} == {
        (ErrorCode.POLICY_VIOLATION, SENTENCE)
    }
    assert len(asked) == METADATA_RECORDS_PER_REQUEST + 1


def test_elements_are_counted_at_every_depth() -> None:
    assert count_elements(CreateTopicsRequest()) == 0
    assert count_elements(DeleteTopicsRequest(topic_names=["a", "b"])) == 2
    assignments = [CreateTopicsRequest.CreatableReplicaAssignment(index, [1, 2, 3]) for index in range(4)]
    configs = [CreateTopicsRequest.CreatableTopicConfig("a", "b")]
    topic = CreateTopicsRequest.CreatableTopic("t", assignments=assignments, configs=configs)
    assert count_elements(CreateTopicsRequest([topic, topic])) == 2 * (1 + 4 + 1)


def test_collisions_are_those_that_a_look_at_all_names_finds() -> None:
    existing = ["a.b", "a-b", "x_y.z", "plain", "c_d", "."]
    collisions = Collisions(existing)
    for name in ("a_b", "x.y_z", "x_y_z", "plain", "c.d", "new", "n_ew", "_", "a-b."):
        folded = name.replace(".", "_")
        found = next((other for other in existing if other.replace(".", "_") == folded), None)
        assert collisions.of(name) == (found if "." in name or "_" in name else None)


@pytest.mark.parametrize("count", [10, 3000])
def test_an_envelope_holds_a_long_request_and_its_long_answer(fixture: ControllerFixture, count: int) -> None:
    request = REQUESTS[ApiKey.CREATE_TOPICS](count)
    for topic in request.topics:
        topic.name += "-of-a-name-that-fills-the-frame"
    wrapped = envelope(request, fixture.context(ApiKey.CREATE_TOPICS, 7))
    assert (len(wrapped.request_data) > LONG_REQUEST_BYTES) == (count == 3000)
    answer = fixture.call(ApiKey.ENVELOPE, wrapped)
    assert answer.error_code == 0
    _, position = decoder(ResponseHeader, 1)(answer.response_data, 0)
    response = decoder(CreateTopicsResponse, 7)(answer.response_data, position)[0]
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        (topic.name, 0) for topic in request.topics
    ]


def test_an_envelope_does_not_hold_what_would_be_refused_without_it(fixture: ControllerFixture) -> None:
    request = DeleteTopicsRequest(topic_names=[""] * 200_000, timeout_ms=1000)
    wrapped = envelope(request, fixture.context(ApiKey.DELETE_TOPICS, 5))
    assert fixture.call(ApiKey.ENVELOPE, wrapped).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert isinstance(wrapped, EnvelopeRequest)


def test_a_sentence_names_some() -> None:
    assert some_of(["a", "b"]) == "a,b"
    assert some_of(["a"] * 100, ", ") == ", ".join(["a"] * 100)
    assert some_of(["a"] * 103) == ",".join(["a"] * 100) + " and 3 more"


def test_configs_in_the_answer_are_the_topic_s_own(fixture: ControllerFixture) -> None:
    """They share what they do not override."""
    config = CreateTopicsRequest.CreatableTopicConfig
    topics = [
        CreateTopicsRequest.CreatableTopic("plain", 1, 1),
        CreateTopicsRequest.CreatableTopic("own", 1, 1, configs=[config("retention.ms", "77000")]),
        CreateTopicsRequest.CreatableTopic("too", 1, 1, configs=[config("retention.ms", "88000")]),
    ]
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 1000))
    told = {
        topic.name: {each.name: (each.value, each.config_source) for each in topic.configs}
        for topic in response.topics
    }
    assert [told[name]["retention.ms"] for name in ("plain", "own", "too")] == [
        ("604800000", 5),
        ("77000", 1),
        ("88000", 1),
    ]
    for name in ("own", "too"):
        rest = {key: value for key, value in told[name].items() if key != "retention.ms"}
        assert rest == {key: value for key, value in told["plain"].items() if key != "retention.ms"}
        assert list(told[name]) == sorted(told[name])
