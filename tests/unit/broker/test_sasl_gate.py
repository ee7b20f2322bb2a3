"""What a connection may ask before its client is authenticated."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.mechanism import PlainServer
from broker.security.sasl_authenticator import Refused, SaslAuthenticator, SaslState
from broker.security.sasl_gate import GateSettings, SaslGate
from config.authentication import SaslListener
from protocol.errors import ErrorCode
from protocol.framing import encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.registry import ApiKey
from tests.support.rigs.desk import Desk

SESSION_MS = 10_000
LISTENER = SaslListener("SASL", ("PLAIN",), {"alice": "secret", "bob": "b"}, {"PLAIN": 0})
WITH_END = SaslListener("SASL", ("PLAIN", "SCRAM-SHA-256"), LISTENER.plain_users, {"PLAIN": SESSION_MS})


def guarded(
    listener: SaslListener = LISTENER, failure_delay_ms: int = 0, *, later: list[SaslListener] | None = None
) -> tuple[Desk, SaslGate]:
    """later: what the listener becomes; the last one counts."""
    made = Desk()
    listeners = [listener] if later is None else later
    made.behaviours[ApiKey.API_VERSIONS] = lambda context, request: ApiVersionsResponse()
    made.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse()
    gate = SaslGate(
        made.dispatcher,
        lambda: SaslAuthenticator(lambda: listeners[-1], lambda found, _: PlainServer(found.plain_users)),
        GateSettings(failure_delay_ms=failure_delay_ms, max_frame_bytes=1000, max_receive_bytes=100),
        clock=made.rig.clock,
        timers=made.rig.timers,
    )
    made.rig.service = gate  # type: ignore[assignment]
    made.connection = made.rig.connection = made.rig.another()
    made.connection.session.is_authenticated = False
    made.connection.max_frame_bytes = 100
    return made, gate


@pytest.fixture
def desk() -> Desk:
    return guarded()[0]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return encode_request_frame(SaslHandshakeRequest(mechanism), version, 1, "me")


def token(text: str) -> bytes:
    return encode_request_frame(SaslAuthenticateRequest(text.encode()), 2, 1, "me")


def heartbeat(generation: int = 1) -> bytes:
    return encode_request_frame(HeartbeatRequest("g", generation, "m"), 4, 1, "me")


HANDSHAKE, RIGHT, WRONG = handshake(), token("\0alice\0secret"), token("\0alice\0wrong")


def ask_heartbeat(desk: Desk) -> None:
    desk.rig.feed(heartbeat())


def frames_of(data: bytes) -> list[bytes]:
    frames, at = [], 0
    while at < len(data):
        stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
        frames.append(data[at + 4 : stop])
        at = stop
    return frames


def test_a_stranger_may_ask_how_to_authenticate(desk: Desk) -> None:
    desk.rig.feed(encode_request_frame(ApiVersionsRequest("kcat", "1.7.0"), 3, 1, "me"))
    assert len(desk.rig.wire.sends) == 1
    assert desk.rig.wire.closed is None


def test_a_stranger_who_asks_for_more_is_cut_off_and_nobody_hears_of_it(desk: Desk) -> None:
    ask_heartbeat(desk)
    assert desk.rig.wire.closed == "a request with API key 12 came before authentication"
    assert desk.requests == []
    assert desk.dispatcher.metrics.malformed == 1


def test_who_is_authenticated_may_ask_all(desk: Desk) -> None:
    desk.connection.session.is_authenticated = True
    ask_heartbeat(desk)
    assert desk.requests == [HeartbeatRequest("g", 1, "m")]


def test_a_frame_without_an_api_key_is_the_dispatchers_to_refuse(desk: Desk) -> None:
    desk.rig.feed(b"\0\0\0\x01\x12")
    assert desk.rig.wire.closed is not None
    assert desk.dispatcher.metrics.malformed == 1


# The exchange


def choose(desk: Desk, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    desk.ask(SaslHandshakeRequest(mechanism), version)
    answer: SaslHandshakeResponse = desk.answer(SaslHandshakeResponse, version)[1]
    return answer


def prove(desk: Desk, user: str = "alice", password: str = "secret") -> SaslAuthenticateResponse:
    desk.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)
    answer: SaslAuthenticateResponse = desk.answer(SaslAuthenticateResponse, 2)[1]
    return answer


def test_who_proves_a_password_is_that_principal_and_may_send_more() -> None:
    desk, gate = guarded()
    assert choose(desk) == SaslHandshakeResponse(0, ["PLAIN"])
    assert prove(desk) == SaslAuthenticateResponse()
    ask_heartbeat(desk)
    assert str(desk.contexts[-1].session.principal) == "User:alice"
    assert desk.connection.max_frame_bytes == 1000
    assert desk.connection.session.authentication is None, "nothing is kept of a session without an end"
    assert (gate.counts.successful, gate.counts.failed, gate.counts.without_again) == (1, 0, 0)


def test_the_oldest_handshake_is_followed_by_tokens_without_requests() -> None:
    desk, gate = guarded()
    choose(desk, version=0)
    desk.rig.feed(b"\0\0\0\x0d\0alice\0secret")
    assert desk.rig.wire.sends[-1] == b"\0\0\0\0"
    ask_heartbeat(desk)
    assert len(desk.requests) == 1
    assert gate.counts.without_again == 1


def test_versions_are_told_once_and_again_only_if_they_were_refused(desk: Desk) -> None:
    desk.rig.feed(bytes.fromhex("0000000b 0012 0063 0000002a ffff 00"))
    desk.ask(ApiVersionsRequest("x", "1"), 3)
    assert len(desk.rig.wire.sends) == 2
    assert desk.rig.wire.closed is None
    desk.ask(ApiVersionsRequest("x", "1"), 3)
    assert desk.rig.wire.closed == "an ApiVersions request came again during the SASL handshake"


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are() -> None:
    desk, gate = guarded()
    assert choose(desk, "GSSAPI") == SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert desk.rig.wire.closed == "failed authentication"
    assert gate.counts.failed == 1


def test_a_wrong_password_is_told_and_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    desk, gate = guarded()
    choose(desk)
    told = prove(desk, password="s3cr3t")
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert told.error_message == "Authentication failed: Invalid username or password"
    assert desk.rig.wire.closed == "failed authentication"
    assert gate.counts.failed == 1
    assert desk.dispatcher.metrics.malformed == 0
    assert "Invalid username or password" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_failure_is_told_after_a_while_and_nothing_is_read_until_then() -> None:
    desk, _ = guarded(failure_delay_ms=100)
    choose(desk)
    sent = len(desk.rig.wire.sends)
    desk.ask(SaslAuthenticateRequest(b"\0alice\0wrong"), 2)
    ask_heartbeat(desk)
    desk.rig.timers.advance(99)
    assert (len(desk.rig.wire.sends), desk.rig.wire.closed) == (sent, None)
    desk.rig.timers.advance(1)
    assert desk.answer(SaslAuthenticateResponse, 2)[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert desk.rig.wire.closed == "failed authentication"
    assert desk.requests == []


@pytest.mark.parametrize("delay_ms", [0, 100])
def test_nothing_behind_a_wrong_password_is_looked_at(delay_ms: int) -> None:
    desk, gate = guarded(failure_delay_ms=delay_ms)
    desk.rig.feed(HANDSHAKE)
    desk.rig.feed(3 * (WRONG + HANDSHAKE) + RIGHT + heartbeat())
    desk.rig.timers.advance(delay_ms)
    assert desk.answer(SaslAuthenticateResponse, 2)[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert desk.rig.wire.closed == "failed authentication"
    desk.rig.timers.advance(1000)
    assert len(frames_of(desk.rig.wire.sent)) == 2
    assert (gate.counts.failed, gate.counts.successful) == (1, 0)
    assert not desk.connection.session.is_authenticated
    assert desk.requests == []


def test_a_failure_is_final() -> None:
    authenticator = SaslAuthenticator(lambda: LISTENER, lambda found, _: PlainServer(found.plain_users))
    authenticator.take(HANDSHAKE[4:], 0)
    for frame in (WRONG, HANDSHAKE, RIGHT, encode_request_frame(ApiVersionsRequest("x", "1"), 3, 1, "me")):
        with pytest.raises(Refused):
            authenticator.take(frame[4:], 0)
        assert authenticator.state is SaslState.FAILED


def test_nothing_of_a_wrong_token_is_kept_until_its_client_is_told() -> None:
    desk, _ = guarded(failure_delay_ms=100)
    desk.connection.max_frame_bytes = 50_000
    desk.rig.feed(HANDSHAKE)
    long = token("\0alice\0" + "\U0001f600" + "x" * 40_000)
    tracemalloc.start()
    try:
        desk.rig.feed(long)
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()
    desk.rig.timers.advance(100)
    assert desk.rig.wire.closed == "failed authentication"


def test_a_client_that_leaves_before_it_is_told_leaves_nothing_behind() -> None:
    desk, _ = guarded(failure_delay_ms=100)
    choose(desk)
    sent = len(desk.rig.wire.sends)
    desk.ask(SaslAuthenticateRequest(b"\0alice\0wrong"), 2)
    desk.connection.peer_gone("gone")
    desk.rig.timers.advance(1000)
    assert len(desk.rig.wire.sends) == sent


def test_a_stranger_who_speaks_otherwise_is_cut_off_after_a_while() -> None:
    desk, gate = guarded(failure_delay_ms=100)
    desk.rig.feed(b"\0\0\0\x0aGET / HTTP")
    assert desk.rig.wire.closed is None
    desk.rig.timers.advance(100)
    assert desk.rig.wire.closed is not None
    assert (gate.counts.failed, desk.dispatcher.metrics.malformed) == (1, 1)


def test_a_large_frame_of_a_stranger_is_refused_by_its_size(desk: Desk) -> None:
    desk.rig.feed(b"\0\0\0\x65")
    assert desk.rig.wire.closed == (
        "a frame of 101 bytes, allowed are 0 to 100 (sasl.server.max.receive.size)"
    )


def test_other_requests_between_the_tokens_are_refused(desk: Desk) -> None:
    choose(desk)
    ask_heartbeat(desk)
    assert desk.rig.wire.closed == "a request with API key 12 came during SASL authentication"


# Sessions that end


def test_a_session_ends_and_its_connection_with_the_next_request() -> None:
    desk, gate = guarded(WITH_END)
    choose(desk)
    assert prove(desk).session_lifetime_ms == SESSION_MS
    desk.rig.clock.move(SESSION_MS)
    ask_heartbeat(desk)
    assert len(desk.requests) == 1
    desk.rig.clock.move(1)
    ask_heartbeat(desk)
    assert desk.rig.wire.closed == "its session has ended, and it has not authenticated again"
    assert (len(desk.requests), gate.counts.expired) == (1, 1)


def test_who_authenticates_again_goes_on_even_after_the_end() -> None:
    desk, gate = guarded(WITH_END)
    choose(desk)
    prove(desk)
    for _ in range(3):
        desk.rig.clock.move(SESSION_MS + 1)
        assert choose(desk).error_code == 0
        assert prove(desk).session_lifetime_ms == SESSION_MS
        ask_heartbeat(desk)
    assert len(desk.requests) == 3
    assert (gate.counts.successful, gate.counts.again) == (1, 3)


def test_another_principal_cannot_take_the_connection_over() -> None:
    desk, gate = guarded(WITH_END)
    choose(desk)
    prove(desk)
    desk.rig.clock.move(2000)
    choose(desk)
    told = prove(desk, "bob", "b")
    assert told.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert desk.rig.wire.closed == "failed authentication"
    assert str(desk.connection.session.principal) == "User:alice"
    assert gate.counts.failed_again == 1


def test_another_mechanism_is_chosen_and_then_refused() -> None:
    desk, gate = guarded(WITH_END)
    choose(desk)
    prove(desk)
    desk.rig.clock.move(2000)
    assert choose(desk, "SCRAM-SHA-256").error_code == 0
    desk.ask(SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 2)
    assert desk.rig.wire.closed == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of "
        "mechanism 'PLAIN'"
    )
    assert gate.counts.failed_again == 1


def test_a_listener_that_has_changed_is_asked_by_who_authenticates_from_now_on() -> None:
    listeners = [WITH_END]
    desk, gate = guarded(WITH_END, later=listeners)
    choose(desk)
    prove(desk)
    changed = SaslListener("SASL", ("PLAIN",), {"alice": "new", "eve": "eves"}, {"PLAIN": 2 * SESSION_MS})
    listeners.append(changed)
    ask_heartbeat(desk)
    assert len(desk.requests) == 1, "a session lasts until its end"
    desk.rig.clock.move(2000)
    assert choose(desk).mechanisms == ["PLAIN"]
    assert prove(desk, password="new").session_lifetime_ms == 2 * SESSION_MS
    desk.rig.clock.move(2000)
    choose(desk)
    assert prove(desk, password="secret").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert gate.counts.again == 1


def test_a_second_authentication_in_a_second_is_none() -> None:
    desk, _ = guarded(WITH_END)
    choose(desk)
    prove(desk)
    desk.rig.clock.move(2000)
    choose(desk)
    prove(desk)
    desk.rig.clock.move(999)
    desk.ask(SaslHandshakeRequest("PLAIN"), 1)
    assert desk.rig.wire.closed is not None, "this desk has no handler of handshakes that come too late"


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_no_frames_let_a_stranger_in(frames: list[bytes]) -> None:
    desk, _ = guarded(WITH_END)
    for frame in frames:
        desk.rig.feed(len(frame).to_bytes(4, "big") + frame)
    assert not desk.connection.session.is_authenticated
    assert desk.requests == []
