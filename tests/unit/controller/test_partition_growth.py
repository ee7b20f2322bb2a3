"""CreatePartitions: what is added, and what is not, in the words of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from tests.support.rigs.controllers import ControllerFixture

Topic = CreatePartitionsRequest.CreatePartitionsTopic
Assignment = CreatePartitionsRequest.CreatePartitionsAssignment


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1, 2, 3)
    wanted = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name,
                -1,
                -1,
                [CreateTopicsRequest.CreatableReplicaAssignment(0, brokers)],
            )
            for name, brokers in (("a", [1]), ("pair", [1, 2]))
        ]
    )
    assert [r.error_code for r in fixture.call(ApiKey.CREATE_TOPICS, wanted).topics] == [0, 0]
    return fixture


def grow(
    fixture: ControllerFixture, *topics: tuple[str, int, list[list[int]] | None], **options: Any
) -> list[tuple[str, int, str | None]]:
    request = CreatePartitionsRequest(
        [
            Topic(name, count, None if chosen is None else [Assignment(brokers) for brokers in chosen])
            for name, count, chosen in topics
        ],
        **{"timeout_ms": 30_000, **options},
    )
    response: CreatePartitionsResponse = fixture.call(ApiKey.CREATE_PARTITIONS, request)
    return [(r.name, r.error_code, r.error_message) for r in response.results]


def test_new_partitions_follow_the_old_ones_and_have_as_many_replicas(fixture: ControllerFixture) -> None:
    before = fixture.controller.image.topics.by_name["pair"]
    assert grow(fixture, ("pair", 4, None)) == [("pair", 0, None)]
    after = fixture.controller.image.topics.by_name["pair"]
    assert list(after.partitions) == [0, 1, 2, 3]
    assert after.partitions[0] is before.partitions[0]
    assert after.id == before.id
    for index in (1, 2, 3):
        partition = after.partitions[index]
        assert len(set(partition.replicas)) == 2
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert partition.directories == tuple(bytes([broker + 100]) * 16 for broker in partition.replicas)


def test_chosen_replicas_are_taken_and_who_is_away_is_not_in_sync(fixture: ControllerFixture) -> None:
    fixture.register(4)
    assert grow(fixture, ("pair", 3, [[3, 1], [4, 2]])) == [("pair", 0, None)]
    first, second = (fixture.controller.image.topics.by_name["pair"].partitions[index] for index in (1, 2))
    assert (first.replicas, first.isr, first.leader) == ((3, 1), (3, 1), 3)
    assert (second.replicas, second.isr, second.leader) == ((4, 2), (2,), 2)


REFUSED: list[tuple[tuple[str, int, list[list[int]] | None], int, str | None]] = [
    (("nope", 3, None), 3, None),
    (("a/b", 3, None), 3, None),
    (("a", 1, None), 37, "Topic already has 1 partition(s)."),
    (("a", 0, None), 37, "The topic a currently has 1 partition(s); 0 would not be an increase."),
    (("a", -1, None), 37, "The topic a currently has 1 partition(s); -1 would not be an increase."),
    (("a", 20_000, None), -1, None),
    (
        ("a", 3, [[1]]),
        39,
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    ),
    (
        ("a", 3, []),
        39,
        "Attempted to add 2 additional partition(s), but only 0 assignment(s) were specified.",
    ),
    (
        ("a", 2, [[1], [2]]),
        39,
        "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
    ),
    (("a", 2, [[]]), 39, "The manual partition assignment includes an empty replica list."),
    (
        ("a", 2, [[9]]),
        39,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    (("pair", 2, [[1, 1]]), 39, "The manual partition assignment includes the broker 1 more than once."),
    (
        ("a", 2, [[1, 2]]),
        39,
        (
            "The manual partition assignment includes a partition with 2 replica(s), but this is not "
            "consistent with previous partitions, which have 1 replica(s)."
        ),
    ),
    (
        ("a", 2, [[4]]),
        39,
        (
            "All brokers specified in the manual partition assignment for partition 1 are fenced or in "
            "controlled shutdown."
        ),
    ),
]


@pytest.mark.parametrize(("wanted", "code", "sentence"), REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_fault_is_named_in_kafkas_words(
    fixture: ControllerFixture, wanted: Any, code: int, sentence: str | None, validate_only: bool
) -> None:
    fixture.register(4)
    end = fixture.log.end_offset
    assert grow(fixture, wanted, validate_only=validate_only) == [(wanted[0], code, sentence)]
    assert fixture.log.end_offset == end


def test_too_few_brokers_are_named_without_what_createtopics_says_before(fixture: ControllerFixture) -> None:
    fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=2))
    fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=3))
    too_few = (
        "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or "
        "some brokers have all their log directories cordoned."
    )
    assert grow(fixture, ("pair", 2, None)) == [("pair", ErrorCode.INVALID_REPLICATION_FACTOR, too_few)]


def test_a_trial_writes_nothing(fixture: ControllerFixture) -> None:
    end = fixture.log.end_offset
    assert grow(fixture, ("a", 9, None), validate_only=True) == [("a", 0, None)]
    assert fixture.log.end_offset == end


def test_a_name_that_stands_twice_is_refused_once_and_the_others_grow(fixture: ControllerFixture) -> None:
    answers = grow(fixture, ("a", 2, None), ("pair", 2, None), ("a", 3, None))
    assert answers == [("a", 42, "Duplicate topic name."), ("pair", 0, None)]
    topics = fixture.controller.image.topics.by_name
    assert [len(topics[name].partitions) for name in ("a", "pair")] == [1, 2]


def test_one_request_makes_no_more_than_one_batch_holds(fixture: ControllerFixture) -> None:
    answers = grow(fixture, ("a", 6_001, None), ("pair", 6_001, None))
    assert answers == [("a", 0, None), ("pair", -1, None)]


def test_without_any_time_nothing_is_done(fixture: ControllerFixture) -> None:
    assert grow(fixture, ("a", 2, None), timeout_ms=0) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]


def test_who_may_not_alter_a_topic_cannot_let_it_grow(fixture: ControllerFixture) -> None:
    fixture.authorizer.forbidden.add((Operation.ALTER, ResourceType.TOPIC, "a"))
    answers = grow(fixture, ("a", 2, None), ("pair", 2, None))
    assert answers == [("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED, None), ("pair", 0, None)]
