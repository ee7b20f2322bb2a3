"""A fault of ours ends where it belongs: at its request, its connection, or its coordinator's partition.

What is raised where an answer is made out of another one, in a timer or a commit that belongs to somebody
else, in a cancelled wait: it is logged with its stack and counted, the client hears of it, and whoever's turn
it was goes on. Only what ends the process goes on to the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.dispatch.dispatcher import Dispatcher
from broker.network.connection import CLOSED
from controller.metadata.supported_features import UnsupportedCluster
from controller.raft.log_failure import MetadataLogFailed
from protocol.errors import ErrorCode, InvariantViolated
from protocol.framing import encode_request_frame
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.registry import ApiKey
from protocol.serving.pending import NO_ANSWER, CloseConnection, Failed, Pending, gather, then
from tests.support.rigs.desk import Desk
from tests.support.rigs.sans_io import Rig, other

FATAL = (
    InvariantViolated("never"),
    MetadataLogFailed("the disk refuses"),
    UnsupportedCluster("share.version is finalized at level 1"),
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def broken(*arguments: object) -> Any:
    raise KeyError("a bug of ours")


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*arguments: object) -> Any:
        raise error

    return function


# Pending answers


def test_what_an_answer_is_made_of_does_not_meet_the_one_who_completes_it() -> None:
    first: Pending[int] = Pending()
    last = first.then(lambda number: number + 1).then(broken).then(lambda text: text + "!")
    first.complete(1)
    assert isinstance(last.response, Failed)
    assert isinstance(last.response.failure, KeyError)


@pytest.mark.parametrize("verdict", [NO_ANSWER, CloseConnection("go"), Failed(OSError("no"))])
def test_what_is_no_response_goes_on_as_it_is(verdict: Any) -> None:
    first: Pending[Any] = Pending()
    last = first.then(broken)
    first.complete(verdict)
    assert last.response is verdict
    gathered: Any = gather([first.then(broken), Pending()], broken)
    assert isinstance(gathered, Pending)


def test_a_verdict_that_is_raised_stays_one() -> None:
    pending: Pending[Any] = Pending()
    pending.complete_by(raising(CloseConnection("go")))
    assert isinstance(pending.response, CloseConnection)


@pytest.mark.parametrize("fatal", FATAL)
def test_what_ends_the_process_passes_through(fatal: Exception) -> None:
    first: Pending[int] = Pending()
    first.then(raising(fatal))
    with pytest.raises(type(fatal)):
        first.complete(1)
    with pytest.raises(type(fatal)):
        Pending[int]().complete_by(raising(fatal))
    with pytest.raises(type(fatal)):
        Pending[int]().attempt(raising(fatal))


def test_a_cancelled_answer_cancels_what_it_was_to_be_made_of() -> None:
    first: Pending[int] = Pending()
    cancelled: list[bool] = []
    first.on_cancel(lambda: cancelled.append(True))
    made = first.then(str).then(str)
    made.cancel()
    assert cancelled == [True]
    made.complete_by(broken)
    assert made.response is None


def test_several_answers_of_which_one_fails() -> None:
    waiting: list[Pending[int]] = [Pending(), Pending()]
    some: list[int | Pending[int]] = [*waiting, 5]
    gathered = gather(some, lambda found: sum(found))
    assert isinstance(gathered, Pending)
    waiting[0].complete(Failed(KeyError("a bug of ours")))  # type: ignore[arg-type]
    waiting[1].complete(1)
    assert isinstance(gathered.response, Failed)
    all_there: list[int | Pending[int]] = [waiting[1], 5]
    combined = gather(all_there, broken)
    assert isinstance(combined, Pending)
    assert isinstance(combined.response, Failed)
    assert then(5, str) == "5"


# Requests


def late(desk: Desk, key: ApiKey, change: Callable[[Any], Any] = broken) -> Pending[Any]:
    """What the API's handler waits for; its answer is made by `change`."""
    awaited: Pending[Any] = Pending()
    desk.behaviours[key] = lambda context, request: awaited.then(change)
    return awaited


def test_a_late_answer_that_cannot_be_made_is_told(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    awaited = late(desk, ApiKey.HEARTBEAT)
    desk.ask(HeartbeatRequest(), 4)
    awaited.complete(1)
    desk.rig.timers.run_soon()
    assert desk.answer(HeartbeatResponse, 4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.dispatcher.metrics.failures == 1
    assert desk.dispatcher.metrics.waiting == 0
    assert desk.counts("Heartbeat", 4).errors == {-1: 1}
    assert "Heartbeat version 4 from client 'me'" in caplog.text
    assert "in broken" in caplog.text
    assert not desk.connection.holds


def test_a_late_answer_that_cannot_be_encoded_is_told(desk: Desk) -> None:
    awaited = late(desk, ApiKey.HEARTBEAT, lambda code: HeartbeatResponse(error_code=code))
    desk.ask(HeartbeatRequest(), 4)
    awaited.complete(40_000)
    desk.rig.timers.run_soon()
    assert desk.answer(HeartbeatResponse, 4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.dispatcher.metrics.failures == 1


@pytest.mark.parametrize("version", [2, 7])
def test_where_only_items_have_an_error_each_is_named_from_the_request(desk: Desk, version: int) -> None:
    awaited = late(desk, ApiKey.CREATE_TOPICS)
    names = ["one", "x" * 32_767]
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in names]), version)
    awaited.complete(1)
    desk.rig.timers.run_soon()
    answer = desk.answer(CreateTopicsResponse, version)[1]
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, -1) for name in names]


def test_where_nothing_can_be_said_the_connection_is_closed(desk: Desk) -> None:
    for key, request, version in (
        (ApiKey.METADATA, MetadataRequest(None), 12),
        (ApiKey.PRODUCE, ProduceRequest(None, -1, 1000, []), 9),
    ):
        desk.connection = desk.rig.connection = desk.rig.another()
        awaited = late(desk, key)
        desk.ask(request, version)
        awaited.complete(1)
        assert desk.connection.holds & CLOSED
    assert desk.dispatcher.metrics.failures == 2
    assert desk.dispatcher.metrics.waiting == 0


def test_an_answer_that_had_failed_before_it_was_given(desk: Desk) -> None:
    def at_once(context: object, request: object) -> Pending[Any]:
        awaited: Pending[Any] = Pending()
        awaited.complete(1)
        return awaited.then(broken)

    desk.behaviours[ApiKey.HEARTBEAT] = at_once
    desk.ask(HeartbeatRequest(), 4)
    assert desk.answer(HeartbeatResponse, 4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.dispatcher.metrics.failures == 1


def test_a_verdict_that_was_there_before_the_answer_was_given(desk: Desk) -> None:
    def at_once(context: object, request: object) -> Pending[Any]:
        awaited: Pending[Any] = Pending()
        awaited.complete(CloseConnection("go away"))
        return awaited

    desk.behaviours[ApiKey.HEARTBEAT] = at_once
    desk.ask(HeartbeatRequest(), 4)
    assert desk.rig.wire.closed == "go away"
    assert desk.dispatcher.metrics.failures == 0


def test_the_error_of_a_failure_cannot_be_encoded_either(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("broker.dispatch.dispatcher.failure_response", raising(ValueError("nor that")))
    desk.behaviours[ApiKey.HEARTBEAT] = broken
    desk.ask(HeartbeatRequest(), 4)
    assert desk.connection.holds & CLOSED
    assert "a bug of ours" in caplog.text
    assert "nor that" in caplog.text


@pytest.mark.parametrize("fatal", FATAL)
def test_what_ends_the_process_is_no_failure_of_a_request(desk: Desk, fatal: Exception) -> None:
    desk.behaviours[ApiKey.HEARTBEAT] = raising(fatal)
    with pytest.raises(type(fatal)):
        desk.ask(HeartbeatRequest(), 4)
    awaited = late(desk, ApiKey.HEARTBEAT, raising(fatal))
    desk.connection = desk.rig.connection = desk.rig.another()
    desk.ask(HeartbeatRequest(), 4)
    with pytest.raises(type(fatal)):
        awaited.complete(1)


def test_a_wait_that_cannot_be_given_up(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    awaited = late(desk, ApiKey.FETCH, lambda _: FetchResponse())
    awaited.on_cancel(broken)
    desk.ask(FetchRequest(), 12)
    desk.connection.peer_gone("gone")
    assert desk.dispatcher.metrics.failures == 1
    assert desk.dispatcher.metrics.waiting == 0
    assert "a bug of ours" in caplog.text


# Connections


def failing_rig(break_at: str) -> tuple[Rig, Any, Any]:
    """Two connections; the service breaks at one text."""
    rig = Rig()
    rig.service.may_fail = True

    def during(text: str) -> None:
        if text == break_at:
            broken()

    rig.service.during = during
    return rig, rig.connection, rig.another(type(rig.wire)())


def test_a_fault_while_bytes_are_handled_closes_their_connection() -> None:
    rig, bad, good = failing_rig("bad")
    rig.feed(other("fine") + other("bad") + other("never"), bad)
    rig.feed(other("fine too"), good)
    assert bad.holds & CLOSED
    assert not good.holds
    assert rig.service.requests == ["fine", "bad", "fine too"]
    assert rig.service.failures == 1


def test_a_fault_in_a_later_turn_leaves_the_others_their_turn() -> None:
    rig, bad, good = failing_rig("bad")
    for connection in (bad, good):
        rig.feed(other("wait"), connection)
    waits = rig.service.waiting["wait"]
    waits_of_bad = bad._waiting[0]
    bad._tail, bad._tail_at = bytearray(other("bad")), 0
    waits_of_bad.complete([b"x"])
    waits.complete([b"y"])
    rig.timers.run_soon()
    assert bad.holds & CLOSED
    assert good._wire.sends == [b"y"]
    assert rig.service.failures == 1


@pytest.mark.parametrize("fatal", FATAL)
def test_what_ends_the_process_is_no_failure_of_a_connection(fatal: Exception) -> None:
    rig = Rig()
    rig.service.may_fail = True
    rig.service.during = raising(fatal)
    with pytest.raises(type(fatal)):
        rig.feed(other("bad"))
    assert rig.service.failures == 0


def test_the_dispatcher_counts_and_logs_a_connections_failure(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Dispatcher, "_unserved", broken)
    desk.rig.feed(encode_request_frame(HeartbeatRequest(), 4, 1, "me").replace(b"\0\x0c\0\4", b"\0\x7f\0\4"))
    assert desk.connection.holds & CLOSED
    assert desk.dispatcher.metrics.failures == 1
    assert "this is our fault" in caplog.text
    assert "in broken" in caplog.text
