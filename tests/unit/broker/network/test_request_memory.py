"""Large frames, and the bounded pool that they come out of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.connection import AWAITS_MEMORY, Connection
from broker.network.memory import (
    SCARCE_READ_BYTES,
    RequestMemory,
    pool_bound_bytes,
)
from broker.ports.machine import available_memory_bytes
from config.limits import SMALL_FRAME_BYTES, SPARE_FRAMES_BYTES
from tests.support.rigs.sans_io import KIB, MIB, RecordingWire, Rig, other


def small_pool(bound_bytes: int) -> Rig:
    return Rig(memory=RequestMemory(bound_bytes, scratch_bytes=64 * KIB, poison=True))


def test_a_frame_larger_than_the_scratch_buffer_arrives() -> None:
    rig = Rig()
    text = "0123456789" * 100_000
    rig.feed(other("small") + other(text) + other("small again"))
    rig.timers.run_soon()
    rig.feed(b"")
    assert [len(request) for request in rig.service.requests] == [5, 1_000_000, 11]
    assert rig.service.requests[1] == text
    assert rig.memory.used_bytes == 0


def test_memory_follows_what_arrived_and_not_what_was_announced() -> None:
    rig = Rig()
    rig.feed((50 * MIB).to_bytes(4, "big") + b"\0\1little")
    assert rig.memory.used_bytes == 64 * KIB
    rig.feed(b"x" * 100 * KIB)
    assert rig.memory.used_bytes == 256 * KIB, "four times what had arrived when it was full"
    rig.feed(b"x" * 900 * KIB)
    assert rig.memory.used_bytes == 1 * MIB
    rig.connection.peer_gone("gone")
    assert rig.memory.used_bytes == 0


def test_at_the_bound_reading_pauses_until_others_have_given_back() -> None:
    rig = small_pool(256 * KIB)
    first, second = rig.connection, rig.another(RecordingWire())
    frame_of_first, frame_of_second = other("1" * 200 * KIB), other("2" * 200 * KIB)
    rig.feed(frame_of_first[: 150 * KIB], first)
    taken = rig.feed(frame_of_second, second)
    assert second.holds == AWAITS_MEMORY
    assert taken < 128 * KIB
    rig.feed(frame_of_first[150 * KIB :], first)
    assert rig.service.requests == ["1" * 200 * KIB]
    rig.timers.run_soon()
    assert second.holds == 0
    rig.feed(frame_of_second[taken:], second)
    assert rig.service.requests[1:] == ["2" * 200 * KIB]
    assert rig.memory.used_bytes == 0


def test_half_frames_never_lock_each_other_out() -> None:
    rig = small_pool(512 * KIB)
    connections: list[Connection] = [rig.another(RecordingWire()) for _ in range(8)]
    frames = [other(str(number) * 400 * KIB) for number in range(8)]
    at = [0] * 8
    for _ in range(200):
        for number, connection in enumerate(connections):
            at[number] += rig.feed(frames[number][at[number] : at[number] + 20 * KIB], connection)
        rig.timers.run_soon()
        assert rig.memory.used_bytes <= 512 * KIB + 512 * KIB + 8 * SCARCE_READ_BYTES
    assert sorted(rig.service.requests) == [str(number) * 400 * KIB for number in range(8)]
    assert rig.memory.used_bytes == 0
    assert rig.memory.waiting == 0


def test_the_tail_of_a_small_frame_holds_up_no_large_one() -> None:
    """Nobody can complete it but its peer, which may be gone."""
    rig = small_pool(256 * KIB)
    rig.feed(other("never to be completed")[:10])
    frame = other("x" * 400 * KIB)
    busy = rig.another(RecordingWire())
    assert rig.feed(frame, busy) == len(frame), "a request that is larger than the pool goes through alone"
    assert rig.service.requests == ["x" * 400 * KIB]


def test_a_silent_half_frame_holds_up_others_for_a_second() -> None:
    rig = small_pool(512 * KIB)
    frame = other("x" * 400 * KIB)
    rig.feed(frame[: 150 * KIB])
    busy = [rig.another(RecordingWire()) for _ in range(2)]
    at = [rig.feed(frame, each) for each in busy]
    assert [each.holds for each in busy] == [AWAITS_MEMORY] * 2
    rig.clock.move(1_500)
    newcomer = rig.another(RecordingWire())
    assert rig.feed(frame, newcomer) == len(frame)
    rig.timers.run_soon()
    for each, taken in zip(busy, at, strict=True):
        while taken < len(frame):
            count = rig.feed(frame[taken:], each)
            rig.timers.run_soon()
            assert count, "it went on when the newcomer was through"
            taken += count
    assert len(rig.service.requests) == 3
    assert rig.memory.used_bytes <= 512 * KIB
    rig.feed(frame[150 * KIB :])
    assert (len(rig.service.requests), rig.memory.used_bytes, rig.memory.waiting) == (4, 0, 0)


def test_who_waits_behind_a_half_frame_goes_on_when_that_falls_silent() -> None:
    rig = small_pool(512 * KIB)
    frame = other("x" * 400 * KIB)
    rig.feed(frame[: 150 * KIB])
    rig.clock.move(500)
    waiting = rig.another(RecordingWire())
    taken = rig.feed(frame, waiting)
    rig.timers.run_soon()
    assert waiting.holds == AWAITS_MEMORY
    rig.timers.advance(1_100)
    rig.feed(frame[taken:], waiting)
    assert rig.service.requests == ["x" * 400 * KIB]


def test_who_waits_asks_again_until_there_is_room_or_it_has_gone() -> None:
    rig = small_pool(512 * KIB)
    frame = other("x" * 400 * KIB)
    rig.feed(frame[: 150 * KIB])
    waiting = rig.another(RecordingWire())
    rig.feed(frame, waiting)
    for at in range(150, 154):
        rig.timers.advance(900)
        rig.feed(frame[at * KIB : (at + 1) * KIB])
        assert waiting.holds == AWAITS_MEMORY, "the other frame still arrives"
    waiting.peer_gone("gone")
    rig.connection.peer_gone("gone")
    rig.timers.advance(5_000)
    assert (rig.memory.used_bytes, rig.memory.waiting) == (0, 0)


def test_silent_half_frames_never_take_more_than_twice_the_bound() -> None:
    rig = small_pool(256 * KIB)
    for _ in range(20):
        rig.feed(other("x" * 400 * KIB)[: 390 * KIB], rig.another(RecordingWire()))
        rig.clock.move(1_500)
    assert rig.memory.used_bytes <= 2 * 256 * KIB + 400 * KIB + 20 * 64 * KIB


def test_reads_are_small_while_the_pool_is_full() -> None:
    rig = small_pool(128 * KIB)
    rig.feed(other("x" * 300 * KIB)[: 128 * KIB])
    newcomer = rig.another(RecordingWire())
    assert len(newcomer.space()) == SCARCE_READ_BYTES
    rig.feed(other("still served"), newcomer)
    assert rig.service.requests == ["still served"]
    rig.connection.peer_gone("gone")
    assert len(newcomer.space()) == 64 * KIB


def test_whoever_waits_for_memory_and_goes_leaves_nothing_behind() -> None:
    rig = small_pool(128 * KIB)
    rig.feed(other("x" * 300 * KIB)[: 128 * KIB])
    waiting = rig.another(RecordingWire())
    rig.feed(other("y" * 300 * KIB), waiting)
    assert waiting.holds == AWAITS_MEMORY
    waiting.peer_gone("gone")
    rig.connection.peer_gone("gone")
    rig.timers.run_soon()
    assert (rig.memory.used_bytes, rig.memory.waiting) == (0, 0)


@pytest.mark.parametrize(
    ("configured", "available", "bound"),
    [
        (5 * MIB, 64 * 1024 * MIB, 5 * MIB),
        (-1, 8 * 1024 * MIB, 2 * 1024 * MIB),
        (-1, 256 * MIB, 128 * MIB),
        (-1, 0, 128 * MIB),
    ],
)
def test_the_bound_is_what_was_set_or_a_quarter(configured: int, available: int, bound: int) -> None:
    assert pool_bound_bytes(configured, available) == bound


def test_a_cgroup_counts_where_it_is_tighter_than_the_machine(tmp_path: Path) -> None:
    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal:       16000000 kB\nMemFree: 1 kB\n")
    missing = tmp_path / "missing"
    assert available_memory_bytes(meminfo, (cgroup, missing)) == 16_000_000 * 1024
    cgroup.write_text("max\n")
    assert available_memory_bytes(meminfo, (cgroup,)) == 16_000_000 * 1024
    cgroup.write_text("1073741824\n")
    assert available_memory_bytes(meminfo, (cgroup,)) == 1024 * MIB
    assert available_memory_bytes(missing, (missing,)) == 0


def test_what_large_frames_leave_is_kept_within_one_bound() -> None:
    memory, holder = RequestMemory(128 * MIB, scratch_bytes=64 * KIB), Rig().connection
    buffers = [memory.take_buffer(holder, 3 * MIB) for _ in range(8)]
    for buffer in buffers:
        memory.give_back(buffer)
    assert memory.spare_bytes == 15 * MIB, "a sixth one would go beyond 16 MiB"
    again = [memory.take_buffer(holder, MIB) for _ in range(6)]
    kept = [any(buffer is each for each in buffers) for buffer in again]
    assert kept == [True] * 5 + [False]
    assert memory.spare_bytes == 0
    memory.give_back(bytearray(SMALL_FRAME_BYTES))
    memory.give_back(bytearray(17 * MIB))
    assert memory.spare_bytes == 0, "one is too small to be worth it, one too large"


def test_who_gets_a_buffer_that_is_longer_than_wanted_holds_all_of_it() -> None:
    rig = Rig()
    rig.feed(other("x" * 900 * KIB))
    left = rig.memory.spare_bytes
    assert left >= 900 * KIB
    rig.feed((50 * MIB).to_bytes(4, "big") + b"\0\1little", rig.another(RecordingWire()))
    assert (rig.memory.used_bytes, rig.memory.spare_bytes) == (left, 0)


def large_rig() -> tuple[Rig, bytes]:
    """A connection that has just had a large frame, and that frame."""
    rig = Rig()
    frame = other("x" * 300 * KIB)
    rig.feed(frame)
    assert len(rig.service.requests) == 1
    return rig, frame


def test_the_frame_behind_a_large_one_is_read_into_its_place() -> None:
    rig, frame = large_rig()
    held = rig.memory.spare_bytes
    assert held >= len(frame)
    assert rig.memory.used_bytes == 0, "who is silent holds nothing"
    begun = rig.connection.space()
    assert len(begun) == len(frame)
    begun[: 200 * KIB] = frame[: 200 * KIB]
    rig.connection.received(200 * KIB)
    assert rig.memory.used_bytes == held
    rest = rig.connection.space()
    assert rest.obj is begun.obj, "nothing was copied"
    assert len(rest) == len(frame) - 200 * KIB
    rest[:] = frame[200 * KIB :]
    rig.connection.received(len(rest))
    assert [len(each) for each in rig.service.requests] == [300 * KIB] * 2
    assert (rig.memory.used_bytes, rig.memory.spare_bytes) == (0, held)


def test_a_spare_buffer_is_not_borrowed_beyond_the_bound() -> None:
    rig = small_pool(512 * KIB)
    rig.feed(other("x" * 300 * KIB))
    eldest = rig.another(RecordingWire())
    rig.memory.hold(eldest, 300 * KIB)
    assert rig.memory.spare_bytes
    assert rig.connection.space().obj is rig.memory.view.obj
    rig.feed(other("small"))
    assert rig.service.requests[1:] == ["small"]
    assert (rig.memory.used_bytes, rig.memory.waiting) == (300 * KIB, 0)


def test_small_frames_behind_a_large_one_lead_back_to_the_scratch_buffer() -> None:
    rig, _ = large_rig()
    rig.feed(other("a") + other("b") + other("cut")[:5])
    assert rig.service.requests[1:] == ["a", "b"]
    assert rig.connection.space().obj is rig.memory.view.obj
    rig.feed(other("cut")[5:])
    assert rig.service.requests[3:] == ["cut"]
    assert rig.memory.used_bytes == 0


@pytest.mark.parametrize("how", ["gone", "refused", "told to"])
def test_a_connection_that_ends_behind_a_large_frame_holds_nothing(how: str) -> None:
    rig, frame = large_rig()
    if how == "gone":
        rig.feed(frame[: 100 * KIB])
        assert rig.memory.used_bytes
        rig.connection.peer_gone("gone")
    elif how == "refused":
        rig.feed((65 * MIB).to_bytes(4, "big") + b"\0\1")
        assert "socket.request.max.bytes" in (rig.wire.closed or "")
    else:
        rig.feed(other("close") + other("never"))
        assert rig.wire.closed == "told to"
    assert rig.memory.used_bytes == 0
    assert len(rig.service.requests) == (2 if how == "told to" else 1)


@given(data=st.data())
def test_frames_of_any_size_arrive_whole_however_they_are_cut(data: st.DataObject) -> None:
    """Several connections at once, in a pool that is too small for all of them."""
    rig = small_pool(data.draw(st.sampled_from([256 * KIB, 600 * KIB, 4 * MIB])))
    connections: list[Connection] = [rig.another(RecordingWire()) for _ in range(3)]
    sizes = st.sampled_from([1, 100, 60 * KIB, 127 * KIB, 128 * KIB, 130 * KIB, 200 * KIB, 400 * KIB])
    streams, wanted = [], []
    for number in range(len(connections)):
        texts = [
            f"{number}{index}" * (size // 2 + 1)
            for index, size in enumerate(data.draw(st.lists(sizes, max_size=5)))
        ]
        wanted.append(texts)
        streams.append(b"".join(map(other, texts)))
    at = [0] * len(connections)
    parts = st.sampled_from([3, 1000, 50 * KIB, 100 * KIB, 300 * KIB, MIB])
    while any(at[number] < len(stream) for number, stream in enumerate(streams)):
        for number, connection in enumerate(connections):
            part = data.draw(parts) if len(streams[number]) - at[number] > 2000 else MIB
            at[number] += rig.feed(streams[number][at[number] : at[number] + part], connection)
        rig.timers.run_soon()
    for number, texts in enumerate(wanted):
        assert [each for each in rig.service.requests if each[:1] == str(number)] == texts
    assert (rig.memory.used_bytes, rig.memory.waiting) == (0, 0)
    assert rig.memory.spare_bytes <= SPARE_FRAMES_BYTES
