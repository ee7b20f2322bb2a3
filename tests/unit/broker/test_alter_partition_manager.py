"""Very many ISR changes at once, over the channel and the handlers that a real controller has."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from broker.controller_channel.alter_partition_manager import (
    CHANGES_PER_REQUEST,
    TROUBLE_TOLD_MS,
    AlterPartitionManager,
)
from broker.controller_channel.peer.in_process import InProcessPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.lane import Lane
from broker.network.memory import RequestMemory
from broker.replication.partition_state import LeaderAndIsr
from broker.security.authorizer import AllowAll
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.peer_channel import PeerError
from tests.support.rigs.controllers import ControllerFixture
from tests.support.rigs.handler_rig import ScriptedPeer
from tests.support.rigs.sans_io import MIB

ISR_OF_FIVE = LeaderAndIsr(1, 5, 0, tuple((broker, 9) for broker in range(1, 6)), 7)
MANY = 10_000
FIRST, SECOND = b"1" * 16, b"2" * 16


class Counted:
    """A channel that notes how many changes each request names."""

    def __init__(self, channel: InProcessPeer) -> None:
        self.channel = channel
        self.sizes: list[int] = []

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        assert isinstance(request, AlterPartitionRequest)
        self.sizes.append(sum(len(topic.partitions) for topic in request.topics))
        self.channel.send(request, on_response, timeout_ms=timeout_ms)


class World:
    """Broker 1 and its controller. The controller knows none of the partitions."""

    def __init__(self) -> None:
        self.fixture = fixture = ControllerFixture()
        epoch = fixture.bring_up(1)[1]
        memory = RequestMemory(128 * MIB)
        dispatcher = Dispatcher(
            fixture.services.handlers,
            fixture.services,
            clock=fixture.clock,
            authorizer=AllowAll(),
            lane=Lane(clock=fixture.clock, timers=fixture.timers, memory=memory),
        )
        peer = InProcessPeer(
            dispatcher,
            fixture.services.handlers,
            memory=memory,
            clock=fixture.clock,
            timers=fixture.timers,
            client_id="broker-1",
            listener="CONTROLLER",
        )
        self.channel = Counted(peer)
        self.manager = manager_of(self.fixture, self.channel, epoch)
        self.answers: list[LeaderAndIsr | ErrorCode] = []

    def submit(self, count: int) -> None:
        for number in range(count):
            assert self.manager.submit((number.to_bytes(16), 0), ISR_OF_FIVE, self.answers.append)

    def settle(self) -> None:
        """Lets everything happen that needs no time: helper threads, frames on the way."""
        while self.fixture.offload.run() or self.fixture.timers.run_soon():
            pass


def manager_of(
    fixture: ControllerFixture, channel: Counted | ScriptedPeer, epoch: int
) -> AlterPartitionManager:
    return AlterPartitionManager(
        node_id=1,
        channel=channel,
        clock=fixture.clock,
        timers=fixture.timers,
        broker_epoch=lambda: epoch,
        request_timeout_ms=30_000,
    )


def test_ten_thousand_changes_are_answered_some_at_a_time() -> None:
    world = World()
    world.submit(MANY)
    world.settle()
    assert world.answers == [ErrorCode.UNKNOWN_TOPIC_ID] * MANY
    assert sum(world.channel.sizes) == MANY
    assert max(world.channel.sizes) == CHANGES_PER_REQUEST


def test_a_controller_takes_ten_thousand_changes_in_one_request() -> None:
    """A broker of Apache Kafka sends all that it has."""
    world = World()
    epoch = world.fixture.controller.image.brokers.by_id[1].epoch
    states = [AlterPartitionRequest.BrokerState(broker, 9) for broker in range(1, 6)]
    wish = AlterPartitionRequest.PartitionData(0, 5, [], states, 0, 7)
    topics = [AlterPartitionRequest.TopicData(number.to_bytes(16), [wish]) for number in range(MANY)]
    answers: list[Message | PeerError] = []
    world.channel.send(AlterPartitionRequest(1, epoch, topics), answers.append, timeout_ms=30_000)
    world.settle()
    (answer,) = answers
    assert isinstance(answer, AlterPartitionResponse)
    assert (answer.error_code, len(answer.topics)) == (0, MANY)


def test_changes_that_an_answer_leaves_out_do_not_hold_up_the_others() -> None:
    world = World()
    controller = ScriptedPeer()
    world.manager = manager_of(world.fixture, controller, 5)
    world.submit(2 * CHANGES_PER_REQUEST)
    controller.open.pop(0)(AlterPartitionResponse())
    world.fixture.timers.advance(50)
    first, second = (named(request) for request in controller.requests)
    assert len(second) == CHANGES_PER_REQUEST
    assert first[0] not in second


def test_a_change_that_follows_an_answer_is_sent_without_those_that_it_answers() -> None:
    world = World()
    controller = ScriptedPeer()
    manager = world.manager = manager_of(world.fixture, controller, 5)
    world.submit(1)
    told: list[int] = []

    def again(outcome: LeaderAndIsr | ErrorCode) -> None:
        told.append(1)
        manager.submit((FIRST, 0), ISR_OF_FIVE, lambda outcome: told.append(3))

    manager.submit((FIRST, 0), ISR_OF_FIVE, again)
    manager.submit((SECOND, 0), ISR_OF_FIVE, lambda outcome: told.append(2))
    controller.open.pop(0)(granted(controller.requests[-1]))
    controller.open.pop(0)(granted(controller.requests[-1]))
    assert named(controller.requests[-1]) == [FIRST]
    controller.open.pop(0)(granted(controller.requests[-1]))
    assert (told, controller.open) == ([1, 2, 3], [])


def granted(request: Message) -> AlterPartitionResponse:
    data = AlterPartitionResponse.PartitionData(0, 0, 1, 5, [1], 0, 8)
    return AlterPartitionResponse(
        topics=[AlterPartitionResponse.TopicData(topic_id, [data]) for topic_id in named(request)]
    )


def named(request: Message) -> list[bytes]:
    assert isinstance(request, AlterPartitionRequest)
    return [topic.topic_id for topic in request.topics]


def test_trouble_that_lasts_is_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = World()
    controller = ScriptedPeer()
    world.manager = manager_of(world.fixture, controller, 5)
    world.submit(1)

    def fail_for(milliseconds: int) -> None:
        for _ in range(0, milliseconds, 50):
            controller.open.pop(0)(PeerError("the request is too long"))
            world.fixture.timers.advance(50)

    fail_for(TROUBLE_TOLD_MS)
    assert caplog.messages == []
    fail_for(2 * TROUBLE_TOLD_MS)
    assert [message.count("the request is too long") for message in caplog.messages] == [1, 1]
