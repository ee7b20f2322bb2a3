"""Small things for an idle loop: one at a time, and none while it has anything else to do."""

from __future__ import annotations

from broker.scheduling.idle_work import (
    BUSY_LOOK_MS,
    FIRST_LOOK_MS,
    LOOK_MS,
    QUIET_MS,
    IdleWork,
    codec_imports,
)
from protocol.records.compression import LAZY_CODECS
from tests.support.rigs.hand_clock import HandClock, HandTimers


def test_one_at_a_time_in_idle_moments() -> None:
    clock = HandClock()
    timers = HandTimers(clock)
    done: list[int] = []
    work = IdleWork(clock, timers, [lambda number=number: done.append(number) for number in range(3)])  # type: ignore[misc]
    work.start()
    timers.advance(FIRST_LOOK_MS - 1)
    assert done == []
    timers.advance(1)
    assert done == [0]
    timers.advance(LOOK_MS)
    assert done == [0, 1]
    clock.move(LOOK_MS + QUIET_MS + 1)  # the loop is busy, and comes late to the look
    timers.advance(0)
    assert done == [0, 1]
    timers.advance(BUSY_LOOK_MS)
    assert done == [0, 1, 2]
    timers.advance(100_000)
    assert done == [0, 1, 2]


def test_a_node_that_stops_does_no_more() -> None:
    clock = HandClock()
    timers = HandTimers(clock)
    done: list[int] = []
    work = IdleWork(clock, timers, [lambda: done.append(0)])
    work.start()
    work.stop()
    timers.advance(100_000)
    assert done == []


def test_every_codec_that_is_imported_late_is_among_them() -> None:
    imports = codec_imports()
    assert len(imports) == len(LAZY_CODECS) == 3
    for each in imports:
        each()
