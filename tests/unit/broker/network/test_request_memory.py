"""Large frames, and the bounded pool that they come out of."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.network.connection import AWAITS_MEMORY, Connection
from broker.network.memory import (
    SCARCE_READ_BYTES,
    RequestMemory,
    pool_bound_bytes,
)
from broker.ports.machine import available_memory_bytes
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
