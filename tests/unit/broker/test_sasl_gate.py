"""What a connection may ask before its client is authenticated."""

from __future__ import annotations

import pytest

from broker.security.sasl_gate import SaslGate
from protocol.framing import encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.registry import ApiKey
from tests.support.rigs.desk import Desk


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.behaviours[ApiKey.API_VERSIONS] = lambda context, request: ApiVersionsResponse()
    made.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse()
    made.rig.service = SaslGate(made.dispatcher)  # type: ignore[assignment]
    made.connection = made.rig.connection = made.rig.another()
    made.connection.session.is_authenticated = False
    return made


def ask_heartbeat(desk: Desk) -> None:
    desk.rig.feed(encode_request_frame(HeartbeatRequest("g", 1, "m"), 4, 1, "me"))


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
