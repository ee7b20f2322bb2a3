"""What all sides of the clock, timer, chance and offload ports do alike: the machine's and those of tests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker.ports.clock import SystemClock, ThreadStalls
from broker.ports.offload import ThreadOffload
from broker.ports.random_source import SystemRandomSource
from broker.ports.timers import LoopTimers
from broker.simulation.cluster.event_loop import EventLoop, HostClock, HostTimers
from config.ports import Clock, Timers
from protocol.errors import InvariantViolated
from tests.support.clients.raw_connection import await_that, processor_seconds
from tests.support.rigs.hand_clock import HandClock, HandTimers

Pass = Callable[[int], Awaitable[None]]
Scenario = Callable[[Clock, Timers, Pass], Awaitable[None]]


def on_the_loop(scenario: Scenario) -> None:
    async def run() -> None:
        clock = SystemClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)

        async def let_pass(milliseconds: int) -> None:
            await asyncio.sleep(milliseconds / 1000)

        await scenario(clock, timers, let_pass)
        timers.close()

    uvloop.run(run())


def by_hand(scenario: Scenario) -> None:
    clock = HandClock()
    timers = HandTimers(clock)

    async def let_pass(milliseconds: int) -> None:
        timers.advance(milliseconds)

    asyncio.run(scenario(clock, timers, let_pass))  # type: ignore[arg-type]


def in_the_simulation(scenario: Scenario) -> None:
    loop = EventLoop()
    clock = HostClock(loop, began_wall_ms=1_700_000_000_000, up_ms=77)
    timers = HostTimers(loop, clock)

    async def let_pass(milliseconds: int) -> None:
        loop.run_for(milliseconds)

    asyncio.run(scenario(clock, timers, let_pass))  # type: ignore[arg-type]


@pytest.fixture(params=[on_the_loop, by_hand, in_the_simulation])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    side: Callable[[Scenario], None] = request.param
    return side


async def until(holds: Callable[[], bool], let_pass: Pass) -> None:
    """A busy machine may come late with one callback and in time with the end of a sleep."""
    for _ in range(100):
        if holds():
            return
        await let_pass(10)


def test_callbacks_come_in_the_order_of_their_deadlines_and_never_early(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(clock: Clock, timers: Timers, let_pass: Pass) -> None:
        begin = clock.monotonic_ms()
        rang: list[tuple[int, int]] = []

        def ring(after: int) -> None:
            rang.append((after, clock.monotonic_ms()))

        for after in (20, 5, 10, 5, 0, -3):
            timers.call_at(begin + after, partial(ring, after))
        assert rang == []
        await let_pass(60)
        await until(lambda: len(rang) == 6, let_pass)
        assert [after for after, _ in rang] == [-3, 0, 5, 5, 10, 20]
        assert all(at >= begin + after for after, at in rang)

    run(scenario)


def test_a_cancelled_call_does_not_come_and_cancelling_again_is_harmless(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(clock: Clock, timers: Timers, let_pass: Pass) -> None:
        rang: list[str] = []
        deadline = clock.monotonic_ms() + 5
        first = timers.call_at(deadline, lambda: rang.append("first"))
        second = timers.call_at(deadline, lambda: rang.append("second"))
        first.cancel()
        first.cancel()
        await let_pass(40)
        await until(lambda: "second" in rang, let_pass)
        assert rang == ["second"]
        second.cancel()

    run(scenario)


def test_a_callback_may_cancel_its_neighbour_and_promise_more(run: Callable[[Scenario], None]) -> None:
    async def scenario(clock: Clock, timers: Timers, let_pass: Pass) -> None:
        rang: list[str] = []
        deadline = clock.monotonic_ms() + 3

        def first() -> None:
            rang.append("first")
            neighbour.cancel()
            timers.call_at(clock.monotonic_ms() + 3, lambda: rang.append("later"))

        timers.call_at(deadline, first)
        neighbour = timers.call_at(deadline, lambda: rang.append("neighbour"))
        await let_pass(50)
        await until(lambda: "later" in rang, let_pass)  # promised when the first one rang, which may be late
        assert rang == ["first", "later"]

    run(scenario)


def test_soon_means_after_this_and_in_order(run: Callable[[Scenario], None]) -> None:
    async def scenario(clock: Clock, timers: Timers, let_pass: Pass) -> None:
        order: list[int] = []
        timers.call_soon(lambda: order.append(1))
        timers.call_soon(lambda: order.append(2))
        order.append(0)
        await let_pass(1)
        assert order == [0, 1, 2]

    run(scenario)


def test_the_clocks_agree_with_themselves(run: Callable[[Scenario], None]) -> None:
    async def scenario(clock: Clock, timers: Timers, let_pass: Pass) -> None:
        wall, ms, ns, later_ms = (
            clock.wall_ms(), clock.monotonic_ms(), clock.monotonic_ns(), clock.monotonic_ms(),
        )  # fmt: skip
        assert ms - 1000 <= ns // 1_000_000 <= later_ms + 1000
        assert wall > 1_600_000_000_000
        await let_pass(5)
        assert clock.monotonic_ns() - ns >= 4_000_000
        assert clock.monotonic_ms() > ms

    run(scenario)


def test_the_loop_has_one_timer_however_many_promises_there_are() -> None:
    class CountingLoop:
        def __init__(self) -> None:
            self.armed = 0

        def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
            self.armed += 1
            return self

        def cancel(self) -> None:
            self.armed -= 1

    loop = CountingLoop()
    timers = LoopTimers(loop, HandClock())  # type: ignore[arg-type]
    promises = [timers.call_at(10_000 - number, lambda: None) for number in range(1000)]
    assert loop.armed == 1
    assert len(timers) == 1000
    for promise in promises[10:]:
        promise.cancel()
    assert len(timers) == 10
    assert len(timers._heap) < 130, "broken promises do not pile up"


def test_a_resting_loop_is_not_woken_for_broken_promises() -> None:
    class Recording:
        def __init__(self) -> None:
            self.delays: list[float] = []
            self.ring: Callable[[], None] = lambda: None

        def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
            self.delays.append(delay)
            self.ring = callback
            return self

        def cancel(self) -> None:
            """Nothing rings here by itself."""

    loop, clock = Recording(), HandClock()
    timers = LoopTimers(loop, clock)  # type: ignore[arg-type]
    now_ms = clock.monotonic_ms()
    timers.call_at(now_ms + 10, lambda: None)
    for delay_ms in (20, 30, 40):
        timers.call_at(now_ms + delay_ms, lambda: None).cancel()
    timers.call_at(now_ms + 50, lambda: None)
    clock.move(10)
    loop.ring()
    assert loop.delays == [0.010, 0.040], "the next one that holds is at 50"
    assert (len(timers), len(timers._heap)) == (1, 1)


def test_a_promise_that_is_broken_when_it_is_nearly_due_wakes_nobody() -> None:
    class Recording:
        def __init__(self) -> None:
            self.armed: list[float] = []

        def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
            self.armed.append(delay)
            return self

        def cancel(self) -> None:
            self.armed.append(-1)

    loop, clock = Recording(), HandClock()
    timers = LoopTimers(loop, clock)  # type: ignore[arg-type]
    now_ms = clock.monotonic_ms()
    first, second = (timers.call_at(now_ms + delay_ms, lambda: None) for delay_ms in (100, 110))
    timers.call_at(now_ms + 900, lambda: None)
    far = timers.call_at(now_ms + 2_000, lambda: None)
    assert loop.armed == [0.1]
    clock.move(60)
    second.cancel()
    far.cancel()
    assert loop.armed == [0.1], "they are not the next ones"
    first.cancel()
    assert loop.armed == [0.1, -1, 0.84]
    assert len(timers) == 1
    clock.move(100)
    timers.call_at(now_ms + 400, lambda: None).cancel()
    assert loop.armed == [0.1, -1, 0.84, -1, 0.24], "that is far away: it is left to ring for nothing"


def test_a_callback_that_fails_does_not_stop_the_others() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        failures: list[Any] = []
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        clock = SystemClock()
        timers = LoopTimers(loop, clock)
        rang: list[int] = []
        timers.call_at(clock.monotonic_ms(), lambda: [][0])
        timers.call_at(clock.monotonic_ms() + 1, lambda: rang.append(1))
        while not rang:
            await asyncio.sleep(0.001)
        assert [type(failure) for failure in failures] == [IndexError]

    uvloop.run(scenario())


def test_results_of_helper_threads_come_back_on_the_loop() -> None:
    async def scenario() -> None:
        offload = ThreadOffload(asyncio.get_running_loop(), threads=2)
        results: list[tuple[object, int]] = []

        def done(result: object) -> None:
            results.append((result, threading.get_ident()))

        worked_in: list[int] = []

        def work() -> str:
            worked_in.append(threading.get_ident())
            return "done"

        def fail() -> str:
            raise OSError(28, "No space left on device")

        offload.submit(work, done)
        offload.submit(fail, done)
        assert offload.waiting == 2
        while offload.waiting:
            await asyncio.sleep(0.001)
        here = threading.get_ident()
        assert worked_in[0] != here
        assert {thread for _, thread in results} == {here}
        by_kind = {type(result): result for result, _ in results}
        assert by_kind[str] == "done"
        assert str(by_kind[OSError]) == "[Errno 28] No space left on device"
        offload.close()

    uvloop.run(scenario())


def test_chance_keeps_its_bounds() -> None:
    random_source = SystemRandomSource()
    assert len(random_source.random_bytes(16)) == 16
    assert random_source.random_bytes(16) != random_source.random_bytes(16)
    assert {random_source.below(3) for _ in range(200)} == {0, 1, 2}
    assert random_source.below(1) == 0
    assert all(0 <= random_source.fraction() < 1 for _ in range(100))
    with pytest.raises(InvariantViolated):
        random_source.below(0)


def test_waiting_for_a_processor_is_no_stall() -> None:
    """Beside more busy processes than there are processors; what sleeps stalls, in any thread."""
    stalls = ThreadStalls()
    crowd = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(3 * len(os.sched_getaffinity(0)))
    ]
    try:

        def work() -> tuple[float, float]:
            began, began_ns = time.monotonic(), stalls.stalled_ns()
            while time.thread_time() - first < 0.3:
                sum(range(1000))
            return time.monotonic() - began, (stalls.stalled_ns() - began_ns) / 1e9

        def sleep() -> float:
            began_ns = stalls.stalled_ns()
            time.sleep(0.1)
            return (stalls.stalled_ns() - began_ns) / 1e9

        for each in crowd:
            await_that("the crowd is busy", partial(lambda pid: processor_seconds(pid) > 0.1, each.pid), 60)
        first = time.thread_time()
        took, stalled = work()
        assert took > 0.4, "the others had their share"
        assert stalled < took / 4
        assert 0.09 < sleep() < 50
        account = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")

        def sleep_elsewhere() -> None:
            # What the loop's thread waits meanwhile is taken away too: another thread may wait for its lock.
            before = int(account.read_text().split()[1])
            elsewhere.append(sleep())
            loop_waited.append((int(account.read_text().split()[1]) - before) / 1e9)

        elsewhere: list[float] = []
        loop_waited: list[float] = []
        thread = threading.Thread(target=sleep_elsewhere)
        thread.start()
        thread.join()
        assert 0.09 < elsewhere[0] + loop_waited[0] < 50
    finally:
        for each in crowd:
            each.kill()
            each.wait()
        stalls.close()


def test_without_an_account_all_time_is_a_stall() -> None:
    stalls = ThreadStalls()
    stalls.close()
    began_ns = stalls.stalled_ns()
    deadline = time.monotonic() + 0.02
    while time.monotonic() < deadline:
        pass
    assert stalls.stalled_ns() - began_ns >= 20_000_000
