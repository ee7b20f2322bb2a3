"""Connections that have something to do in the next turn of the loop.

An append may complete the long polls of a thousand connections. Completing them on the spot would run their
next requests in the middle of the append; so each notes itself here, once, and one call of the loop serves
them all. Answers that were completed together leave in one send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Item(Protocol):
    """Somebody with something to do."""

    def turn(self) -> None: ...


class ReadyQueue:
    """call_soon: the loop's. An item that is added while the ready queue is worked off comes in the turn
    after."""

    __slots__ = ("_call_soon", "_items")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._items: list[Item] = []

    def add(self, item: Item) -> None:
        """The item sees to it that it is here at most once."""
        items = self._items
        if not items:
            self._call_soon(self._run)
        items.append(item)

    def _run(self) -> None:
        items, self._items = self._items, []
        for item in items:
            item.turn()
