"""A long request in an Envelope takes as many turns of the loop as one that comes without."""

from __future__ import annotations

from typing import Any

import pytest

from broker.controller_channel.forwarding import envelope
from broker.dispatch.dispatcher import Dispatcher
from broker.security.authorizer import AllowAll
from config.limits import LONG_REQUEST_BYTES, LONG_TURN_MS, PLAIN_REQUEST_BYTES
from controller.handler_table import controller_handlers
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request_frame, encode_response_frame
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.messages.envelope import EnvelopeResponse
from protocol.registry import ApiKey
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from tests.support.rigs.controllers import ControllerFixture
from tests.support.rigs.sans_io import RecordingWire, Rig


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    return fixture


def unknown_topics(count: int) -> DescribeQuorumRequest:
    topic = DescribeQuorumRequest.TopicData
    return DescribeQuorumRequest([topic(f"topic-{number}") for number in range(count)])


class Listener:
    """The controller's listener, on a clock by which each look at it takes a quarter of a turn."""

    def __init__(self, fixture: ControllerFixture) -> None:
        self.rig, self.wire = Rig(), RecordingWire()
        self.fixture = fixture
        self.dispatcher = Dispatcher(
            controller_handlers(),
            fixture.services,
            clock=self.rig.clock,
            authorizer=AllowAll(),
            lane=self.rig.lane,
        )
        read = self.rig.clock.monotonic_ns

        def hurried() -> int:
            self.rig.clock.move(LONG_TURN_MS / 4)
            return read()

        self.dispatcher.monotonic_ns = hurried
        self.rig.service = self.dispatcher  # type: ignore[assignment]

    def ask(self, request: Message, version: int) -> int:
        """How many turns were taken after the one in which the request came."""
        frame = encode_request_frame(request, version, 5, "broker")
        assert self.rig.feed(frame, self.rig.another(self.wire)) == len(frame)
        return self.rig.timers.run_soon()

    def forward(self, request: Message, key: ApiKey, version: int) -> int:
        context = RequestContext(key, version, 99, "client", Session("c", "PLAINTEXT", "h"), 0, AllowAll())
        return self.ask(envelope(request, context), 0)

    def sent_back(self) -> bytes:
        """The client's answer out of the Envelope's."""
        _, answer = decode_response(EnvelopeResponse, 0, memoryview(self.wire.sent)[4:])
        assert answer.error_code == 0
        assert answer.response_data is not None
        return bytes(answer.response_data)


@pytest.mark.parametrize("count", [0, 10, 1000, 10_000])
def test_a_long_request_takes_turns_and_its_answer_is_the_direct_one(
    fixture: ControllerFixture, count: int
) -> None:
    request = unknown_topics(count)
    direct, wrapped = Listener(fixture), Listener(fixture)
    assert wrapped.forward(request, ApiKey.DESCRIBE_QUORUM, 2) >= count // 500
    direct.ask(request, 2)
    _, answer = decode_response(DescribeQuorumResponse, 2, memoryview(direct.wire.sent)[4:])
    assert len(answer.topics) == count
    expected = b"".join(piece for piece in encode_response_frame(answer, 2, 99) if isinstance(piece, bytes))
    assert wrapped.sent_back() == expected[4:]
    assert wrapped.rig.memory.used_bytes == 0
    assert len(wrapped.rig.lane) == 0


@pytest.mark.parametrize(
    "size_bytes", [PLAIN_REQUEST_BYTES // 2, LONG_REQUEST_BYTES // 2, LONG_REQUEST_BYTES + 1]
)
def test_what_waits_for_a_commit_is_answered_after_it(fixture: ControllerFixture, size_bytes: int) -> None:
    count = max(1, size_bytes // 40)
    topic = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest([topic(f"topic-{number:020}", 1, 1) for number in range(count)], 1000)
    listener = Listener(fixture)
    listener.forward(request, ApiKey.CREATE_TOPICS, 7)
    assert listener.wire.sent == b""
    fixture.settle()
    listener.rig.timers.run_soon()
    correlation_id, answer = decode_response(CreateTopicsResponse, 7, listener.sent_back())
    assert correlation_id == 99
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE] * count


def test_a_long_request_may_be_followed_by_bytes_but_none_may_lack(fixture: ControllerFixture) -> None:
    listener = Listener(fixture)
    context: Any = RequestContext(
        ApiKey.DESCRIBE_QUORUM, 2, 99, "client", Session("c", "PLAINTEXT", "h"), 0, AllowAll()
    )
    request = envelope(unknown_topics(1000), context)
    whole = request.request_data
    request.request_data = whole + b"x"
    listener.ask(request, 0)
    assert listener.sent_back()
    listener.wire.sends.clear()
    request.request_data = whole[:-3]
    listener.ask(request, 0)
    _, answer = decode_response(EnvelopeResponse, 0, memoryview(listener.wire.sends[-1])[4:])
    assert (answer.error_code, answer.response_data) == (ErrorCode.UNSUPPORTED_VERSION, None)
