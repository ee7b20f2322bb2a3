"""Requests that take longer than a turn: cut into turns, one long one at a time, and the same answers."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.dispatch import long_answer
from broker.dispatch.dispatcher import Dispatcher
from broker.network.connection import CLOSED, MUTED, Connection
from broker.security.authorizer import AllowAll
from config.limits import LONG_REQUEST_BYTES, LONG_REQUESTS_AT_ONCE, LONG_TURN_MS, PLAIN_REQUEST_BYTES
from protocol.codec.message import Message
from protocol.errors import ErrorCode, InvariantViolated
from protocol.framing import decode_response, encode_request_frame, encode_response_frame
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest
from protocol.registry import ApiKey
from protocol.serving.handler_table import HandlerTable, serve
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns
from tests.support.rigs.sans_io import RecordingWire, Rig

VERSION = 5
Group = DescribeGroupsResponse.DescribedGroup


class FixedThrottle:
    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        return 250


class Client:
    """A connection of its own, with what it was sent."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.wire = RecordingWire()
        self.connection: Connection = desk.rig.another(self.wire)

    def ask(self, request: Message, version: int = VERSION, correlation_id: int = 7) -> None:
        frame = encode_request_frame(request, version, correlation_id, "me")
        taken = self.desk.rig.feed(frame, self.connection)
        assert taken == len(frame)

    @property
    def answers(self) -> list[tuple[int, bytes]]:
        """(correlation id, frame) of all that came."""
        data, found = self.wire.sent, []
        while data:
            size = 4 + int.from_bytes(data[:4])
            found.append((int.from_bytes(data[4:8]), data[:size]))
            data = data[size:]
        return found


class Desk:
    """A dispatcher with a handler in turns and one in one go, which take as long as the test says."""

    def __init__(self, throttle: Any = None, plain: Any = True) -> None:
        self.rig = Rig()
        self.element_ms = 0.0
        self.members: list[DescribeGroupsResponse.DescribedGroupMember] = []
        """The members of each group."""
        self.handled: list[str] = []
        self.ended: list[str] = []
        """One word for each handler in turns that has ended, whichever way."""
        self.before: Callable[[str], None] = lambda name: None
        self.result: Callable[[], Any] = DescribeGroupsResponse
        self.pendings: list[Pending[DeleteGroupsResponse]] = []
        rows = (
            serve(ApiKey.DESCRIBE_GROUPS, self._describe(), plain=plain),
            serve(ApiKey.DELETE_GROUPS, self._delete()),
            serve(ApiKey.HEARTBEAT, self._heartbeat()),
            serve(ApiKey.PRODUCE, self._produce()),
            serve(ApiKey.CREATE_TOPICS, self._create()),
        )
        self.dispatcher = Dispatcher(
            HandlerTable("broker", rows),
            None,
            clock=self.rig.clock,
            authorizer=AllowAll(),
            lane=self.rig.lane,
            throttle=throttle,
        )
        self.rig.service = self.dispatcher  # type: ignore[assignment]

    def _describe(self) -> Any:
        @in_turns
        def handle(services: Any, context: RequestContext, request: Any) -> Turns[Any]:
            try:
                for name in request.groups:
                    self.before(name)
                    self.handled.append(name)
                    self.rig.clock.move(self.element_ms)
                    error_code = 15 if name.startswith("f") else 0
                    yield Group(group_id=name, error_code=error_code, members=self.members)
                return self.result()
            finally:
                self.ended.append("ended")

        return handle

    def _delete(self) -> Any:
        def handle(services: Any, context: RequestContext, request: Any) -> Any:
            self.handled.append(f"{len(request.groups_names)} deleted")
            self.pendings.append(Pending())
            return self.pendings[-1]

        return handle

    def _heartbeat(self) -> Any:
        def handle(services: Any, context: RequestContext, request: Any) -> Any:
            return HeartbeatResponse(error_code=27)

        return handle

    def _produce(self) -> Any:
        def handle(services: Any, context: RequestContext, request: Any) -> Any:
            self.handled.append(f"{len(request.topic_data)} topics")
            raise CloseConnection("seen")

        return handle

    def _create(self) -> Any:
        @in_turns
        def handle(services: Any, context: RequestContext, request: Any) -> Turns[Any]:
            yield None
            raise ValueError("our fault")

        return handle

    def turn(self) -> int:
        """One turn of the loop; how many groups were handled in it."""
        before = len(self.handled)
        self.rig.timers.run_once()
        return len(self.handled) - before


@pytest.fixture
def desk() -> Desk:
    return Desk()


def names(count: int, letter: str = "g") -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[f"{letter}{number:07}" for number in range(count)])


def in_one_go(request: DescribeGroupsRequest, correlation_id: int = 7) -> bytes:
    groups = [Group(group_id=name, error_code=15 if name.startswith("f") else 0) for name in request.groups]
    pieces = encode_response_frame(DescribeGroupsResponse(groups=groups), VERSION, correlation_id)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


MEDIUM = 2_000
"""Names of a request that is long enough for turns."""
LARGE = 20_000
"""Names of one that is at work alone."""

assert PLAIN_REQUEST_BYTES < 9 * MEDIUM < LONG_REQUEST_BYTES < 9 * LARGE


@pytest.mark.parametrize("count", [0, 1, 50, 199, 200, 201, MEDIUM, LARGE])
@pytest.mark.parametrize("element_ms", [0, 0.5, 5])
def test_the_answer_is_that_of_one_go(desk: Desk, count: int, element_ms: float) -> None:
    desk.element_ms = element_ms
    client = Client(desk)
    client.ask(names(count))
    desk.rig.timers.run_soon()
    assert client.answers == [(7, in_one_go(names(count)))]
    assert desk.rig.memory.used_bytes == 0
    assert len(desk.rig.lane) == 0


@pytest.mark.parametrize("count", [MEDIUM, LARGE])
def test_a_turn_ends_when_its_time_is_over(desk: Desk, count: int) -> None:
    desk.element_ms = 1
    client = Client(desk)
    client.ask(names(count))
    assert len(desk.handled) == LONG_TURN_MS + 1
    taken = [desk.turn() for _ in range(100)]
    assert max(taken) == LONG_TURN_MS + 1
    assert sum(taken) >= 90 * LONG_TURN_MS
    assert client.answers == []


def test_what_is_done_in_its_first_turn_waits_for_nothing(desk: Desk) -> None:
    client = Client(desk)
    client.ask(names(MEDIUM))
    assert client.answers == [(7, in_one_go(names(MEDIUM)))]
    assert desk.rig.timers.run_soon() == 0
    assert client.connection.waiting == 0


def test_answers_of_a_connection_keep_their_order(desk: Desk) -> None:
    desk.element_ms = 1
    client = Client(desk)
    frames = encode_request_frame(names(MEDIUM), VERSION, 1, "me")
    frames += encode_request_frame(HeartbeatRequest("group", 3, "member"), 4, 2, "me")
    frames += encode_request_frame(names(MEDIUM, "h"), VERSION, 3, "me")
    desk.rig.feed(frames, client.connection)
    while desk.rig.timers.run_once():
        assert [number for number, _ in client.answers] == [1, 2, 3][: len(client.answers)]
    assert [number for number, _ in client.answers] == [1, 2, 3]
    assert client.answers[2][1] == in_one_go(names(MEDIUM, "h"), 3)


def test_another_client_is_served_between_two_turns(desk: Desk) -> None:
    desk.element_ms = 1
    Client(desk).ask(names(LARGE))
    desk.turn()
    other = Client(desk)
    other.ask(HeartbeatRequest("group", 3, "member"), 4)
    assert len(other.answers) == 1


def test_two_long_ones_are_not_at_work_together(desk: Desk) -> None:
    desk.element_ms = 1
    first, second = Client(desk), Client(desk)
    first.ask(names(LARGE))
    second.ask(names(LARGE, "h"))
    assert desk.rig.memory.used_bytes > 9 * LARGE, "the frame of the one that waits"
    assert (len(desk.rig.lane), desk.rig.lane.queued) == (2, 1)
    desk.rig.timers.run_soon()
    letters = [name[0] for name in desk.handled]
    assert letters == ["g"] * LARGE + ["h"] * LARGE
    assert first.answers == [(7, in_one_go(names(LARGE)))]
    assert second.answers == [(7, in_one_go(names(LARGE, "h")))]
    assert desk.rig.memory.used_bytes == 0


def test_shorter_ones_go_round_in_a_circle_beside_a_long_one(desk: Desk) -> None:
    desk.element_ms = 1
    Client(desk).ask(names(LARGE))
    for letter in "hijk":
        Client(desk).ask(names(MEDIUM, letter))
    desk.handled.clear()
    for _ in range(10):
        desk.turn()
    assert {letter: sum(name[0] == letter for name in desk.handled) for letter in "ghijk"} == dict.fromkeys(
        "ghijk", 2 * (LONG_TURN_MS + 1)
    )


def test_only_so_many_of_them_are_at_work_together(desk: Desk) -> None:
    desk.element_ms = 1
    clients = [Client(desk) for _ in range(LONG_REQUESTS_AT_ONCE + 3)]
    letters = "abcdeghijklmnopq"[: len(clients)]
    for client, letter in zip(clients, letters, strict=True):
        client.ask(names(MEDIUM, letter))
    assert {name[0] for name in desk.handled} == set(letters[:LONG_REQUESTS_AT_ONCE])
    assert desk.rig.lane.queued == 3
    desk.rig.timers.run_soon()
    for client, letter in zip(clients, letters, strict=True):
        assert client.answers == [(7, in_one_go(names(MEDIUM, letter)))]


def test_a_peer_that_goes_takes_its_work_along(desk: Desk) -> None:
    desk.element_ms = 1
    first, waiting, third = Client(desk), Client(desk), Client(desk)
    first.ask(names(LARGE))
    waiting.ask(names(LARGE, "h"))
    third.ask(names(LARGE, "i"))
    desk.turn()
    first.connection.peer_gone("gone")
    waiting.connection.peer_gone("gone")
    assert desk.ended == ["ended"]
    handled = len(desk.handled)
    desk.rig.timers.run_soon()
    assert {name[0] for name in desk.handled[handled:]} == {"i"}
    assert (first.answers, waiting.answers) == ([], [])
    assert third.answers == [(7, in_one_go(names(LARGE, "i")))]
    assert desk.rig.memory.used_bytes == 0
    assert len(desk.rig.lane) == 0


def test_a_connection_that_is_closed_within_the_turn_ends_the_work(desk: Desk) -> None:
    desk.element_ms = 1
    client = Client(desk)
    client.ask(names(LARGE))

    def close(name: str) -> None:
        if len(desk.handled) == 10:
            client.connection.close("by the handler")

    desk.before = close
    desk.rig.timers.run_soon()
    assert len(desk.handled) == 11
    assert desk.ended == ["ended"]
    assert desk.rig.memory.used_bytes == 0
    Client(desk).ask(names(LARGE, "h"))
    desk.rig.timers.run_soon()
    assert desk.handled[-1].startswith("h")


def test_too_much_is_refused_with_one_line(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(desk)
    with caplog.at_level(logging.WARNING):
        client.ask(DescribeGroupsRequest(groups=[""] * 600_000))
    assert client.connection.holds & CLOSED
    assert desk.handled == []
    assert desk.dispatcher.metrics.malformed == 1
    assert desk.rig.memory.used_bytes == 0
    (line,) = caplog.messages
    assert "a DescribeGroups request of 6000" in line
    assert "600000 DescribeGroupsRequest.groups" in line
    assert "than a request may have (33554432 bytes)" in line


def test_a_produce_request_of_nothing_but_topics_is_refused_too(desk: Desk) -> None:
    empty = ProduceRequest.TopicProduceData(name="")
    client = Client(desk)
    client.ask(ProduceRequest(topic_data=[empty] * 10_000), 9)
    assert client.wire.closed == "seen"
    again = Client(desk)
    again.ask(ProduceRequest(topic_data=[empty] * 60_000), 9)
    assert "60000 ProduceRequest.topic_data" in str(again.wire.closed)
    assert desk.handled == ["10000 topics"]


def test_what_is_cut_off_is_refused_in_a_later_turn(desk: Desk) -> None:
    """The frame's last name is longer than the frame."""
    frame = bytearray(encode_request_frame(names(LARGE), VERSION, 7, "me"))
    frame[-11] = 30
    client = Client(desk)
    clock, read = desk.rig.clock, desk.rig.clock.monotonic_ns

    def slow() -> int:
        clock.move(1)
        return read()

    desk.dispatcher.monotonic_ns = slow
    desk.rig.feed(bytes(frame), client.connection)
    assert client.wire.closed is None
    desk.rig.timers.run_soon()
    assert "could not be read" in str(client.wire.closed)
    assert desk.rig.memory.used_bytes == 0


def deletion(count: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=[f"{number:08}" for number in range(count)])


@pytest.mark.parametrize("count", [LARGE, 3 * LARGE])
def test_one_that_waits_for_others_gives_its_place_back(desk: Desk, count: int) -> None:
    client, other = Client(desk), Client(desk)
    client.ask(deletion(count), 2)
    desk.rig.timers.run_soon()
    other.ask(names(LARGE))
    desk.rig.timers.run_soon()
    assert other.answers == [(7, in_one_go(names(LARGE)))]
    assert client.answers == []
    assert desk.dispatcher.metrics.waiting == 1
    desk.rig.clock.move(50)
    results = [DeleteGroupsResponse.DeletableGroupResult(f"{number:08}", 69) for number in range(count)]
    desk.pendings[0].complete(DeleteGroupsResponse(results=results))
    assert client.answers == [], "it is encoded in turns, not in the call of whoever completes it"
    desk.rig.timers.run_soon()
    ((_, frame),) = client.answers
    assert decode_response(DeleteGroupsResponse, 2, memoryview(frame)[4:])[1].results == results
    assert desk.dispatcher.metrics.waiting == 0
    assert desk.dispatcher.metrics.counts("DeleteGroups", 2).errors == {69: count}


def test_a_wait_ends_with_its_peer(desk: Desk) -> None:
    client = Client(desk)
    client.ask(deletion(LARGE), 2)
    client.connection.peer_gone("gone")
    assert desk.pendings[0].done
    assert desk.dispatcher.metrics.waiting == 0
    again = Client(desk)
    again.ask(deletion(LARGE), 2)
    desk.pendings[1].complete(DeleteGroupsResponse())
    again.connection.peer_gone("gone before it was encoded")
    desk.rig.timers.run_soon()
    assert desk.dispatcher.metrics.waiting == 0
    assert again.answers == []


@pytest.mark.parametrize("end", [NO_ANSWER, CloseConnection("told so")])
def test_a_wait_without_an_answer(desk: Desk, end: Any) -> None:
    client = Client(desk)
    client.ask(deletion(LARGE), 2)
    desk.pendings[0].complete(end)
    desk.rig.timers.run_soon()
    assert client.answers == []
    assert client.wire.closed == (None if end is NO_ANSWER else "told so")


def test_a_late_answer_that_cannot_be_encoded_costs_its_connection_alone(desk: Desk) -> None:
    client = Client(desk)
    client.ask(deletion(LARGE), 2)
    desk.pendings[0].complete(
        DeleteGroupsResponse(results=[DeleteGroupsResponse.DeletableGroupResult("g", 1 << 40)])
    )
    desk.rig.timers.run_soon()
    assert client.wire.closed == "a DeleteGroups request failed"
    assert desk.dispatcher.metrics.failures == 1


@pytest.mark.parametrize("element_ms", [0, 1])
def test_a_handler_that_fails_on_the_way(desk: Desk, element_ms: float) -> None:
    desk.element_ms = element_ms

    def fail(name: str) -> None:
        if name.endswith("1000"):
            raise ValueError(name)

    desk.before = fail
    client = Client(desk)
    client.ask(names(MEDIUM))
    desk.rig.timers.run_soon()
    assert client.wire.closed == "a DescribeGroups request failed"
    assert desk.dispatcher.metrics.failures == 1
    assert desk.rig.memory.used_bytes == 0
    assert len(desk.rig.lane) == 0


@pytest.mark.parametrize("count", [MEDIUM, 2 * LARGE])
def test_a_failure_is_answered_item_by_item_if_there_are_not_too_many(desk: Desk, count: int) -> None:
    client = Client(desk)
    topics = [CreateTopicsRequest.CreatableTopic(f"{number}") for number in range(count)]
    client.ask(CreateTopicsRequest(topics=topics), 7)
    desk.rig.timers.run_soon()
    assert desk.dispatcher.metrics.failures == 1
    if count > MEDIUM:
        assert client.wire.closed == "a CreateTopics request failed"
        return
    ((_, frame),) = client.answers
    results = decode_response(CreateTopicsResponse, 7, memoryview(frame)[4:])[1].topics
    assert [result.name for result in results] == [topic.name for topic in topics]
    assert {result.error_code for result in results} == {ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize("element_ms", [0, 1])
def test_a_failure_that_cannot_be_told_costs_its_connection_alone(
    desk: Desk, element_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong in a turn of its own ends there, and not in the loop."""
    desk.element_ms = element_ms

    def fail(*_: object) -> None:
        raise ValueError("worse")

    def fail_late(name: str) -> None:
        if name.endswith("1000"):
            raise ValueError("bad")

    desk.before = fail_late
    monkeypatch.setattr(desk.dispatcher, "answer_failure", fail)
    client = Client(desk)
    client.ask(names(MEDIUM))
    desk.rig.timers.run_soon()
    assert client.wire.closed == "its request could not be answered"
    assert len(desk.rig.lane) == 0
    assert desk.rig.memory.used_bytes == 0


def test_a_broken_invariant_ends_more_than_the_request(desk: Desk) -> None:
    desk.element_ms = 1

    def break_it(name: str) -> None:
        if name.endswith("1000"):
            raise InvariantViolated("broken")

    desk.before = break_it
    Client(desk).ask(names(MEDIUM))
    with pytest.raises(InvariantViolated):
        desk.rig.timers.run_soon()


def test_a_handler_in_turns_that_returns_nonsense_has_failed(desk: Desk) -> None:
    desk.result = HeartbeatResponse
    for count in (0, MEDIUM):
        Client(desk).ask(names(count))
    assert desk.dispatcher.metrics.failures == 2


def test_elements_that_are_returned_follow_those_that_were_yielded(desk: Desk) -> None:
    desk.result = lambda: DescribeGroupsResponse(groups=[Group(group_id="last")])
    for count in (5, MEDIUM):
        client = Client(desk)
        client.ask(names(count))
        ((_, frame),) = client.answers
        groups = decode_response(DescribeGroupsResponse, VERSION, memoryview(frame)[4:])[1].groups
        assert [group.group_id for group in groups] == [*names(count).groups, "last"]


def test_an_answer_without_bound_is_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(long_answer, "ANSWER_BYTES", 100_000)
    client = Client(desk)
    with caplog.at_level(logging.WARNING):
        client.ask(names(LARGE))
    reason = "the answer to a DescribeGroups request would be longer than 100000 bytes"
    assert client.wire.closed == reason
    assert len(desk.handled) < LARGE / 2
    assert reason in caplog.text
    assert desk.ended == ["ended"]
    assert desk.rig.memory.used_bytes == 0


def test_a_few_large_elements_are_given_up_before_they_are_copied(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may refer to one object, and are no answer's length before they are joined."""
    monkeypatch.setattr(long_answer, "ANSWER_BYTES", 5_000_000)
    desk.members = [DescribeGroupsResponse.DescribedGroupMember("m", member_assignment=b"a" * 100_000)]
    client = Client(desk)
    client.ask(names(MEDIUM))
    assert "would be longer than 5000000 bytes" in str(client.wire.closed)
    assert len(desk.handled) == long_answer.ELEMENTS_AT_ONCE / 2, "an element with another one in it is two"
    assert desk.rig.memory.used_bytes == 0


@pytest.mark.parametrize("count", [0, 1, 50])
def test_a_short_request_that_may_stand_for_much_is_served_in_turns(count: int) -> None:
    desk = Desk(plain=False)
    desk.element_ms = 1
    client = Client(desk)
    client.ask(names(count))
    assert len(desk.handled) == min(count, LONG_TURN_MS + 1)
    desk.rig.timers.run_soon()
    assert client.answers == [(7, in_one_go(names(count)))]
    assert desk.rig.memory.used_bytes == 0


@pytest.mark.parametrize(("count", "is_plain"), [(0, True), (10, True), (11, False), (MEDIUM, False)])
def test_which_short_requests_are_served_in_one_go_is_for_their_api_to_say(
    count: int, is_plain: bool
) -> None:
    desk = Desk(plain=lambda request, version: version == VERSION and len(request.groups) <= 10)
    desk.element_ms = 1
    client = Client(desk)
    client.ask(names(count))
    assert len(desk.handled) == (count if is_plain else LONG_TURN_MS + 1)
    desk.rig.timers.run_soon()
    assert client.answers == [(7, in_one_go(names(count)))]


def test_a_throttle_holds_for_long_requests(desk: Desk) -> None:
    desk = Desk(FixedThrottle())
    desk.element_ms = 1
    client = Client(desk)
    client.ask(names(MEDIUM))
    desk.rig.timers.run_soon()
    ((_, frame),) = client.answers
    assert decode_response(DescribeGroupsResponse, VERSION, memoryview(frame)[4:])[1].throttle_time_ms == 250
    assert client.connection.holds & MUTED


def test_requests_errors_and_times_are_counted_as_in_one_go(desk: Desk) -> None:
    desk.element_ms = 1
    Client(desk).ask(names(100, "f"))
    plain = desk.dispatcher.metrics.counts("DescribeGroups", VERSION)
    assert (plain.requests, plain.errors) == (1, {15: 100})
    Client(desk).ask(names(MEDIUM, "f"))
    desk.rig.timers.run_soon()
    assert (plain.requests, plain.errors) == (2, {15: 100 + MEDIUM})
    times = plain.times
    assert sum(times.local) == sum(times.total) == 2
    size = len(encode_request_frame(names(MEDIUM), VERSION, 7, "me")) - 4
    assert plain.received_bytes == size + len(encode_request_frame(names(100), VERSION, 7, "me")) - 4


def test_long_requests_leave_nothing_for_the_collector(desk: Desk) -> None:
    def some() -> None:
        for element_ms in (0, 1):
            desk.element_ms = element_ms
            client = Client(desk)
            client.ask(names(300))
            client.ask(deletion(LARGE), 2) if not element_ms else None
            for pending in desk.pendings:
                pending.complete(DeleteGroupsResponse())
            desk.rig.timers.run_soon()
            client.connection.close("done")
        desk.pendings.clear()

    some()
    while gc.collect():  # what finalizers of other tests' remains leave behind is not ours
        pass
    gc.disable()
    try:
        some()
        assert gc.collect() == 0
    finally:
        gc.enable()
