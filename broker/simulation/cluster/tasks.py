"""Clients of a simulated cluster are coroutines: what waits is written in the order in which it happens.

    async def run(self) -> None:
        answer = await self.ask(node, request)
        await self.sleep_ms(100)

Nothing of asyncio is used. A task runs until it awaits an `Awaited`; whoever settles the answer lets the task
go on within that call, so what is valid in a callback only (the record bytes of a fetch) is valid until the
task awaits again. A task that is cancelled runs its `finally` blocks, and is not heard of again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from config.ports import Timers

__all__ = ["Awaited", "Task", "sleep"]

T = TypeVar("T")


class Awaited(Generic[T]):
    """A value that comes later, for the one task that awaits it. The first `settle` counts."""

    __slots__ = ("_on_settled", "_values")

    def __init__(self) -> None:
        self._values: list[T] = []
        self._on_settled: Callable[[], None] | None = None

    @property
    def is_settled(self) -> bool:
        return bool(self._values)

    def settle(self, value: T) -> None:
        if self._values:
            return
        self._values.append(value)
        if self._on_settled is not None:
            self._on_settled()

    def tell(self, on_settled: Callable[[], None]) -> None:
        """Calls when the value is there. Called by the task that awaits it."""
        self._on_settled = on_settled

    def __await__(self) -> Generator[Awaited[T], None, T]:
        if not self._values:
            yield self
        return self._values[0]


class Task:
    """A coroutine that runs by itself from the loop's next turn on. Its exceptions go through to the loop."""

    def __init__(self, timers: Timers, coroutine: Coroutine[Any, None, None]) -> None:
        self._coroutine = coroutine
        self.is_over = False
        timers.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self.is_over:
            return
        try:
            awaited = self._coroutine.send(None)
        except StopIteration:
            self.is_over = True
            return
        awaited.tell(self._go_on)

    def cancel(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._coroutine.close()


async def sleep(timers: Timers, deadline_ms: int) -> None:
    """Until the timers' clock says so."""
    over: Awaited[None] = Awaited()
    timers.call_at(deadline_ms, lambda: over.settle(None))
    await over
