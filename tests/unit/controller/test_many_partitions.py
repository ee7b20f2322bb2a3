"""A broker of thousands of partitions comes and goes: in parts, none of which holds the loop for long."""

from __future__ import annotations

import pytest

from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.partition_index import Group
from controller.metadata.image.topics import PartitionRegistration
from controller.subjects.partitions import MOVES_PER_TURN
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from tests.support.rigs.controllers import ControllerFixture

PARTITIONS = 3 * MOVES_PER_TURN + 17


class Watch:
    """What is committed, step by step: changed partitions, and whether broker 1 leads and is fenced."""

    def __init__(self, fixture: ControllerFixture) -> None:
        self.sizes: list[int] = []
        self.states: list[tuple[bool, bool]] = []
        fixture.controller.on_image(self._image)

    def _image(self, image: ClusterImage, delta: ImageDelta) -> None:
        topics = delta.topics
        self.sizes.append(0 if topics is None else sum(len(t.partitions) for t in topics.changed.values()))
        broker = image.brokers.get(1)
        self.states.append((leads(image, 1), broker is None or broker.fenced))


def leads(image: ClusterImage, broker_id: int) -> bool:
    return any(p.leader == broker_id for t in image.topics.by_id.values() for p in t.partitions.values())


def create(fixture: ControllerFixture, replicas: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic("t", PARTITIONS, replicas)
    made = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic]))
    assert made.topics[0].error_code == 0


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_broker_is_fenced_in_parts_and_when_it_leads_nothing(replicas: int) -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(*range(1, replicas + 1))
    create(fixture, replicas)
    watch = Watch(fixture)
    assert fixture.heartbeat(1, epochs[1], want_fence=True).is_fenced
    assert max(watch.sizes) == MOVES_PER_TURN
    assert sum(watch.sizes) == PARTITIONS
    assert watch.states[-1] == (False, True)
    assert (True, True) not in watch.states, "it is fenced with the last part"


def test_silence_is_the_end_of_all_parts_too() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    create(fixture, 2)
    watch = Watch(fixture)
    fixture.timers.advance(5_000)
    fixture.heartbeat(2, epochs[2])
    fixture.timers.advance(5_000)
    fixture.settle()
    assert max(watch.sizes) == MOVES_PER_TURN
    assert watch.states[-1] == (False, True)
    assert not leads(fixture.controller.image, 1)


def test_a_shutdown_is_answered_when_the_leaderships_have_moved() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2, 3)
    create(fixture, 3)
    watch = Watch(fixture)
    answer = fixture.heartbeat(1, epochs[1], want_shut_down=True)
    assert not answer.should_shut_down, "nobody has seen it yet"
    assert not leads(fixture.controller.image, 1)
    assert max(watch.sizes) == MOVES_PER_TURN
    fixture.heartbeat(2, epochs[2])
    assert not fixture.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down, "3 has not seen it"
    fixture.heartbeat(3, epochs[3])
    assert fixture.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down


def test_a_shutdown_goes_on_with_the_next_controller() -> None:
    """The controller dies after the first part: what is left moves at the next one's first heartbeat."""
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    create(fixture, 2)
    request = BrokerHeartbeatRequest(
        1, epochs[1], fixture.log.high_watermark, want_fence=False, want_shut_down=True
    )
    pending = fixture.controller.heartbeat(request)
    assert isinstance(pending, Pending)
    assert pending.response is None
    fixture.timers.run_once()
    fixture.offload.run()
    fixture.files.kill_process()
    again = fixture.restart()
    again.settle()
    assert again.controller.image.brokers.by_id[1].in_controlled_shutdown
    left = again.controller.newest.topics.index.count(Group.IN_ISR, 1)
    assert 0 < left < PARTITIONS
    answer = again.heartbeat(1, epochs[1], want_shut_down=True)
    assert not answer.should_shut_down
    assert again.controller.newest.topics.index.count(Group.IN_ISR, 1) == 0
    again.heartbeat(2, epochs[2])
    assert again.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down


def test_a_new_life_is_registered_when_the_last_one_leads_nothing() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1, 2)
    create(fixture, 2)
    watch = Watch(fixture)
    fixture.timers.advance(3_000)
    refused = fixture.register(1, incarnation=b"n" * 16)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert watch.sizes == [], "nothing moves for a registration that is refused"
    fixture.files.kill_process()
    again = fixture.restart()
    again.settle()
    watch = Watch(again)
    answer = again.register(1, incarnation=b"n" * 16)
    assert answer.error_code == 0
    assert again.controller.image.brokers.by_id[1].epoch == answer.broker_epoch
    assert max(watch.sizes) == MOVES_PER_TURN
    assert watch.states[-1] == (False, True)
    again.heartbeat(1, answer.broker_epoch)
    assert not again.controller.image.brokers.by_id[1].fenced


def test_a_broker_is_forgotten_in_parts() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1, 2)
    create(fixture, 2)
    watch = Watch(fixture)
    answer = fixture.call(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(1))
    assert answer.error_code == 0
    assert max(watch.sizes) == MOVES_PER_TURN
    assert list(fixture.controller.image.brokers.by_id) == [2]
    assert not leads(fixture.controller.image, 1)


def test_all_are_led_again_when_the_last_broker_comes_back() -> None:
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1)
    create(fixture, 1)
    fixture.heartbeat(1, epochs[1], want_fence=True)
    index = fixture.controller.newest.topics.index
    assert index.count(Group.LED_BY, -1) == PARTITIONS
    watch = Watch(fixture)
    fixture.heartbeat(1, epochs[1])
    assert max(watch.sizes) == MOVES_PER_TURN
    assert (Group.LED_BY, -1) not in fixture.controller.newest.topics.index


def led(fixture: ControllerFixture) -> dict[int, PartitionRegistration]:
    (topic,) = fixture.controller.image.topics.by_id.values()
    return dict(topic.partitions)


def take_back(fixture: ControllerFixture, epochs: dict[int, int]) -> None:
    """Broker 2, which leads all, takes broker 1 into the ISRs; version 3 has the epochs of brokers."""
    (topic,) = fixture.controller.image.topics.by_id.values()
    states = [AlterPartitionRequest.BrokerState(broker, epoch) for broker, epoch in epochs.items()]
    wishes = [
        AlterPartitionRequest.PartitionData(index, each.leader_epoch, [], states, 0, each.partition_epoch)
        for index, each in topic.partitions.items()
    ]
    data = AlterPartitionRequest.TopicData(topic_id=topic.id, partitions=wishes)
    answer = fixture.call(ApiKey.ALTER_PARTITION, AlterPartitionRequest(2, epochs[2], [data]))
    (answered,) = answer.topics
    assert [each.partition_index for each in answered.partitions] == list(range(PARTITIONS))
    assert {each.error_code for each in answered.partitions} == {ErrorCode.NONE}
    assert all(set(each.isr) == {1, 2} for each in answered.partitions)


@pytest.mark.parametrize("everything", [True, False])
def test_a_broker_that_is_back_comes_into_isrs_and_leads_again_in_parts(everything: bool) -> None:
    """Each part is answered by what is there at its turn; the answer comes at the end and names all."""
    fixture = ControllerFixture()
    epochs = fixture.bring_up(1, 2)
    create(fixture, 2)
    given_up = [index for index, each in led(fixture).items() if each.leader == 1]
    fixture.heartbeat(1, epochs[1], want_fence=True)
    fixture.heartbeat(1, epochs[1])
    watch = Watch(fixture)
    take_back(fixture, epochs)
    assert max(watch.sizes) == MOVES_PER_TURN
    assert sum(watch.sizes) == PARTITIONS
    watch = Watch(fixture)
    named = None if everything else [ElectLeadersRequest.TopicPartitions("t", list(range(PARTITIONS)))]
    answer = fixture.call(ApiKey.ELECT_LEADERS, ElectLeadersRequest(0, named, 60_000))
    assert len([size for size in watch.sizes if size]) > 1
    assert sum(watch.sizes) == len(given_up) > 0
    assert [each for each, partition in led(fixture).items() if partition.leader == 1] == given_up
    (result,) = answer.replica_election_results
    answered = {each.partition_id: each.error_code for each in result.partition_result}
    not_needed = {} if everything else dict.fromkeys(range(PARTITIONS), ErrorCode.ELECTION_NOT_NEEDED)
    assert answered == not_needed | dict.fromkeys(given_up, ErrorCode.NONE)
