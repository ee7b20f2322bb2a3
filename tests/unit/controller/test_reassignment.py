"""Partitions on the move: what Apache Kafka 4.3.1 answered and did to the same requests on three brokers."""

from __future__ import annotations

from typing import Any

import pytest

from controller.metadata.image.topics import PartitionRegistration
from controller.subjects.partition_change import Election, change_partition
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.registry import ApiKey
from tests.support.rigs.controllers import ControllerFixture, one_node_config

Request = AlterPartitionReassignmentsRequest
State = tuple[tuple[int, ...], tuple[int, ...], int, int]
TOPIC_ID = b"t" * 16


@pytest.fixture
def fixture() -> ControllerFixture:
    return with_topics(ControllerFixture())


def with_topics(fixture: ControllerFixture) -> ControllerFixture:
    """Brokers 1, 2 and 3; `m` on [1, 2] and [2, 3], `s` twice on [1]."""
    fixture.bring_up(1, 2, 3)
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    wanted = CreateTopicsRequest(
        [
            CreateTopicsRequest.CreatableTopic("m", -1, -1, [assignment(0, [1, 2]), assignment(1, [2, 3])]),
            CreateTopicsRequest.CreatableTopic("s", -1, -1, [assignment(0, [1]), assignment(1, [1])]),
        ]
    )
    assert [r.error_code for r in fixture.call(ApiKey.CREATE_TOPICS, wanted).topics] == [0, 0]
    return fixture


def move(
    fixture: ControllerFixture, topic: str, *targets: tuple[int, list[int] | None], **options: Any
) -> list[tuple[int, str | None]]:
    partitions = [Request.ReassignablePartition(index, replicas) for index, replicas in targets]
    request = Request(30_000, topics=[Request.ReassignableTopic(topic, partitions)], **options)
    response: AlterPartitionReassignmentsResponse = fixture.call(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, request
    )
    assert (response.error_code, response.error_message) == (0, None)
    (answer,) = response.responses
    assert [each.partition_index for each in answer.partitions] == [index for index, _ in targets]
    return [(each.error_code, each.error_message) for each in answer.partitions]


def partition(fixture: ControllerFixture, topic: str, index: int = 0) -> PartitionRegistration:
    return fixture.controller.image.topics.by_name[topic].partitions[index]


def state(fixture: ControllerFixture, topic: str, index: int = 0) -> State:
    """Replicas, ISR, leader and leader epoch."""
    found = partition(fixture, topic, index)
    return found.replicas, found.isr, found.leader, found.leader_epoch


def moving(
    fixture: ControllerFixture, topics: dict[str, list[int]] | None = None
) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    """(topic, partition, replicas, adding, removing)."""
    named = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    asked = None if topics is None else [named(*item) for item in topics.items()]
    response = fixture.call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(30_000, asked)
    )
    assert (response.error_code, response.error_message) == (0, None)
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]


def enters_isr(fixture: ControllerFixture, topic: str, index: int, *isr: int) -> PartitionRegistration:
    """The partition as it is after its leader has altered the ISR."""
    found = partition(fixture, topic, index)
    change = change_partition(TOPIC_ID, index, found, isr=isr, is_active=lambda _: True)
    return found if change is None else found.merge(change)


def test_where_it_is_already_nothing_happens(fixture: ControllerFixture) -> None:
    end = fixture.log.end_offset
    assert move(fixture, "m", (0, [1, 2])) == [(0, None)]
    assert fixture.log.end_offset == end


def test_another_order_is_there_at_once_and_the_leader_stays(fixture: ControllerFixture) -> None:
    assert move(fixture, "m", (0, [2, 1])) == [(0, None)]
    assert state(fixture, "m") == ((2, 1), (1, 2), 1, 0)
    assert moving(fixture) == []


def test_replicas_that_only_go_are_gone_at_once_in_a_new_leader_epoch(fixture: ControllerFixture) -> None:
    assert move(fixture, "m", (0, [1])) == [(0, None)]
    assert state(fixture, "m") == ((1,), (1,), 1, 1)
    assert partition(fixture, "m").directories == (bytes([101]) * 16,)


def test_a_new_replica_is_waited_for(fixture: ControllerFixture) -> None:
    move(fixture, "m", (0, [1]))
    assert move(fixture, "m", (0, [3, 1])) == [(0, None)]
    assert state(fixture, "m") == ((3, 1), (1,), 1, 1)
    assert partition(fixture, "m").directories == (bytes([103]) * 16, bytes([101]) * 16)
    assert moving(fixture) == [("m", 0, [3, 1], [3], [])]
    arrived = enters_isr(fixture, "m", 0, 1, 3)
    assert (arrived.adding, arrived.replicas, arrived.isr, arrived.leader) == ((), (3, 1), (1, 3), 1)
    assert arrived.leader_epoch == 1, "nobody has left"


def test_a_move_ends_when_the_comer_is_in_sync_and_the_leader_goes(fixture: ControllerFixture) -> None:
    move(fixture, "s", (0, [3]), (1, [3, 1]))
    assert state(fixture, "s", 0) == ((3, 1), (1,), 1, 0)
    assert moving(fixture) == [("s", 0, [3, 1], [3], [1]), ("s", 1, [3, 1], [3], [])]
    assert moving(fixture, {"s": [0, 7], "zz": [1]}) == [("s", 0, [3, 1], [3], [1])]
    arrived = enters_isr(fixture, "s", 0, 1, 3)
    assert (arrived.replicas, arrived.isr, arrived.leader, arrived.leader_epoch) == ((3,), (3,), 3, 1)
    assert (arrived.adding, arrived.removing) == ((), ())


def test_another_target_replaces_the_first_one(fixture: ControllerFixture) -> None:
    move(fixture, "s", (0, [3]))
    assert move(fixture, "s", (0, [2, 3])) == [(0, None)]
    assert moving(fixture) == [("s", 0, [2, 3, 1], [2], [1])]


@pytest.mark.parametrize("wanted", [[3], [3, 1]], ids=["a move", "one more"])
def test_the_same_request_once_more_changes_nothing(fixture: ControllerFixture, wanted: list[int]) -> None:
    """A client that has lost the answer asks again, and an operator runs a plan twice."""
    move(fixture, "s", (0, wanted))
    under_way, end = moving(fixture), fixture.log.end_offset
    assert under_way != []
    assert move(fixture, "s", (0, wanted)) == [(0, None)]
    assert moving(fixture) == under_way
    assert fixture.log.end_offset == end
    assert move(fixture, "s", (0, None)) == [(0, None)]
    assert state(fixture, "s")[:2] == ((1,), (1,)), "the replication factor is what it was"


def test_only_who_is_still_wanted_stays_named_as_coming(fixture: ControllerFixture) -> None:
    move(fixture, "s", (0, [2, 3]))
    assert move(fixture, "s", (0, [3])) == [(0, None)]
    assert moving(fixture) == [("s", 0, [3, 1, 2], [3], [1, 2])]
    arrived = enters_isr(fixture, "s", 0, 1, 3)
    assert (arrived.replicas, arrived.isr, arrived.adding, arrived.removing) == ((3,), (3,), (), ())


def test_the_first_replicas_asked_for_again_are_there_at_once(fixture: ControllerFixture) -> None:
    move(fixture, "s", (0, [3]))
    assert move(fixture, "s", (0, [1])) == [(0, None)]
    assert moving(fixture) == []
    assert state(fixture, "s") == ((1,), (1,), 1, 1)


def test_who_was_to_go_and_is_wanted_again_stays(fixture: ControllerFixture) -> None:
    """Apache Kafka would still remove it."""
    move(fixture, "s", (0, [3]))
    assert move(fixture, "s", (0, [1, 3])) == [(0, None)]
    assert moving(fixture) == [("s", 0, [1, 3], [3], [])]
    arrived = enters_isr(fixture, "s", 0, 1, 3)
    assert (arrived.replicas, arrived.isr, arrived.adding, arrived.removing) == ((1, 3), (1, 3), (), ())


def test_taken_back_it_is_without_those_that_were_coming(fixture: ControllerFixture) -> None:
    move(fixture, "s", (0, [3]))
    move(fixture, "s", (0, [2, 3]))
    assert move(fixture, "s", (0, None)) == [(0, None)]
    assert state(fixture, "s", 0) == ((3, 1), (1,), 1, 1)
    assert moving(fixture) == []
    assert move(fixture, "s", (0, None)) == [(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)]


def test_one_partition_named_twice_is_changed_twice(fixture: ControllerFixture) -> None:
    move(fixture, "s", (1, [3, 1]))
    assert move(fixture, "s", (1, None), (1, None)) == [(0, None), (0, None)]
    assert state(fixture, "s", 1) == ((1,), (1,), 1, 2)


@pytest.mark.parametrize(
    ("wanted", "factor"), [([3], 1), ([1], 1), ([3, 2, 1], 3)], ids=["other", "fewer", "more"]
)
def test_the_factor_stays_where_that_is_asked(
    fixture: ControllerFixture, wanted: list[int], factor: int
) -> None:
    sentence = f"The replication factor is changed from 2 to {factor}"
    refused = [(ErrorCode.INVALID_REPLICATION_FACTOR, sentence)]
    assert move(fixture, "m", (0, wanted), allow_replication_factor_change=False) == refused
    assert move(fixture, "m", (0, [3, 1]), allow_replication_factor_change=False) == [(0, None)]
    assert move(fixture, "m", (0, wanted), allow_replication_factor_change=False) == refused


REFUSED = [
    ("nope", (0, [1]), 3, "Unable to find a topic named nope."),
    ("nope", (0, None), 3, "Unable to find a topic named nope."),
    ("m", (9, [1]), 3, "Unable to find partition m:9."),
    ("m", (0, None), 85, None),
    ("m", (0, []), 39, "The manual partition assignment includes an empty replica list."),
    ("m", (0, [1, 1]), 39, "The manual partition assignment includes the broker 1 more than once."),
    (
        "m",
        (0, [1, 9]),
        39,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    (
        "m",
        (0, [-1]),
        39,
        "The manual partition assignment includes broker -1, but no such broker is registered.",
    ),
]


@pytest.mark.parametrize(("topic", "target", "code", "sentence"), REFUSED)
def test_a_fault_is_named_in_kafkas_words(
    fixture: ControllerFixture, topic: str, target: Any, code: int, sentence: str | None
) -> None:
    end = fixture.log.end_offset
    assert move(fixture, topic, target) == [(code, sentence)]
    assert fixture.log.end_offset == end


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_back_to_a_replica_that_is_not_in_sync_is_an_unclean_election(unclean: str) -> None:
    fixture = with_topics(
        ControllerFixture(config=one_node_config(unclean__leader__election__enable=unclean))
    )
    move(fixture, "s", (0, [3]))
    found = fixture.controller.image.topics.by_name["s"]
    change = PartitionChangeRecord(partition_id=0, topic_id=found.id, isr=[3], leader=3)
    fixture.controller._append([change])  # as a leader that lost its follower would have it
    answer = move(fixture, "s", (0, None))
    if unclean == "false":
        sentence = (
            "Unable to revert partition assignment for s:0 because it would require an unclean leader "
            "election."
        )
        assert answer == [(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)]
    else:
        assert answer == [(0, None)]
        assert state(fixture, "s") == ((1,), (1,), 1, 2)


def test_nothing_asked_nothing_answered(fixture: ControllerFixture) -> None:
    response = fixture.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, Request(30_000))
    assert (response.responses, response.error_code, response.error_message) == ([], 0, "")
    assert moving(fixture, {}) == []


# The change itself


def registration(**fields: Any) -> PartitionRegistration:
    replicas = fields["replicas"]
    given = {"directories": (b"d" * 16,) * len(replicas), "leader_epoch": 5, **fields}
    return PartitionRegistration(**given)


def changed(found: PartitionRegistration, **target: Any) -> PartitionChangeRecord | None:
    return change_partition(TOPIC_ID, 0, found, is_active=target.pop("is_active", lambda _: True), **target)


def test_fewer_come_than_go_so_all_that_stay_must_be_in_sync() -> None:
    found = registration(replicas=(4, 1, 2, 3), isr=(1, 2), adding=(4,), removing=(2, 3), leader=1)
    change = changed(found, isr=(4, 2))
    assert change is not None
    assert change.replicas is None, "1 stays and is not in the ISR"
    change = changed(found, isr=(1, 2, 4))
    assert change is not None
    assert (change.replicas, change.isr, change.adding_replicas, change.removing_replicas) == (
        [4, 1],
        [1, 4],
        [],
        [],
    )
    assert change.leader == 1, "the leader stays, in a new epoch: two replicas have left"


def test_the_last_in_sync_may_not_leave() -> None:
    found = registration(replicas=(2, 1), isr=(1,), removing=(1,), leader=1)
    assert changed(found) is None
    change = changed(found, isr=(1, 2))
    assert change is not None
    assert (change.leader, change.isr, change.replicas) == (2, [2], [2])


@pytest.mark.parametrize(
    ("election", "leader", "active", "expected"),
    [
        (Election.ONLINE, 2, (1, 2, 3), 2),
        (Election.ONLINE, 2, (1, 3), 1),
        (Election.PREFERRED, 2, (1, 2, 3), 1),
        (Election.PREFERRED, 2, (2, 3), 2),
        (Election.ONLINE, -1, (3,), -1),
        (Election.PREFERRED, -1, (3,), -1),
        (Election.UNCLEAN, -1, (3,), 3),
        (Election.UNCLEAN, 2, (1, 3), 1),
    ],
)
def test_who_leads(election: Election, leader: int, active: tuple[int, ...], expected: int) -> None:
    found = registration(replicas=(1, 2, 3), isr=(2, 1), leader=leader)
    change = changed(found, election=election, is_active=lambda broker: broker in active)
    after = found if change is None else found.merge(change)
    assert after.leader == expected
    assert after.leader_epoch == (5 if expected == leader else 6)
    assert after.isr == ((3,) if expected == 3 else (2, 1))
    assert after.leader_recovery_state == (1 if expected == 3 else 0)


def test_a_name_too_long_for_a_topic_does_not_stand_whole_in_each_answer(
    fixture: ControllerFixture,
) -> None:
    """A small request would ask for hundreds of megabytes of messages."""
    most = "x" * 249
    targets: list[tuple[int, list[int] | None]] = [(index, [1]) for index in range(1_000)]
    cut = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {most}....")
    assert move(fixture, "x" * 32_767, *targets) == [cut] * 1_000
    whole = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {most}.")
    assert move(fixture, most, (0, [1])) == [whole]
