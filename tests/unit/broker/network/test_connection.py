"""The sans-IO connection: frames, order, waits, turns, throttles, and a peer that goes away."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.connection import AWAITS_ANSWER, CLOSED, MUTED, TURN_OVER
from broker.network.memory import RequestMemory
from protocol.errors import InvariantViolated
from protocol.serving.pending import CloseConnection
from tests.support.rigs.sans_io import KIB, MIB, Rig, framed, other, produce


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_frames_come_out_whole_and_in_order_wherever_the_stream_is_cut() -> None:
    stream = other("first") + other("") + other("second" * 20) + other("third")
    for cut in range(len(stream) + 1):
        rig = Rig()
        rig.feed(stream[:cut])
        rig.feed(stream[cut:])
        assert rig.service.requests == ["first", "", "second" * 20, "third"], f"cut at {cut}"
        assert rig.wire.sent == b"first!!" + b"second" * 20 + b"!third!"


def test_byte_by_byte(rig: Rig) -> None:
    stream = other("a") + other("b" * 300) + produce("c")
    for position in range(len(stream)):
        rig.feed(stream[position : position + 1])
    assert rig.service.requests == ["a", "b" * 300, "c"]
    assert rig.memory.used_bytes == 0


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 200 * KIB), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 90 * KIB), min_size=1, max_size=20),
)
def test_any_sizes_through_any_cuts(sizes: list[int], cuts: list[int]) -> None:
    rig = Rig()
    texts = [chr(97 + number % 26) * size for number, size in enumerate(sizes)]
    stream = b"".join(other(text) for text in texts)
    at, turn = 0, 0
    while at < len(stream):
        at += rig.feed(stream[at : at + cuts[turn % len(cuts)]])
        turn += 1
        rig.timers.run_soon()
    assert rig.service.requests == texts
    assert rig.memory.used_bytes == 0


def test_answers_of_one_turn_leave_in_one_send(rig: Rig) -> None:
    rig.feed(other("a") + other("b") + other("c"))
    assert rig.wire.sends == [b"a!b!c!"]


def test_the_next_request_begins_when_the_last_one_is_answered(rig: Rig) -> None:
    rig.feed(other("wait") + other("after"))
    assert rig.service.requests == ["wait"]
    assert rig.connection.holds == AWAITS_ANSWER
    rig.service.answer("wait")
    rig.timers.run_soon()
    assert rig.service.requests == ["wait", "after"]
    assert rig.wire.sends == [b"wait!after!"], "without another read, and in one send"
    assert rig.wire.resumed == 1


def test_a_completed_wait_does_not_run_the_next_request_inside_the_completion(rig: Rig) -> None:
    rig.feed(other("wait") + other("after"))
    rig.service.answer("wait")
    assert rig.service.requests == ["wait"]


def test_produce_requests_wait_together_and_are_answered_in_their_order(rig: Rig) -> None:
    rig.feed(produce("wait 1") + produce("2") + produce("wait 3") + produce("4"))
    assert rig.service.requests == ["wait 1", "2", "wait 3", "4"]
    assert rig.wire.sent == b""
    rig.service.answer("wait 3")
    rig.timers.run_soon()
    assert rig.wire.sent == b""
    rig.service.answer("wait 1")
    rig.timers.run_soon()
    assert rig.wire.sends == [b"wait 1!2!wait 3!4!"]
    assert rig.connection.waiting == 0


def test_at_most_sixteen_produce_requests_wait(rig: Rig) -> None:
    rig.feed(b"".join(produce(f"wait {number}") for number in range(20)))
    assert len(rig.service.requests) == 16
    rig.service.answer("wait 0")
    rig.timers.run_soon()
    assert len(rig.service.requests) == 17
    for number in range(1, 17):
        rig.service.answer(f"wait {number}")
    rig.timers.run_soon()
    assert len(rig.service.requests) == 20
    assert rig.wire.sent == b"".join(b"wait %d!" % number for number in range(17))


def test_waiting_produce_requests_hold_a_mebibyte_at_most(rig: Rig) -> None:
    rig.service.held_bytes = MIB // 3
    rig.feed(b"".join(produce(f"wait {number}") for number in range(6)))
    assert len(rig.service.requests) == 4, "the fourth may be the one that is too much"
    rig.service.answer("wait 1")
    rig.timers.run_soon()
    assert len(rig.service.requests) == 4, "its answer waits, too"
    rig.service.answer("wait 0")
    rig.timers.run_soon()
    assert len(rig.service.requests) == 6
    for number in (2, 3, 4, 5):
        rig.service.answer(f"wait {number}")
    rig.timers.run_soon()
    assert rig.wire.sent == b"".join(b"wait %d!" % number for number in range(6))


def test_another_request_does_not_overtake_a_waiting_produce(rig: Rig) -> None:
    rig.feed(produce("wait") + produce("none") + other("metadata") + produce("last"))
    assert rig.service.requests == ["wait", "none"]
    rig.service.answer("wait")
    rig.timers.run_soon()
    assert rig.service.requests == ["wait", "none", "metadata", "last"]
    assert rig.wire.sent == b"wait!metadata!last!"


def test_nothing_is_sent_for_a_request_without_answer(rig: Rig) -> None:
    rig.feed(produce("none") + produce("none"))
    assert rig.service.requests == ["none", "none"]
    assert rig.wire.sends == []


def test_a_turn_ends_after_64_requests_and_others_come_in_between(rig: Rig) -> None:
    rig.feed(b"".join(other(str(number)) for number in range(150)))
    assert len(rig.service.requests) == 64
    assert rig.connection.holds == TURN_OVER
    neighbour = rig.another()
    rig.feed(other("neighbour"), neighbour)
    assert rig.service.requests[64:] == ["neighbour"]
    rig.timers.run_once()
    assert len(rig.service.requests) == 129
    rig.timers.run_soon()
    assert rig.service.requests[65:] == [str(number) for number in range(64, 150)]
    assert rig.memory.used_bytes == 0


def test_a_turn_ends_after_two_milliseconds(rig: Rig) -> None:
    rig.service.cost_ms = 0.9
    rig.feed(b"".join(other(str(number)) for number in range(10)))
    assert len(rig.service.requests) == 3
    rig.timers.run_soon()
    assert len(rig.service.requests) == 10


def test_a_turn_ends_after_a_mebibyte_of_answers(rig: Rig) -> None:
    rig.service.answer_bytes = 300 * KIB
    rig.feed(b"".join(other(str(number)) for number in range(10)))
    assert len(rig.service.requests) == 4
    rig.timers.run_soon()
    assert len(rig.service.requests) == 10


def test_a_throttled_connection_answers_and_then_keeps_quiet(rig: Rig) -> None:
    rig.service.during = lambda text: rig.connection.mute(500) if text == "greedy" else None
    rig.feed(other("greedy") + other("next"))
    assert rig.wire.sent == b"greedy!"
    assert rig.connection.holds == MUTED
    rig.timers.advance(499)
    assert rig.service.requests == ["greedy"]
    rig.timers.advance(1)
    assert rig.wire.sent == b"greedy!next!"
    assert rig.wire.resumed == 1


def test_a_peer_that_goes_cancels_what_waits_for_it(rig: Rig) -> None:
    rig.feed(produce("wait 1") + produce("wait 2") + other("never"))
    first, second = rig.service.waiting["wait 1"], rig.service.waiting["wait 2"]
    rig.connection.peer_gone("gone")
    assert (first.cancelled, second.cancelled) == (True, True)
    first.complete([b"too late"])
    rig.timers.run_soon()
    assert rig.service.requests == ["wait 1", "wait 2"]
    assert rig.wire.sent == b""
    assert rig.wire.closed == "gone"
    assert rig.memory.used_bytes == 0


def test_an_answer_that_was_there_already_is_not_cancelled_but_dropped(rig: Rig) -> None:
    rig.feed(produce("wait 1") + produce("wait 2"))
    second = rig.service.waiting["wait 2"]
    rig.service.answer("wait 2")
    rig.connection.peer_gone("gone")
    assert not second.cancelled
    assert rig.wire.sent == b""


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 64 * MIB + 1])
def test_an_impossible_size_closes_the_connection(rig: Rig, size: int) -> None:
    rig.feed(other("good") + size.to_bytes(4, "big", signed=True) + b"rest")
    assert rig.wire.sent == b"good!", "what was answered before still leaves"
    assert rig.wire.closed is not None
    assert str(size) in rig.wire.closed
    assert rig.service.complaints == [rig.wire.closed]
    assert rig.connection.holds & CLOSED


def test_an_empty_frame_is_the_services_business(rig: Rig) -> None:
    rig.feed(framed(b""))
    assert rig.service.requests == [""]


def test_a_service_may_close_the_connection(rig: Rig) -> None:
    rig.feed(other("before") + other("close") + other("after"))
    assert rig.service.requests == ["before", "close"]
    assert rig.wire.sent == b"before!"
    assert rig.wire.closed == "told to"


def test_a_service_may_close_the_connection_without_a_word(rig: Rig) -> None:
    def close_silently(text: str) -> None:
        raise CloseConnection

    rig.service.during = close_silently
    rig.feed(other("x"))
    assert rig.wire.closed


def test_what_cannot_be_is_not_contained(rig: Rig) -> None:
    def break_down(text: str) -> None:
        raise InvariantViolated("the log end went back")

    rig.service.during = break_down
    with pytest.raises(InvariantViolated):
        rig.feed(other("x"))


def test_the_scratch_buffer_is_overwritten_after_each_turn(rig: Rig) -> None:
    kept: list[memoryview] = []
    original = rig.service.serve

    def keep(connection, frame, arrived_ns):  # type: ignore[no-untyped-def]
        kept.append(frame)
        return original(connection, frame, arrived_ns)

    rig.connection._serve = keep
    rig.feed(other("secret"))
    assert bytes(kept[0]) == b"\xdd" * 8


def test_what_is_kept_for_later_survives_the_overwriting(rig: Rig) -> None:
    rig.feed(other("wait") + other("kept until then") + other("cut off")[:7])
    rig.service.answer("wait")
    rig.timers.run_soon()
    rig.feed(other("cut off")[7:])
    assert rig.service.requests == ["wait", "kept until then", "cut off"]


def test_frames_are_writable_so_that_the_log_can_patch_them(rig: Rig) -> None:
    patched: list[bytes] = []

    def patch(connection, frame, arrived_ns):  # type: ignore[no-untyped-def]
        frame[2:3] = b"X"
        patched.append(bytes(frame[2:]))
        connection.now_ns = arrived_ns

    rig.connection._serve = patch
    large = other("large" * 100_000)
    rig.feed(other("small") + other("tail")[:5])
    rig.feed(other("tail")[5:] + large)
    assert [text[:5] for text in patched] == [b"Xmall", b"Xail", b"Xarge"]


def test_draining_begins_nothing_new_and_answers_what_waits(rig: Rig) -> None:
    rig.feed(other("wait"))
    rig.connection.drain()
    assert rig.feed(other("new")) == 0
    rig.service.answer("wait")
    rig.timers.run_soon()
    assert rig.wire.sent == b"wait!"
    assert rig.service.requests == ["wait"]


def test_a_full_output_queue_stops_the_requests(rig: Rig) -> None:
    rig.service.during = lambda text: rig.connection.output_full() if text == "big" else None
    rig.feed(other("big") + other("next"))
    assert rig.service.requests == ["big"]
    rig.connection.output_drained()
    rig.timers.run_soon()
    assert rig.service.requests == ["big", "next"]


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_frames_or_closed(seed: int) -> None:
    rig = Rig(memory=RequestMemory(4 * MIB, scratch_bytes=64 * KIB, poison=True))
    rig.service.serve = lambda connection, frame, arrived_ns: None  # type: ignore[method-assign]
    rig.connection._serve = rig.service.serve
    noise = random.Random(seed).randbytes(300_000)
    at = 0
    while at < len(noise) and not rig.connection.holds & CLOSED:
        at += rig.feed(noise[at : at + 5_000])
        rig.timers.run_soon()
        assert rig.memory.used_bytes < 2 * at + 128 * KIB, "memory follows what has arrived"
    rig.connection.peer_gone("enough")
    assert rig.memory.used_bytes == 0
