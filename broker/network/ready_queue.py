"""Connections that have something to do in the next turn of the loop.

An append may complete the long polls of a thousand connections. Completing them on the spot would run their
next requests in the middle of the append; so each notes itself here, once, and one call of the loop serves
them all. Answers that were completed together leave in one send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Item(Protocol):
    """Something that can be called once per turn of the loop, such as a connection."""

    def turn(self) -> None: ...


class ReadyQueue:
    """Calls each item once, in the next turn of the loop.

    call_soon: the loop's method. An item that is added while the queue is being run is called in the turn
    after that.
    """

    __slots__ = ("_call_soon", "_items")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._items: list[Item] = []

    def add(self, item: Item) -> None:
        """Adds the item; the item itself takes care that it is in the queue at most once."""
        items = self._items
        if not items:
            self._call_soon(self._run)
        items.append(item)

    def _run(self) -> None:
        items, self._items = self._items, []
        for item in items:
            item.turn()
