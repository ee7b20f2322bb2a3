"""Requests find the active controller, and leave the former one when another is known."""

from __future__ import annotations

from collections.abc import Callable

from broker.controller_channel.peer.to_leader import LeaderPeer
from controller.raft.identity import Address
from protocol.codec.message import Message
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from protocol.messages.fetch import FetchRequest
from protocol.peer_channel import PeerError
from tests.support.rigs.hand_clock import HandClock, HandTimers

FIRST, SECOND = Address("one", 1), Address("two", 2)


class Recorded:
    """A channel that answers nothing; what is under way fails when it is closed."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Message | PeerError], None]] = []
        self.is_closed = False

    def versions(self) -> dict[int, tuple[int, int]]:
        return {60: (0, 1)}

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        self.waiting.append(on_response)

    def close_channel(self) -> None:
        self.is_closed = True
        for each in self.waiting:
            each(PeerError("closed"))


class Rig:
    def __init__(self, *, may_lead: bool) -> None:
        self.here = Recorded()
        self.leader: Address | None = None
        self.channels: dict[tuple[str, int], Recorded] = {}
        self.answers: list[Message | PeerError] = []
        self.timers = HandTimers(HandClock())
        self.peer = LeaderPeer(self.here, lambda: self.leader, self._connect, self.timers, may_lead=may_lead)

    def _connect(self, host: str, port: int) -> Recorded:
        return self.channels.setdefault((host, port), Recorded())

    def send(self, request: Message) -> None:
        self.peer.send(request, self.answers.append, timeout_ms=1000)
        self.timers.run_soon()


def test_what_was_asked_of_a_former_leader_fails_when_another_is_known() -> None:
    rig = Rig(may_lead=False)
    rig.leader = FIRST
    rig.send(BrokerHeartbeatRequest())
    rig.peer.leader_changed()
    rig.timers.run_soon()
    assert rig.answers == [], "it leads still"
    rig.leader = SECOND
    rig.peer.leader_changed()
    rig.timers.run_soon()
    assert rig.channels[FIRST].is_closed
    assert [type(each) for each in rig.answers] == [PeerError]
    rig.send(BrokerHeartbeatRequest())
    assert len(rig.channels[SECOND].waiting) == 1


def test_a_broker_without_a_leader_is_told_so_and_reads_its_own_log() -> None:
    rig = Rig(may_lead=False)
    rig.send(BrokerHeartbeatRequest())
    (answer,) = rig.answers
    assert isinstance(answer, PeerError)
    assert answer.reason == "no active controller is known yet"
    rig.leader = FIRST
    rig.send(FetchRequest())
    assert len(rig.here.waiting) == 1
    assert rig.channels == {}


def test_a_controller_asks_itself_while_no_other_leads() -> None:
    rig = Rig(may_lead=True)
    rig.send(BrokerHeartbeatRequest())
    assert len(rig.here.waiting) == 1
    rig.leader = FIRST
    rig.send(BrokerHeartbeatRequest())
    rig.leader = None  # this node leads now
    rig.peer.leader_changed()
    rig.timers.run_soon()
    assert rig.channels[FIRST].is_closed


def test_the_versions_of_the_leader_are_known_while_it_leads() -> None:
    rig = Rig(may_lead=True)
    assert rig.peer.versions() is None
    rig.leader = FIRST
    assert rig.peer.versions() is None, "nothing was sent yet"
    rig.send(BrokerHeartbeatRequest())
    assert rig.peer.versions() == {60: (0, 1)}
    rig.leader = SECOND
    assert rig.peer.versions() is None
    rig.leader = None  # this node leads now
    assert rig.peer.versions() is None
