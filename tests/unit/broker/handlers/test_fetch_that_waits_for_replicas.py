"""Fetches of consumers that wait beside followers: every move of the high watermark lets them read more."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.records.header import headers
from protocol.serving.pending import Pending
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import now
from tests.support.rigs.leader_rig import LeaderRig
from tests.support.rigs.log_rig import leader_batch


@pytest.fixture
def rig() -> LeaderRig:
    made = LeaderRig()
    made.lead((1, 2), (1, 2))
    made.follow(2, 0)
    return made


def wait(rig: LeaderRig, offset: int, **options: Any) -> Pending[FetchResponse]:
    waiting = rig.fetch(offset, max_wait_ms=500, **options)
    assert isinstance(waiting, Pending)
    return waiting


def offsets(rig: LeaderRig, waiting: Pending[FetchResponse]) -> list[int]:
    """The first offsets of the batches that are answered without a move of the clock; none if it waits."""
    rig.timers.run_soon()
    if not waiting.done:
        return []
    ((data,),) = [topic.partitions for topic in now(waiting).responses]
    return [header.base_offset for _, header in headers(data.records.read())]


def test_each_confirmation_of_one_of_two_batches_wakes(rig: LeaderRig) -> None:
    first = wait(rig, 0)
    rig.produce()
    rig.produce()
    assert offsets(rig, first) == []
    rig.follow(2, 1)
    assert offsets(rig, first) == [0]
    second = wait(rig, 1)
    rig.follow(2, 2)
    assert offsets(rig, second) == [1]


def test_min_bytes_are_counted_as_they_become_readable(rig: LeaderRig) -> None:
    for _ in range(4):
        rig.produce()
    size_bytes = rig.log("t").size_bytes // 4
    waiting = wait(rig, 0, min_bytes=2 * size_bytes)
    rig.follow(2, 1)
    assert offsets(rig, waiting) == [], "one batch of the four can be read"
    rig.follow(2, 2)
    assert offsets(rig, waiting) == [0, 1]
    waiting = wait(rig, 2, min_bytes=2 * size_bytes)
    rig.follow(2, 3)
    assert offsets(rig, waiting) == []
    rig.follow(2, 4)
    assert offsets(rig, waiting) == [2, 3]


def test_a_follower_tells_its_consumers_what_the_leader_commits_later() -> None:
    rig = LeaderRig()
    rig.lead((2, 1), (1, 2), leader=2)
    log = rig.log("t")

    def copied(offset: int, high_watermark: int) -> None:
        log.append_as_follower(leader_batch(offset, b"v"), rig.clock.wall_ms())
        rig.partition.follow_leader(high_watermark, 0)

    copied(0, 0)
    first = wait(rig, 0)
    copied(1, 1)
    assert offsets(rig, first) == [0]
    second = wait(rig, 1)
    rig.partition.follow_leader(2, 0)
    assert offsets(rig, second) == [1]


def test_a_new_leader_tells_what_it_had_before_its_epoch() -> None:
    rig = LeaderRig()
    rig.lead((2, 1), (1, 2), leader=2)
    rig.log("t").append_as_follower(leader_batch(0, b"v"), rig.clock.wall_ms())
    rig.change(leader=1)
    waiting = wait(rig, 0)
    rig.follow(2, 1)
    assert offsets(rig, waiting) == [0]


def test_a_disk_that_cannot_say_how_much_there_is_keeps_nobody_waiting() -> None:
    files = FaultyFiles(MemoryFiles())
    rig = LeaderRig(files=files)
    rig.lead((1, 2), (1, 2))
    rig.produce()
    waiting = wait(rig, 0)
    rig.log("t").roll(rig.clock.wall_ms())
    files.faults.append(Fault("pread", count=1000))
    rig.follow(2, 1)
    rig.timers.run_soon()
    ((data,),) = [topic.partitions for topic in now(waiting).responses]
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
