"""Requests to another node over real sockets: versions, order, failures, and coming back."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from broker.controller_channel.peer import tcp
from broker.controller_channel.peer.login import Login, renewal_ms
from broker.controller_channel.peer.tcp import State, TcpPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.lane import Lane
from broker.network.interfaces import ListenerSettings, Service
from broker.network.memory import RequestMemory
from broker.network.server import Server
from broker.network.socket_network import SocketNetwork
from broker.security.authorizer import AllowAll
from broker.security.mechanism import PlainClient, PlainServer
from broker.security.sasl_authenticator import SaslAuthenticator
from broker.security.sasl_gate import GateSettings, SaslGate
from config.authentication import SaslListener, SaslLogin
from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.vote import VoteRequest
from protocol.peer_channel import PeerError
from protocol.registry import ApiKey
from protocol.serving import sasl_out_of_turn
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.pending import CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from tests.support.brokers.ports import free_ports
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.sans_io import MIB

ApiVersion = ApiVersionsResponse.ApiVersion


class TwoNodes:
    """A server whose handlers a test scripts, and a channel to it."""

    def __init__(self, heartbeat_versions: tuple[int, int], api_versions: tuple[int, int]) -> None:
        self.contexts: list[RequestContext] = []
        self.heartbeat: Callable[[HeartbeatRequest], Any] = lambda request: HeartbeatResponse()
        self.fetch: Callable[[FetchRequest], Any] = lambda request: FetchResponse()
        self.heartbeat_versions = heartbeat_versions
        self.handlers = self._table(heartbeat_versions, api_versions)
        self.answers: list[Message | PeerError] = []
        self.is_patient = True
        self.last_versions: dict[int, int] = {}
        self.sasl: SaslListener | None = None
        self.login: Login | None = None
        self.gate: SaslGate | None = None

    def _guarded(self, dispatcher: Dispatcher) -> Service:
        """Behind a gate, where the other side has SASL."""
        sasl = self.sasl
        if sasl is None:
            return dispatcher
        self.gate = SaslGate(
            dispatcher,
            lambda: SaslAuthenticator(lambda: sasl, lambda found, _: PlainServer(found.plain_users)),
            GateSettings(failure_delay_ms=0, max_frame_bytes=MIB, max_receive_bytes=MIB),
            clock=self.clock,
            timers=self.timers,
        )
        return self.gate

    def _table(self, heartbeat_versions: tuple[int, int], api_versions: tuple[int, int]) -> HandlerTable:
        def versions(services: Any, context: RequestContext, request: Any) -> ApiVersionsResponse:
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(each.api_key, each.min_version, each.max_version) for each in self.handlers
                ]
            )

        def heartbeat(services: Any, context: RequestContext, request: Any) -> Any:
            self.contexts.append(context)
            return self.heartbeat(request)

        def fetch(services: Any, context: RequestContext, request: Any) -> Any:
            return self.fetch(request)

        rows = (
            serve(ApiKey.API_VERSIONS, versions, versions=api_versions),
            serve(ApiKey.HEARTBEAT, heartbeat, versions=heartbeat_versions),
            serve(ApiKey.FETCH, fetch, versions=(4, 17)),
            serve(ApiKey.SASL_HANDSHAKE, sasl_out_of_turn.handshake),
            serve(ApiKey.SASL_AUTHENTICATE, sasl_out_of_turn.authenticate),
        )
        return HandlerTable("broker", rows)

    def send(self, request: Message, timeout_ms: int = 1000) -> None:
        self.peer.send(request, self.answers.append, timeout_ms=timeout_ms)

    async def answered(self, count: int) -> None:
        while len(self.answers) < count:
            self.timers.run_soon()
            await asyncio.sleep(0.001)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self.timers.run_soon()
            await asyncio.sleep(0.001)

    async def run(self, scenario: Callable[[TwoNodes], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        failures: list[Any] = []
        loop.set_exception_handler(lambda _, context: failures.append(context))
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.memory = RequestMemory(128 * MIB, poison=True)
        network = SocketNetwork(loop, clock=self.clock, timers=self.timers)
        self.server = Server(network, clock=self.clock, timers=self.timers, memory=self.memory)
        dispatcher = Dispatcher(
            self.handlers,
            None,
            clock=self.clock,
            authorizer=AllowAll(),
            lane=Lane(clock=self.clock, timers=self.timers, memory=self.memory),
        )
        (port,) = free_ports(1)  # nobody else's, also when this server has stopped
        self.acceptor = self.server.listen(
            ListenerSettings(
                "P", "127.0.0.1", port, sasl_server_max_receive_size=None if self.sasl is None else MIB
            ),
            self._guarded(dispatcher),
        )
        self.server.start()
        network = SocketNetwork(loop, clock=self.clock, timers=self.timers)
        self.peer = TcpPeer(
            "127.0.0.1",
            self.acceptor.port,
            network=network,
            clock=self.clock,
            timers=self.timers,
            memory=self.memory,
            client_id="node-2",
            is_patient=self.is_patient,
            last_versions=self.last_versions,
            login=self.login,
        )
        try:
            await asyncio.wait_for(scenario(self), 120)
        finally:
            self.peer.close_channel()
            self.server.abort("the test is over")
            network.close()
        assert failures == []


def run(
    scenario: Callable[[TwoNodes], Awaitable[None]],
    *,
    heartbeat_versions: tuple[int, int] = (0, 4),
    api_versions: tuple[int, int] = (0, 4),
    is_patient: bool = True,
    sasl: SaslListener | None = None,
    login: Login | None = None,
) -> None:
    nodes = TwoNodes(heartbeat_versions, api_versions)
    nodes.sasl, nodes.login = sasl, login
    nodes.is_patient = is_patient
    uvloop.run(nodes.run(scenario))


def test_requests_are_answered_in_order_over_one_connection() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.heartbeat = lambda request: HeartbeatResponse(error_code=request.generation_id)
        for number in range(50):
            nodes.send(HeartbeatRequest("g", number))
        assert nodes.answers == []
        await nodes.answered(50)
        assert nodes.answers == [HeartbeatResponse(error_code=number) for number in range(50)]
        assert nodes.acceptor.traffic.accepted == 1
        assert {(context.client_id, context.version) for context in nodes.contexts} == {("node-2", 4)}

    run(scenario)


def test_the_highest_common_version_is_spoken() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.send(HeartbeatRequest("g", 1))
        await nodes.answered(1)
        assert [context.version for context in nodes.contexts] == [2]

    run(scenario, heartbeat_versions=(1, 2))


def test_a_last_version_of_its_own_is_not_exceeded() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.last_versions[ApiKey.HEARTBEAT] = 3
        nodes.send(HeartbeatRequest("g", 7))
        await nodes.answered(1)
        assert [context.version for context in nodes.contexts] == [3]

    run(scenario)


def test_what_the_other_side_serves_is_known_while_there_is_a_connection() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        assert nodes.peer.versions() is None
        nodes.send(HeartbeatRequest("g", 1))
        assert nodes.peer.versions() is None
        await nodes.answered(1)
        served = nodes.peer.versions()
        assert served is not None
        assert served[ApiKey.HEARTBEAT] == (1, 2)
        nodes.peer.close_channel()
        assert nodes.peer.versions() is None

    run(scenario, heartbeat_versions=(1, 2))


def test_a_node_that_knows_only_old_api_versions_is_understood() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.send(HeartbeatRequest("g", 1))
        await nodes.answered(1)
        assert nodes.answers == [HeartbeatResponse()]

    run(scenario, api_versions=(0, 1))


def test_what_the_other_side_does_not_serve_is_an_error_and_no_broken_connection() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.send(VoteRequest())
        nodes.send(HeartbeatRequest())
        await nodes.answered(2)
        assert PeerError("Vote: there no version, here 0-2", is_unsupported=True) in nodes.answers
        assert HeartbeatResponse() in nodes.answers
        assert nodes.acceptor.traffic.closed == 0

    run(scenario)


def test_large_answers_with_records_come_through() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        records = bytes(range(256)) * 20_000
        partition = FetchResponse.PartitionData(3, records=records)
        topic = FetchResponse.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[partition])
        nodes.fetch = lambda request: FetchResponse(responses=[topic])
        seen: list[bytes] = []

        def take(response: Message | PeerError) -> None:
            assert isinstance(response, FetchResponse)
            seen.append(bytes(response.responses[0].partitions[0].records or b""))  # type: ignore[arg-type]

        for _ in range(3):
            nodes.peer.send(FetchRequest(), take, timeout_ms=1000)
        await nodes.until(lambda: len(seen) == 3)
        assert seen == [records] * 3

    run(scenario)


def test_no_answer_in_time_costs_the_connection_and_the_next_request_makes_another() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        cancelled: list[bool] = []
        pending: Pending[HeartbeatResponse] = Pending()
        pending.on_cancel(lambda: cancelled.append(True))
        nodes.heartbeat = lambda request: pending
        nodes.send(HeartbeatRequest(), timeout_ms=500)
        nodes.send(HeartbeatRequest(), timeout_ms=900)
        await nodes.until(lambda: nodes.contexts)
        nodes.timers.advance(499)
        assert nodes.answers == []
        nodes.timers.advance(1)
        await nodes.answered(2)
        assert nodes.answers == [PeerError("no answer in time")] * 2
        assert not cancelled, "a peer that has closed may merely have sent its last byte"
        pending.complete(HeartbeatResponse())
        await nodes.until(lambda: nodes.server.limits.count == 0)
        nodes.heartbeat = lambda request: HeartbeatResponse()
        nodes.send(HeartbeatRequest())
        assert nodes.peer.state is State.RESTING
        nodes.timers.advance(tcp.FIRST_REST_MS)
        await nodes.answered(3)
        assert nodes.answers[2] == HeartbeatResponse()

    run(scenario)


def test_a_connection_that_the_other_side_cuts_fails_what_was_sent() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        def cut(request: HeartbeatRequest) -> None:
            raise CloseConnection("go away")

        nodes.heartbeat = cut
        nodes.send(HeartbeatRequest())
        await nodes.answered(1)
        assert isinstance(nodes.answers[0], PeerError)

    run(scenario)


def test_nobody_there_is_an_error_when_the_time_is_up_and_attempts_get_rarer() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.server.stop()
        nodes.send(HeartbeatRequest(), timeout_ms=1000)
        rests = 0
        while not nodes.answers:
            await nodes.until(lambda: nodes.peer.state is not State.CONNECTING)
            nodes.timers.advance(50)
            rests += 1
            assert rests < 40
        assert nodes.answers == [PeerError(f"not connected to 127.0.0.1:{nodes.acceptor.port} in time")]
        assert nodes.clock.monotonic_ms() == 2000

    run(scenario)


def test_who_is_not_patient_hears_of_a_failed_attempt_at_once_and_of_the_rest_after_it() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.server.stop()
        nodes.send(HeartbeatRequest(), timeout_ms=1000)
        nodes.send(HeartbeatRequest(), timeout_ms=1000)
        await nodes.answered(2)
        assert all(isinstance(each, PeerError) and "cannot connect" in str(each) for each in nodes.answers)
        states = [nodes.peer.state]
        nodes.send(HeartbeatRequest(), timeout_ms=1000)
        nodes.timers.advance(0)
        await nodes.answered(3)
        assert nodes.answers[2] == PeerError("the last attempt to connect failed")
        nodes.timers.advance(tcp.FIRST_REST_MS)
        states.append(nodes.peer.state)
        assert states == [State.RESTING, State.IDLE]
        assert nodes.clock.monotonic_ms() < 2000

    run(scenario, is_patient=False)


@pytest.mark.parametrize("host", ["x" * 300, "a..b", "\ufffd.example", "a\0b", "", "."])
def test_a_host_that_can_have_no_address_is_an_attempt_that_failed(host: str) -> None:
    """Another node's word: whoever asks for votes or registers says where it listens."""

    async def scenario(nodes: TwoNodes) -> None:
        nodes.peer._host = host
        nodes.send(HeartbeatRequest(), timeout_ms=1000)
        await nodes.answered(1)
        assert "cannot connect" in str(nodes.answers[0])
        assert nodes.peer.state is State.RESTING

    run(scenario, is_patient=False)


def test_a_closed_channel_fails_everything_once() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        pending: Pending[HeartbeatResponse] = Pending()
        nodes.heartbeat = lambda request: pending
        nodes.send(HeartbeatRequest())
        await nodes.until(lambda: nodes.contexts)
        nodes.send(HeartbeatRequest())
        nodes.peer.close_channel()
        nodes.send(HeartbeatRequest())
        await nodes.answered(3)
        assert sorted(str(answer) for answer in nodes.answers) == sorted(
            str(PeerError(reason)) for reason in ("the channel is closed", "the channel is closed", "closed")
        )
        nodes.timers.advance(5000)
        assert len(nodes.answers) == 3
        pending.complete(HeartbeatResponse())
        await nodes.until(lambda: nodes.server.limits.count == 0)

    run(scenario)


def test_what_those_raise_who_take_an_answer_in_is_no_fault_of_the_peer() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        faults: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

        def take(response: Message | PeerError) -> None:
            raise ProtocolError("a record that is not known here")

        nodes.peer.send(HeartbeatRequest(), take, timeout_ms=1000)
        await nodes.until(lambda: faults)
        assert [str(fault) for fault in faults] == ["a record that is not known here"]
        assert nodes.peer.state is State.READY

    run(scenario)


def test_an_answer_that_is_none_ends_the_connection() -> None:
    async def main() -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(struct.pack(">i", 12) + b"not an answer")
            await reader.read()
            writer.close()

        loop = asyncio.get_running_loop()
        other = await asyncio.start_server(babble, "127.0.0.1", 0)
        clock = HandClock()
        timers = HandTimers(clock)
        network = SocketNetwork(loop, clock=clock, timers=timers)
        peer = TcpPeer(
            "127.0.0.1",
            other.sockets[0].getsockname()[1],
            network=network,
            clock=clock,
            timers=timers,
            memory=RequestMemory(16 * MIB),
            client_id="x",
        )
        answers: list[Message | PeerError] = []
        peer.send(HeartbeatRequest(), answers.append, timeout_ms=40)
        while peer.state is not State.RESTING:
            await asyncio.sleep(0.001)
        timers.advance(40)
        assert len(answers) == 1
        assert isinstance(answers[0], PeerError)
        peer.close_channel()
        network.close()
        other.close()

    uvloop.run(main())


# Logging in


def plain(password: str = "secret") -> Login:
    return Login("PLAIN", "node", lambda: PlainClient(SaslLogin("PLAIN", "node", password)))


def offers(*mechanisms: str, session_ms: int = 0) -> SaslListener:
    return SaslListener("P", mechanisms, {"node": "secret"}, {"PLAIN": session_ms})


def test_a_channel_logs_in_before_its_first_request() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.send(HeartbeatRequest("g", 1))
        nodes.send(HeartbeatRequest("g", 2))
        await nodes.answered(2)
        assert [str(context.session.principal) for context in nodes.contexts] == ["User:node"] * 2
        assert nodes.acceptor.traffic.accepted == 1

    run(scenario, sasl=offers("PLAIN"), login=plain())


@pytest.mark.parametrize(
    ("sasl", "login", "told"),
    [
        (offers("PLAIN"), plain("wrong"), "Authentication failed: Invalid username or password"),
        (
            offers("SCRAM-SHA-256"),
            plain(),
            "it does not offer this SASL mechanism; offered are SCRAM-SHA-256",
        ),
        (None, plain(), "it does not let this node choose a mechanism: ILLEGAL_SASL_STATE"),
    ],
)
def test_a_refused_login_is_told_once_and_tried_again(
    sasl: SaslListener | None, login: Login, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(nodes: TwoNodes) -> None:
        for count in (1, 2, 3):
            nodes.send(HeartbeatRequest("g", 1))
            await nodes.answered(count)
            await nodes.until(lambda: nodes.peer.state is State.RESTING)
            nodes.timers.advance(tcp.LONGEST_REST_MS)
        assert nodes.answers == [PeerError(f"the login is refused: {told}")] * 3
        lines = [record.getMessage() for record in caplog.records if record.name == "barnabas.peer"]
        assert len(lines) == 1
        assert lines[0].endswith(f"the login is refused, and is tried again: {told}")
        assert "secret" not in lines[0]
        assert nodes.contexts == []

    run(scenario, is_patient=False, sasl=sasl, login=login)


def test_a_channel_logs_in_again_before_its_session_ends() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        gate = nodes.gate
        assert gate is not None
        for round_ in range(1, 4):
            nodes.send(HeartbeatRequest("g", 1))
            nodes.send(HeartbeatRequest("g", 2))
            await nodes.answered(2 * round_)
            assert (gate.counts.successful, gate.counts.again) == (1, round_ - 1)
            nodes.clock.move(9_000)
        assert PeerError not in map(type, nodes.answers)
        assert nodes.acceptor.traffic.accepted == 1

    run(scenario, sasl=offers("PLAIN", session_ms=10_000), login=plain())


def test_a_session_of_less_than_a_second_is_renewed_as_soon_as_that_is_taken() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        gate = nodes.gate
        assert gate is not None
        for round_ in range(1, 4):
            nodes.send(HeartbeatRequest("g", 1))
            await nodes.answered(round_)
            nodes.clock.move(renewal_ms(500))
        assert nodes.answers == [HeartbeatResponse()] * 3
        assert (gate.counts.successful, gate.counts.again, nodes.acceptor.traffic.accepted) == (1, 2, 1)

    run(scenario, sasl=offers("PLAIN", session_ms=500), login=plain())


def test_a_session_that_ended_while_nothing_was_asked_begins_again() -> None:
    async def scenario(nodes: TwoNodes) -> None:
        nodes.send(HeartbeatRequest("g", 1))
        await nodes.answered(1)
        nodes.clock.move(60_000)
        nodes.send(HeartbeatRequest("g", 1))
        await nodes.answered(2)
        assert nodes.answers == [HeartbeatResponse()] * 2
        assert nodes.acceptor.traffic.accepted == 1

    run(scenario, sasl=offers("PLAIN", session_ms=10_000), login=plain())
