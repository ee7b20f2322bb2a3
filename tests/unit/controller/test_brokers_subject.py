"""Brokers that come, stay silent, lose directories and go; what that means for their partitions."""

from __future__ import annotations

from typing import Any

import pytest

from controller.metadata.image.topics import PartitionRegistration
from controller.subjects.partition_change import change_partition
from protocol.errors import ErrorCode
from protocol.messages.broker_registration import BrokerRegistrationRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from tests.support.rigs.controllers import ControllerFixture


def create(fixture: ControllerFixture, name: str, *assignment: list[int], **configs: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assignment)
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0, response.topics[0].error_message


def partition(fixture: ControllerFixture, name: str, index: int = 0) -> PartitionRegistration:
    return fixture.controller.image.topics.by_name[name].partitions[index]


def led(fixture: ControllerFixture, name: str, index: int = 0) -> tuple[int, tuple[int, ...], int]:
    """Leader, ISR and leader epoch."""
    found = partition(fixture, name, index)
    return found.leader, found.isr, found.leader_epoch


def test_a_registration_starts_fenced_and_its_epoch_is_its_offset() -> None:
    fixture = ControllerFixture()
    offset = fixture.log.end_offset
    response = fixture.register(5, rack="r1")
    assert (response.error_code, response.broker_epoch) == (0, offset)
    broker = fixture.controller.image.brokers.by_id[5]
    assert broker.fenced
    assert (broker.rack, broker.epoch, broker.endpoints["PLAINTEXT"].port) == ("r1", offset, 9005)


def feature(name: str, lowest: int, highest: int) -> BrokerRegistrationRequest.Feature:
    return BrokerRegistrationRequest.Feature(
        name=name, min_supported_version=lowest, max_supported_version=highest
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "nope"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": [feature("metadata.version", 7, 29)]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [b"d" * 16] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes([101]) * 16]}, ErrorCode.INVALID_REGISTRATION),
    ],
    ids=["cluster", "no features", "old", "no directory", "twice", "another's directory"],
)
def test_a_bad_registration_leaves_no_trace(changes: dict[str, Any], error: ErrorCode) -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    end = fixture.log.end_offset
    assert fixture.register(2, **changes).error_code == error
    assert fixture.log.end_offset == end


def test_two_processes_cannot_share_an_id_while_one_lives() -> None:
    fixture = ControllerFixture()
    epoch = fixture.bring_up(1)[1]
    assert fixture.register(1, incarnation=b"j" * 16).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert fixture.register(1).broker_epoch == epoch, "the same incarnation asks again"
    assert not fixture.controller.image.brokers.by_id[1].fenced
    fixture.timers.advance(9_000)
    fixture.settle()
    assert fixture.register(1, incarnation=b"j" * 16).error_code == 0


def test_a_new_incarnation_begins_without_leaderships() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1, 2)
    create(fixture, "orders", [1, 2])
    create(fixture, "alone", [1])
    fixture.files.kill_process()
    fixture = fixture.restart()
    offset = fixture.log.end_offset
    response = fixture.register(1, incarnation=b"n" * 16)
    assert response.error_code == 0
    assert response.broker_epoch == offset + 2, "two partitions move before the registration's record"
    assert led(fixture, "orders") == (2, (2,), 1)
    assert led(fixture, "alone") == (-1, (1,), 1)
    fixture.heartbeat(1, response.broker_epoch)
    assert led(fixture, "orders") == (2, (2,), 1)
    assert led(fixture, "alone") == (1, (1,), 2)


def test_a_heartbeat_of_an_earlier_life_is_stale() -> None:
    fixture = ControllerFixture()
    epoch = fixture.bring_up(1)[1]
    for broker, wrong in ((1, epoch - 1), (9, epoch)):
        response = fixture.heartbeat(broker, wrong)
        assert (response.error_code, response.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)


def test_a_broker_is_unfenced_when_it_has_caught_up_and_wants_it() -> None:
    fixture = ControllerFixture()
    epoch = fixture.register(1).broker_epoch
    behind = fixture.heartbeat(1, epoch, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    unwilling = fixture.heartbeat(1, epoch, want_fence=True)
    assert (unwilling.is_caught_up, unwilling.is_fenced) == (True, True)
    there = fixture.heartbeat(1, epoch, current_metadata_offset=epoch)
    assert (there.is_caught_up, there.is_fenced) == (True, False)
    end = fixture.log.end_offset
    assert not fixture.heartbeat(1, epoch).is_fenced
    assert fixture.log.end_offset == end, "a heartbeat without news writes nothing"


def test_a_silent_broker_is_fenced_and_its_partitions_find_other_leaders() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2, 3)
    create(fixture, "orders", [1, 2, 3], [2, 1, 3])
    create(fixture, "alone", [1])
    for _ in range(4):
        fixture.timers.advance(3_000)
        for broker in (2, 3):
            fixture.heartbeat(broker, epochs[broker])
    fixture.settle()
    assert [b.id for b in fixture.controller.image.brokers.unfenced()] == [2, 3]
    assert led(fixture, "orders", 0) == (2, (2, 3), 1)
    assert led(fixture, "orders", 1) == (2, (2, 3), 0)
    assert led(fixture, "alone") == (-1, (1,), 1)
    fixture.heartbeat(1, epochs[1])
    assert led(fixture, "orders", 0) == (2, (2, 3), 1), "who comes back must catch up before it is in sync"
    assert led(fixture, "alone") == (1, (1,), 2)


def test_unclean_elections_are_for_topics_that_allow_them() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    create(fixture, "risky", [1, 2], unclean_leader_election_enable="true")
    create(fixture, "safe", [1, 2])
    fixture.heartbeat(2, epochs[2], want_fence=True)
    fixture.heartbeat(1, epochs[1], want_fence=True)
    assert led(fixture, "safe") == (-1, (1,), 1)
    assert led(fixture, "risky") == (-1, (1,), 1)
    fixture.heartbeat(2, epochs[2])
    assert led(fixture, "safe") == (-1, (1,), 1)
    assert led(fixture, "risky") == (2, (2,), 2)
    assert partition(fixture, "risky").leader_recovery_state == 1


def test_a_broker_with_leaderships_goes_in_steps() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    create(fixture, "orders", [1, 2])
    first = fixture.heartbeat(1, epochs[1], want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert led(fixture, "orders") == (2, (2,), 1)
    waiting = fixture.heartbeat(1, epochs[1], want_shut_down=True)
    assert not waiting.should_shut_down, "broker 2 has not seen the move yet"
    fixture.heartbeat(2, epochs[2])
    assert fixture.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down
    assert fixture.controller.image.brokers.by_id[1].fenced
    assert fixture.register(1, incarnation=b"n" * 16).error_code == 0, (
        "who was sent away may come back at once"
    )


def test_a_broker_without_leaderships_goes_at_once() -> None:
    fixture = ControllerFixture()
    epoch = fixture.bring_up(1)[1]
    answer = fixture.heartbeat(1, epoch, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)


def test_nothing_is_placed_on_a_broker_that_goes() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    create(fixture, "orders", [1, 2])
    fixture.heartbeat(1, epochs[1], want_shut_down=True)
    topic = CreateTopicsRequest.CreatableTopic(name="three", num_partitions=2, replication_factor=2)
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_lost_directory_takes_its_replicas_out() -> None:
    fixture = ControllerFixture()
    lost, kept = b"l" * 16, b"k" * 16
    epochs = fixture.bring_up(1, log_dirs=[lost]) | fixture.bring_up(2, log_dirs=[kept])
    create(fixture, "orders", [1, 2])
    fixture.heartbeat(1, epochs[1], offline_log_dirs=[lost])
    assert led(fixture, "orders") == (2, (2,), 1)
    assert fixture.controller.image.brokers.by_id[2].log_dirs == (kept,)


def test_cordoned_directories_take_no_new_replicas() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    fixture.heartbeat(1, epochs[1], cordoned_log_dirs=[bytes([101]) * 16])
    for number in range(5):
        topic = CreateTopicsRequest.CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)
        fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
        assert partition(fixture, f"t{number}").replicas == (2,)


def test_brokers_need_cluster_action() -> None:
    fixture = ControllerFixture()
    epoch = fixture.bring_up(1)[1]
    fixture.authorizer.forbidden.add((Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
    assert fixture.register(2).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert fixture.heartbeat(1, epoch).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_leader_in_sync_and_active_stays() -> None:
    present = PartitionRegistration(
        replicas=(1, 2, 3), directories=(bytes(16),) * 3, isr=(1, 2, 3), leader=3, leader_epoch=5
    )
    assert change_partition(b"t" * 16, 0, present, isr=(1, 2, 3), is_active=lambda _: True) is None
    change = change_partition(b"t" * 16, 0, present, isr=(2, 3), is_active=lambda _: True)
    assert change is not None
    assert (change.leader, change.isr) == (-2, [2, 3])
    assert present.merge(change).leader_epoch == 5
