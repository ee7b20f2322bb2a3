"""What a log manager is given: a clock moved by hand, chance without surprise, threads that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ManualClock:
    """Both clocks of the port show the same."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class NoRandomSource:
    """Counts instead of rolling dice."""

    def __init__(self) -> None:
        self.count = 0

    def random_bytes(self, count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(count)

    def below(self, bound: int) -> int:
        return 0

    def fraction(self) -> float:
        return 0.0


class RunsAtOnce:
    """An offload whose threads are done before `submit` returns."""

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        result: T | BaseException
        try:
            result = call()
        except Exception as error:
            result = error
        done(result)


class RunsLater:
    """An offload whose threads wait until the test lets them."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self.waiting.append(lambda: RunsAtOnce().submit(call, done))

    def run(self) -> int:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()
        return len(waiting)
