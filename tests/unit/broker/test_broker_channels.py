"""The channels over which brokers ask each other for transactions: by address, made when needed, closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.server.transactions import BrokerChannels
from protocol.codec.message import Message
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from protocol.peer_channel import PeerError
from tests.support.rigs.hand_clock import HandClock, HandTimers

OnResponse = Callable[[Message | PeerError], None]


class HandChannel:
    def __init__(self) -> None:
        self.sent: list[tuple[Message, OnResponse, int]] = []
        self.is_closed = False

    def send(self, request: Message, on_response: OnResponse, *, timeout_ms: int) -> None:
        self.sent.append((request, on_response, timeout_ms))

    def close_channel(self) -> None:
        self.is_closed = True
        for _, on_response, _ in self.sent:
            on_response(PeerError("closed"))


class Node:
    """Broker 1, which knows where brokers listen."""

    def __init__(self) -> None:
        self.timers = HandTimers(HandClock())
        self.addresses: dict[int, tuple[str, int]] = {1: ("here", 9), 2: ("two", 9)}
        self.made: dict[tuple[str, int], HandChannel] = {}
        self.own: list[HandChannel] = []
        self.heard: list[Message | None] = []
        self.channels = BrokerChannels(1, self, self.timers, timeout_ms=700)

    def address(self, broker_id: int) -> tuple[str, int] | None:
        return self.addresses.get(broker_id)

    def connect(self, host: str, port: int) -> HandChannel:
        assert (host, port) not in self.made
        self.made[host, port] = HandChannel()
        return self.made[host, port]

    def here(self) -> HandChannel:
        self.own.append(HandChannel())
        return self.own[-1]

    def ask(self, broker_id: int) -> None:
        self.channels.send(broker_id, WriteTxnMarkersRequest(), self.heard.append)


@pytest.fixture
def node() -> Node:
    return Node()


def test_one_channel_to_each_broker(node: Node) -> None:
    for _ in range(2):
        node.ask(2)
    channel = node.made["two", 9]
    assert [timeout_ms for _, _, timeout_ms in channel.sent] == [700, 700]
    answer = WriteTxnMarkersResponse()
    channel.sent[0][1](answer)
    channel.sent[1][1](PeerError("broken"))
    assert node.heard == [answer, None]


def test_what_is_for_the_broker_itself_stays_in_its_process(node: Node) -> None:
    for _ in range(2):
        node.ask(1)
    assert (len(node.own), len(node.own[0].sent), node.made) == (1, 2, {})


def test_a_broker_that_nobody_knows_does_not_answer(node: Node) -> None:
    node.ask(3)
    assert node.heard == [], "not before the call returns"
    node.timers.run_soon()
    assert node.heard == [None]


def test_a_broker_that_has_moved_is_asked_where_it_is(node: Node) -> None:
    node.ask(2)
    node.addresses[2] = ("two", 10)
    node.channels.brokers_changed()
    node.timers.run_soon()
    assert node.made["two", 9].is_closed
    assert node.heard == [None], "what was under way is not waited for"
    node.ask(2)
    assert len(node.made["two", 10].sent) == 1
    node.addresses[2] = ("two", 11)
    node.ask(2)
    assert len(node.made["two", 11].sent) == 1, "before the news has come"
    del node.addresses[2]
    node.channels.brokers_changed()
    node.timers.run_soon()
    assert node.made["two", 11].is_closed


def test_a_broker_that_stops_closes_all(node: Node) -> None:
    node.ask(1)
    node.ask(2)
    node.channels.brokers_changed()
    node.timers.run_soon()
    assert not node.made["two", 9].is_closed
    node.channels.close()
    node.timers.run_soon()
    assert node.made["two", 9].is_closed
    assert node.own[0].is_closed
