"""Requests between two roles on one loop: encoded, in later turns, answered once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from broker.controller_channel.peer import in_process
from broker.controller_channel.peer.in_process import InProcessPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.lane import Lane
from broker.network.memory import RequestMemory
from broker.security.authorizer import AllowAll
from protocol.codec.message import Message
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.metadata import MetadataRequest
from protocol.messages.vote import VoteRequest, VoteResponse
from protocol.peer_channel import PeerError
from protocol.registry import ApiKey
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.pending import CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Principal
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.sans_io import KIB, MIB


class Controller:
    """The other role: answers heartbeats as the test says."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.contexts: list[RequestContext] = []
        self.answer: Callable[[Any], Any] = lambda request: BrokerHeartbeatResponse(is_fenced=False)

        def heartbeat(services: Any, context: RequestContext, request: Any) -> Any:
            self.seen.append(request)
            self.contexts.append(context)
            return self.answer(request)

        def vote(services: Any, context: RequestContext, request: Any) -> Any:
            return VoteResponse()

        rows = (serve(ApiKey.BROKER_HEARTBEAT, heartbeat), serve(ApiKey.VOTE, vote))
        self.handlers = HandlerTable("controller", rows)
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.memory = RequestMemory(16 * MIB, scratch_bytes=8 * KIB, poison=True)
        self.dispatcher = Dispatcher(
            self.handlers,
            None,
            clock=self.clock,
            authorizer=AllowAll(),
            lane=Lane(clock=self.clock, timers=self.timers, memory=self.memory),
        )
        self.peer = InProcessPeer(
            self.dispatcher,
            self.handlers,
            memory=self.memory,
            clock=self.clock,
            timers=self.timers,
            client_id="broker-1",
            listener="CONTROLLER",
            principal=Principal("broker"),
        )
        self.answers: list[Message | PeerError] = []

    def send(self, request: Message, timeout_ms: int = 1000) -> None:
        self.peer.send(request, self.answers.append, timeout_ms=timeout_ms)


@pytest.fixture
def controller() -> Controller:
    return Controller()


def heartbeat(broker_id: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id, 5, 100)


def test_a_request_is_answered_in_a_later_turn_with_an_object_of_its_own(controller: Controller) -> None:
    request = heartbeat(1)
    controller.send(request)
    assert (controller.seen, controller.answers) == ([], [])
    controller.timers.run_soon()
    assert controller.seen == [request]
    assert controller.seen[0] is not request
    assert controller.answers == [BrokerHeartbeatResponse(is_fenced=False)]
    context = controller.contexts[0]
    assert (context.client_id, context.session.listener, str(context.session.principal)) == (
        "broker-1",
        "CONTROLLER",
        "User:broker",
    )


def test_requests_are_served_in_order_one_at_a_time(controller: Controller) -> None:
    pendings: list[Pending[BrokerHeartbeatResponse]] = []

    def answer(request: Any) -> Pending[BrokerHeartbeatResponse]:
        pendings.append(Pending())
        return pendings[-1]

    controller.answer = answer
    for number in range(3):
        controller.send(heartbeat(number))
    controller.timers.run_soon()
    assert [request.broker_id for request in controller.seen] == [0]
    pendings[0].complete(BrokerHeartbeatResponse(error_code=1))
    assert controller.answers == []
    controller.timers.run_soon()
    assert [request.broker_id for request in controller.seen] == [0, 1]
    pendings[1].complete(BrokerHeartbeatResponse(error_code=2))
    controller.timers.run_soon()
    pendings[2].complete(BrokerHeartbeatResponse(error_code=3))
    controller.timers.run_soon()
    assert [getattr(answer, "error_code", None) for answer in controller.answers] == [1, 2, 3]


def test_an_answer_may_ask_again(controller: Controller) -> None:
    rounds: list[int] = []

    def again(response: Message | PeerError) -> None:
        rounds.append(len(rounds))
        if len(rounds) < 5:
            controller.peer.send(heartbeat(len(rounds)), again, timeout_ms=1000)

    controller.peer.send(heartbeat(0), again, timeout_ms=1000)
    controller.timers.run_soon()
    assert [request.broker_id for request in controller.seen] == [0, 1, 2, 3, 4]


def test_large_requests_and_many_of_them(controller: Controller) -> None:
    for number in range(200):
        controller.send(BrokerHeartbeatRequest(number, offline_log_dirs=[bytes(16)] * (number * 10)))
    controller.timers.run_soon()
    assert [request.broker_id for request in controller.seen] == list(range(200))
    assert len(controller.seen[199].offline_log_dirs) == 1990
    assert len(controller.answers) == 200
    assert controller.memory.used_bytes == 0


def test_no_answer_in_time_is_an_error_and_the_wait_is_cancelled(controller: Controller) -> None:
    cancelled: list[bool] = []

    def never(request: Any) -> Pending[BrokerHeartbeatResponse]:
        pending: Pending[BrokerHeartbeatResponse] = Pending()
        pending.on_cancel(lambda: cancelled.append(True))
        return pending

    controller.answer = never
    controller.send(heartbeat(1), timeout_ms=500)
    controller.timers.advance(499)
    assert controller.answers == []
    controller.timers.advance(1)
    assert controller.answers == [PeerError("no answer in time")]
    assert cancelled == [True]
    controller.answer = lambda request: BrokerHeartbeatResponse()
    controller.send(heartbeat(2))
    controller.timers.run_soon()
    assert controller.answers[1:] == [BrokerHeartbeatResponse()], "the channel goes on"


def test_a_connection_that_is_cut_fails_what_is_under_way_and_the_next_goes_through(
    controller: Controller,
) -> None:
    def cut(request: Any) -> None:
        raise CloseConnection("go away")

    controller.answer = cut
    controller.send(heartbeat(1))
    controller.send(heartbeat(2))
    controller.timers.run_soon()
    assert controller.answers == [PeerError("go away"), PeerError("go away")]
    controller.answer = lambda request: BrokerHeartbeatResponse()
    controller.send(heartbeat(3))
    controller.timers.run_soon()
    assert controller.answers[2:] == [BrokerHeartbeatResponse()]


def test_what_is_not_served_there_is_an_error(controller: Controller) -> None:
    controller.send(MetadataRequest())
    controller.timers.run_soon()
    assert controller.answers == [PeerError("MetadataRequest is not served there")]


def test_a_closed_channel_says_so(controller: Controller) -> None:
    controller.send(heartbeat(1))
    controller.peer.close_channel()
    controller.send(VoteRequest())
    controller.timers.run_soon()
    assert controller.answers == [PeerError("the channel is closed"), PeerError("closed")]
    controller.timers.advance(2000)
    assert len(controller.answers) == 2


def test_a_disk_that_fails_under_an_answer_ends_the_connection_and_no_more(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(pieces: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(in_process, "joined_bytes", fail)
        controller.send(heartbeat(1))
        controller.timers.run_soon()
    assert controller.answers == [PeerError("[Errno 5] Input/output error")]
    assert controller.dispatcher.metrics.failures == 0
    controller.send(heartbeat(2))
    controller.timers.run_soon()
    assert controller.answers[1:] == [BrokerHeartbeatResponse(is_fenced=False)]
