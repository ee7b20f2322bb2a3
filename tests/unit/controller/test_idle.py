"""When a record that says nothing is appended: at fixed times, if nothing else was for the interval."""

from __future__ import annotations

from controller.idle import IdleWatch
from tests.support.rigs.hand_clock import HandClock, HandTimers


class Idle:
    def __init__(self, interval_ms: int = 500) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.at: list[int] = []
        self.watch = IdleWatch(interval_ms, self.clock, self.timers, self.rang)

    def rang(self) -> None:
        self.at.append(self.clock.monotonic_ms())


def test_at_full_and_half_seconds_whenever_it_began() -> None:
    idle = Idle()
    idle.timers.advance(130)
    idle.watch.start()  # at 1,130
    idle.timers.advance(2_000)
    assert idle.at == [1_500, 2_000, 2_500, 3_000]


def test_after_an_append_not_before_half_the_interval_and_not_after_the_whole() -> None:
    idle = Idle()
    idle.watch.start()  # at 1,000
    for _ in range(15):
        idle.timers.advance(200)
        idle.watch.appended()
    assert not idle.at
    idle.timers.advance(60)
    idle.watch.appended()  # at 4,060
    idle.timers.advance(500)
    assert idle.at == [4_500]


def test_stopped_or_switched_off_it_is_silent() -> None:
    idle, off = Idle(), Idle(0)
    idle.watch.start()
    off.watch.start()
    idle.timers.advance(600)
    idle.watch.stop()
    idle.timers.advance(5_000)
    off.timers.advance(5_000)
    assert (idle.at, off.at) == ([1_500], [])


def test_the_smallest_interval() -> None:
    idle = Idle(1)
    idle.watch.start()
    idle.timers.advance(3)
    assert idle.at == [1_001, 1_002, 1_003]
