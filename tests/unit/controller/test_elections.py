"""ElectLeaders on three brokers: what Apache Kafka 4.3.1 answered to the same requests."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from tests.support.rigs.controllers import ControllerFixture

NOT_NEEDED = (84, "Leader election not needed for topic partition.")
NOT_PREFERRED = (80, "The preferred leader was not available.")
NOBODY = (83, "Eligible topic partition leaders are not available.")
PREFERRED, UNCLEAN = 0, 1

Answers = dict[str, dict[int, tuple[int, str | None]]]


@pytest.fixture
def fixture() -> ControllerFixture:
    """`pair` on [1, 2], `one` on [3]; both are led by their first replica."""
    fixture = ControllerFixture()
    fixture.bring_up(1, 2, 3)
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    topics = [
        CreateTopicsRequest.CreatableTopic(name, -1, -1, [assignment(0, brokers)])
        for name, brokers in (("pair", [1, 2]), ("one", [3]))
    ]
    made = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics))
    assert [each.error_code for each in made.topics] == [0, 0]
    return fixture


def ask(
    fixture: ControllerFixture, kind: int, topics: dict[str, list[int]] | None, version: int = 2
) -> ElectLeadersResponse:
    named = None
    if topics is not None:
        named = [ElectLeadersRequest.TopicPartitions(*item) for item in topics.items()]
    response: ElectLeadersResponse = fixture.call(
        ApiKey.ELECT_LEADERS, ElectLeadersRequest(kind, named, 30_000), version
    )
    return response


def elect(fixture: ControllerFixture, kind: int, topics: dict[str, list[int]] | None) -> Answers:
    response = ask(fixture, kind, topics)
    assert response.error_code == 0
    return {
        topic.topic: {
            each.partition_id: (each.error_code, each.error_message) for each in topic.partition_result
        }
        for topic in response.replica_election_results
    }


def leader(fixture: ControllerFixture, topic: str) -> tuple[int, int]:
    partition = fixture.controller.image.topics.by_name[topic].partitions[0]
    return partition.leader, partition.leader_epoch


def goes_and_comes(fixture: ControllerFixture, broker_id: int) -> None:
    """The broker is fenced for a moment."""
    epoch = fixture.controller.image.brokers.by_id[broker_id].epoch
    fixture.heartbeat(broker_id, epoch, want_fence=True)
    fixture.heartbeat(broker_id, epoch)


def goes(fixture: ControllerFixture, broker_id: int) -> None:
    fixture.heartbeat(broker_id, fixture.controller.image.brokers.by_id[broker_id].epoch, want_fence=True)


def in_sync_again(fixture: ControllerFixture) -> None:
    """Broker 1 follows the leader of `pair` again, as its AlterPartition would say."""
    topic_id = fixture.controller.image.topics.by_name["pair"].id
    fixture.controller._append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[2, 1])])
    fixture.settle()


def test_the_preferred_leader_leads_again(fixture: ControllerFixture) -> None:
    goes_and_comes(fixture, 1)
    assert leader(fixture, "pair") == (2, 1)
    assert elect(fixture, PREFERRED, {"pair": [0]}) == {"pair": {0: NOT_PREFERRED}}, "it is not in sync"
    in_sync_again(fixture)
    assert elect(fixture, PREFERRED, {"pair": [0]}) == {"pair": {0: (0, None)}}
    assert leader(fixture, "pair") == (1, 2)
    assert elect(fixture, PREFERRED, {"pair": [0]}) == {"pair": {0: NOT_NEEDED}}


def test_what_is_not_there(fixture: ControllerFixture) -> None:
    assert elect(fixture, PREFERRED, {"pair": [77], "nope": [0, 1]}) == {
        "pair": {77: (3, "No such partition as pair-77")},
        "nope": {0: (3, "No such topic as nope"), 1: (3, "No such topic as nope")},
    }


def test_of_all_partitions_only_those_that_need_it_are_told(fixture: ControllerFixture) -> None:
    assert elect(fixture, PREFERRED, None) == {"pair": {}, "one": {}}
    goes_and_comes(fixture, 1)
    assert elect(fixture, PREFERRED, None) == {"pair": {0: NOT_PREFERRED}, "one": {}}
    in_sync_again(fixture)
    assert elect(fixture, PREFERRED, None) == {"pair": {0: (0, None)}, "one": {}}


def test_a_partition_without_a_leader(fixture: ControllerFixture) -> None:
    goes(fixture, 3)
    assert leader(fixture, "one") == (-1, 1)
    assert elect(fixture, PREFERRED, {"one": [0]}) == {"one": {0: NOT_PREFERRED}}
    assert elect(fixture, UNCLEAN, {"one": [0]}) == {"one": {0: NOBODY}}
    assert leader(fixture, "one") == (-1, 1)


def test_an_unclean_election_takes_whoever_is_there(fixture: ControllerFixture) -> None:
    goes(fixture, 1)
    epoch = fixture.controller.image.brokers.by_id[1].epoch
    goes(fixture, 2)
    fixture.heartbeat(1, epoch)
    assert leader(fixture, "pair")[0] == -1, "1 is back, and not in sync"
    assert elect(fixture, UNCLEAN, {"pair": [0], "one": [0]}) == {
        "pair": {0: (0, None)},
        "one": {0: NOT_NEEDED},
    }
    partition = fixture.controller.image.topics.by_name["pair"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_an_unknown_kind(fixture: ControllerFixture) -> None:
    response = ask(fixture, 7, {"pair": [0]})
    (topic,) = response.replica_election_results
    (partition,) = topic.partition_result
    assert (response.error_code, partition.error_code, partition.error_message) == (
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        "Unknown election type 7",
    )


@pytest.mark.parametrize("version", [0, 2])
def test_who_may_not_alter_the_cluster(fixture: ControllerFixture, version: int) -> None:
    fixture.authorizer.forbidden.add((Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME))
    response = ask(fixture, PREFERRED, {"pair": [0]}, version)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_code == (0 if version == 0 else denied)
    assert response.replica_election_results[0].partition_result[0].error_code == denied


def test_a_name_too_long_for_a_topic_does_not_stand_whole_in_each_answer(
    fixture: ControllerFixture,
) -> None:
    """A small request would ask for hundreds of megabytes of messages."""
    most = "x" * 249
    answers = elect(fixture, PREFERRED, {"x" * 32_767: list(range(1_000)), most: [0]})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(answers["x" * 32_767].values()) == {(unknown, f"No such topic as {most}...")}
    assert answers[most] == {0: (unknown, f"No such topic as {most}")}
