"""Who tells that a peer has gone while nobody reads from it.

A connection that waits for an answer, is throttled or does not take its answers is not read. If unread data
lies in its socket, readiness tells nothing any more, and reading on would take memory. The kernel knows the
end of a stream behind unread data: an epoll set of its own, asked for nothing but hang-ups, is watched by
the loop as a single descriptor. Most connections never come here: a long poll with nothing behind it is
seen to end by the loop's ordinary readiness.

Where there is no epoll (macOS) such a peer is noticed when its connection is read or written again.
"""

from __future__ import annotations

import select
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final

_EVENTS_PER_TURN: Final = 256

DisconnectCallback = Callable[[bool], None]
"""Called with True when the connection is broken (reset), False when the peer has sent its last byte."""


class Disconnects:
    """Watches descriptors that are not read. Each is told of once, and then no longer watched."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: dict[int, DisconnectCallback] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            loop.add_reader(self._epoll.fileno(), self._ready)

    def __len__(self) -> int:
        return len(self._callbacks)

    def watch(self, descriptor: int, callback: DisconnectCallback, *, finished: bool = False) -> None:
        """finished: the peer's last byte has come already, only that the connection breaks is news."""
        if self._epoll is not None and descriptor not in self._callbacks:
            self._callbacks[descriptor] = callback
            self._epoll.register(descriptor, 0 if finished else select.EPOLLRDHUP)

    def forget(self, descriptor: int) -> None:
        """Before the descriptor is read again, and before it is closed."""
        if self._epoll is not None and self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
        self._callbacks.clear()

    def _ready(self) -> None:
        if self._epoll is None:
            return
        for descriptor, events in self._epoll.poll(0, _EVENTS_PER_TURN):
            callback = self._callbacks.get(descriptor)
            if callback is not None:
                self.forget(descriptor)
                callback(bool(events & (select.EPOLLERR | select.EPOLLHUP)))
