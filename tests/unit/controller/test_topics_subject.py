"""CreateTopics and DeleteTopics, with the answers of a genuine Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.metadata_log.cluster import ConfigRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from protocol.values import ZERO_UUID
from tests.support.rigs.controllers import ControllerFixture, one_node_config

Topic = CreateTopicsRequest.CreatableTopic
State = DeleteTopicsRequest.DeleteTopicState


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignment: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    **configs: str | None,
) -> Topic:
    pairs = list(assignment.items()) if isinstance(assignment, dict) else assignment or []
    return Topic(
        name=name,
        num_partitions=-1 if pairs else partitions,
        replication_factor=-1 if pairs else factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in pairs
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    return fixture


def create(fixture: ControllerFixture, *topics: Topic, **options: Any) -> list[Any]:
    request = CreateTopicsRequest(topics=list(topics), **options)
    response: CreateTopicsResponse = fixture.call(ApiKey.CREATE_TOPICS, request)
    return response.topics


def delete(fixture: ControllerFixture, *states: State) -> list[tuple[str | None, bytes, int, str | None]]:
    request = DeleteTopicsRequest(topics=list(states), timeout_ms=30_000)
    response: DeleteTopicsResponse = fixture.call(ApiKey.DELETE_TOPICS, request)
    return [(r.name, r.topic_id, r.error_code, r.error_message) for r in response.responses]


def test_a_created_topic_is_in_the_image_with_leaders_and_configs(fixture: ControllerFixture) -> None:
    (result,) = create(fixture, topic("orders", 3, retention_ms="77"))
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    image = fixture.controller.image
    made = image.topics.by_name["orders"]
    assert made.id == result.topic_id != ZERO_UUID
    assert [(p.replicas, p.isr, p.leader, p.leader_epoch) for p in made.partitions.values()] == [
        ((1,), (1,), 1, 0)
    ] * 3
    assert made.partitions[0].directories == (bytes([101]) * 16,)
    assert image.configs.of(2, "orders") == {"retention.ms": "77"}
    shown = {config.name: (config.value, config.config_source) for config in result.configs}
    assert len(shown) == 33
    assert shown["retention.ms"] == ("77", 1)
    assert shown["segment.bytes"] == ("1073741824", 5)


def test_defaults_are_the_controllers(fixture: ControllerFixture) -> None:
    (result,) = create(fixture, topic("default", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (1, 1)


NOT_ALLOWED = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
TOO_LONG = "x" * 250

REFUSED = [
    (topic("zero", 0), 37, "Number of partitions was set to an invalid non-positive value."),
    (topic("neg", -2), 37, "Number of partitions was set to an invalid non-positive value."),
    (topic("rf0", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    (topic("rfneg", 1, -3), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    (
        topic("rf2", 1, 2),
        38,
        (
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        ),
    ),
    (topic("bad name"), 17, f"Topic name is invalid: 'bad name' {NOT_ALLOWED}"),
    (topic("sl/ash"), 17, f"Topic name is invalid: 'sl/ash' {NOT_ALLOWED}"),
    (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
    (topic("."), 17, "Topic name is invalid: '.' is not allowed"),
    (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
    (
        topic(TOO_LONG),
        17,
        f"Topic name is invalid: the length of '{TOO_LONG}' is longer than the max allowed length 249",
    ),
    (topic("a_b"), 17, "Topic 'a_b' collides with existing topic: a.b"),
    (topic("a.b"), 36, "Topic 'a.b' already exists."),
    (topic("cfg1", nosuch="1"), 40, "Unknown topic config name: nosuch"),
    (
        topic("cfg2", retention_ms="abc"),
        40,
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    (
        topic("cfg3", cleanup_policy="foo"),
        40,
        "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        topic("cfg4", segment_bytes="1"),
        40,
        "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
    ),
    (topic("cfg6", retention_ms=None), 40, "Null value not supported for topic configs: retention.ms"),
    (
        topic("asg2", assignment={0: [1, 1]}),
        39,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        topic("asg3", assignment={0: [7]}),
        39,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    ),
    (
        topic("asg4", assignment={0: []}),
        39,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        topic("asg5", assignment={0: [1], 1: [1, 2]}),
        39,
        "The manual partition assignment includes broker 2, but no such broker is registered.",
    ),
    (
        topic("asg6", assignment={0: [1], 2: [1]}),
        39,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (topic("asg7", assignment={1: [1]}), 39, "partitions should be a consecutive 0-based integer sequence"),
    (
        topic("asg8", assignment=[(0, [1]), (0, [1])]),
        39,
        "Found multiple manual partition assignments for partition 0",
    ),
    (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    (topic("toomany", 20_000), 44, "Excessively large number of partitions per request."),
    (topic("max", 10_000), 44, "Unable to perform excessively large batch operation."),
]


@pytest.mark.parametrize(("wanted", "code", "sentence"), REFUSED, ids=[each[0].name[:20] for each in REFUSED])
def test_a_fault_is_named_in_kafkas_words(
    fixture: ControllerFixture, wanted: Topic, code: int, sentence: str
) -> None:
    create(fixture, topic("a.b"))
    end = fixture.log.end_offset
    (result,) = create(fixture, wanted)
    assert (result.error_code, result.error_message) == (code, sentence)
    assert (result.topic_id, result.num_partitions, result.configs) == (ZERO_UUID, -1, [])
    assert fixture.log.end_offset == end, "a refusal leaves no record"


def test_what_was_set_for_all_brokers_counts_as_for_an_alteration(fixture: ControllerFixture) -> None:
    (refused,) = create(fixture, topic("late", min_compaction_lag_ms="9", max_compaction_lag_ms="5"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    fixture.controller._append([ConfigRecord(4, "", "log.cleaner.max.compaction.lag.ms", "5")])
    (refused,) = create(fixture, topic("late", min_compaction_lag_ms="9"))
    sentence = "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (5)"
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_CONFIG, sentence)
    (made,) = create(fixture, topic("late", min_compaction_lag_ms="9", max_compaction_lag_ms="10"))
    assert made.error_code == ErrorCode.NONE


def test_an_assignment_forbids_counts(fixture: ControllerFixture) -> None:
    wanted = topic("asg", assignment={0: [1]})
    wanted.replication_factor = 1
    (result,) = create(fixture, wanted)
    assert result.error_code == 42
    assert result.error_message == (
        "A manual partition assignment was specified, but replication factor was not set to -1."
    )
    wanted.replication_factor, wanted.num_partitions = -1, 1
    (result,) = create(fixture, wanted)
    assert result.error_message == (
        "A manual partition assignment was specified, but numPartitions was not set to -1."
    )


def test_one_topics_fault_is_no_others_business(fixture: ControllerFixture) -> None:
    results = create(fixture, topic("dup"), topic("other"), topic("dup"), topic("bad name"))
    assert [(r.name, r.error_code) for r in results] == [("other", 0), ("bad name", 17), ("dup", 42)]
    assert results[2].error_message == "Duplicate topic name."
    assert list(fixture.controller.image.topics.by_name) == ["other"]


def test_a_trial_answers_the_same_and_writes_nothing(fixture: ControllerFixture) -> None:
    end = fixture.log.end_offset
    (result,) = create(fixture, topic("trial", 4), validate_only=True)
    assert (result.error_code, result.num_partitions, len(result.configs)) == (0, 4, 33)
    assert fixture.log.end_offset == end
    assert fixture.controller.image.topics.by_name == {}


def test_who_may_not_create_is_told_so_and_who_may_not_look_sees_no_configs(
    fixture: ControllerFixture,
) -> None:
    authorizer = fixture.authorizer
    authorizer.forbidden.add((Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME))
    authorizer.forbidden.add((Operation.CREATE, ResourceType.TOPIC, "secret"))
    authorizer.forbidden.add((Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "open"))
    results = create(fixture, topic("secret"), topic("open"))
    assert [(r.name, r.error_code, r.topic_config_error_code) for r in results] == [
        ("open", 0, 29),
        ("secret", 29, 0),
    ]
    assert (results[0].configs, results[0].num_partitions) == ([], -1)


def test_all_replicas_must_not_be_fenced(fixture: ControllerFixture) -> None:
    fixture.register(2)
    (result,) = create(fixture, topic("asg", assignment={0: [2]}))
    assert result.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in "
        "controlled shutdown."
    )
    (result,) = create(fixture, topic("mixed", assignment={0: [2, 1]}))
    partition = fixture.controller.image.topics.by_name["mixed"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)


def test_without_any_time_nothing_is_done(fixture: ControllerFixture) -> None:
    made = create(fixture, topic("kept"))[0].topic_id
    end = fixture.log.end_offset
    for timeout_ms in (0, -1):
        (result,) = create(fixture, topic("late"), timeout_ms=timeout_ms)
        assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
        request = DeleteTopicsRequest(topics=[State(topic_id=made)], timeout_ms=timeout_ms)
        (gone,) = fixture.call(ApiKey.DELETE_TOPICS, request).responses
        assert (gone.topic_id, gone.error_code) == (made, ErrorCode.REQUEST_TIMED_OUT)
    assert fixture.log.end_offset == end


def test_deletion_by_name_and_by_id(fixture: ControllerFixture) -> None:
    created = {r.name: r.topic_id for r in create(fixture, topic("a"), topic("b"), topic("c"))}
    assert sorted(delete(fixture, State(name="a"), State(topic_id=created["b"]))) == [
        ("a", created["a"], 0, None),
        ("b", created["b"], 0, None),
    ]
    assert list(fixture.controller.image.topics.by_name) == ["c"]
    assert delete(fixture, State(name="a")) == [
        ("a", ZERO_UUID, 3, "This server does not host this topic-partition.")
    ]
    assert delete(fixture, State(topic_id=b"x" * 16)) == [
        (None, b"x" * 16, 100, "This server does not host this topic ID.")
    ]


def test_contradictory_deletions_are_refused(fixture: ControllerFixture) -> None:
    topic_id = create(fixture, topic("a"))[0].topic_id
    for states, expected in [
        (
            [State(name="a", topic_id=topic_id)],
            ("a", topic_id, 42, "You may not specify both topic name and topic id."),
        ),
        ([State(name="a"), State(name="a")], ("a", ZERO_UUID, 42, "Duplicate topic name.")),
        (
            [State(topic_id=topic_id), State(name="a")],
            ("a", topic_id, 42, "The provided topic name maps to an ID that was already supplied."),
        ),
        ([State()], (None, ZERO_UUID, 42, "Neither topic name nor id were specified.")),
        ([State(topic_id=topic_id)] * 2, (None, topic_id, 42, "Duplicate topic id.")),
    ]:
        assert delete(fixture, *states) == [expected]
    assert list(fixture.controller.image.topics.by_name) == ["a"]


def test_a_contradictory_entry_takes_nothing_from_another_of_its_name_or_id(
    fixture: ControllerFixture,
) -> None:
    a, b = (each.topic_id for each in create(fixture, topic("a"), topic("b")))
    both = "You may not specify both topic name and topic id."
    assert sorted(
        delete(fixture, State("a", a), State("a"), State("b", b), State(None, b)), key=lambda each: each[2]
    ) == [
        ("b", b, 0, None),
        ("a", a, 0, None),
        ("a", a, 42, both),
        ("b", b, 42, both),
    ]
    assert not fixture.controller.image.topics.by_name


def test_an_older_client_deletes_by_name(fixture: ControllerFixture) -> None:
    create(fixture, topic("a"))
    request = DeleteTopicsRequest(topic_names=["a", "nosuch"], timeout_ms=30_000)
    response = fixture.call(ApiKey.DELETE_TOPICS, request, version=5)
    assert sorted((r.name, r.error_code) for r in response.responses) == [("a", 0), ("nosuch", 3)]


def test_deletion_can_be_switched_off() -> None:
    fixture = ControllerFixture(config=one_node_config(delete__topic__enable="false"))
    fixture.bring_up(1)
    create(fixture, topic("a"))
    assert delete(fixture, State(name="a"))[0][2] == ErrorCode.TOPIC_DELETION_DISABLED
    assert list(fixture.controller.image.topics.by_name) == ["a"]


def test_who_may_not_describe_a_topic_does_not_learn_its_name(fixture: ControllerFixture) -> None:
    topic_id = create(fixture, topic("secret"))[0].topic_id
    fixture.authorizer.forbidden.add((Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME))
    fixture.authorizer.forbidden.add((Operation.DELETE, ResourceType.TOPIC, "secret"))
    fixture.authorizer.forbidden.add((Operation.DELETE, ResourceType.TOPIC, "nowhere"))
    assert delete(fixture, State(topic_id=topic_id))[0][:3] == ("secret", topic_id, 29)
    fixture.authorizer.forbidden.add((Operation.DESCRIBE, ResourceType.TOPIC, "secret"))
    assert delete(fixture, State(topic_id=topic_id))[0][:3] == (None, topic_id, 29)
    assert delete(fixture, State(name="secret"))[0][:3] == ("secret", ZERO_UUID, 29)
    assert delete(fixture, State(name="nowhere"))[0][2] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fixture.authorizer.forbidden.add((Operation.DESCRIBE, ResourceType.TOPIC, "nowhere"))
    assert delete(fixture, State(name="nowhere"))[0][2] == 29
    outcomes = delete(fixture, State(topic_id=topic_id), State(name="secret"))
    assert sorted(code for _, _, code, _ in outcomes) == [29, 29], "nor which name belongs to an id"


def test_who_may_delete_in_the_cluster_deletes_every_topic(fixture: ControllerFixture) -> None:
    create(fixture, topic("a"))
    for operation in (Operation.DELETE, Operation.DESCRIBE):
        fixture.authorizer.forbidden.add((operation, ResourceType.TOPIC, "a"))
    assert delete(fixture, State(name="a"))[0][2] == ErrorCode.NONE
    assert not fixture.controller.image.topics.by_name


def test_the_answer_waits_for_the_commit(fixture: ControllerFixture) -> None:
    registration = fixture.services.handlers.get(ApiKey.CREATE_TOPICS)
    assert registration is not None
    context = fixture.context(ApiKey.CREATE_TOPICS, 7)
    request = CreateTopicsRequest(topics=[topic("later")])
    pending = registration.handler(fixture.services, context, request)
    again = registration.handler(fixture.services, context, request)
    assert not pending.done
    assert fixture.controller.image.topics.by_name == {}
    fixture.settle()
    assert again.response is not None
    assert pending.response.topics[0].error_code == 0
    assert again.response.topics[0].error_code == 36, "the second saw the first, committed or not"
