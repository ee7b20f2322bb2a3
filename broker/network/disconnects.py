"""Notices that a peer has disconnected while its connection is not being read.

A connection is not read while it waits for an answer, is throttled, or does not take its answers. If unread
data lies in its socket, the socket stays readable and says nothing about its end, and reading on would take
memory. The kernel knows the end of a stream behind unread data: so such sockets are registered in an epoll
set of their own that asks for disconnections only, and the loop watches that set as a single descriptor. Most
connections are never registered: the end of one without unread data is seen by the loop's ordinary readiness.

Where there is no epoll (macOS) the disconnection is noticed when the connection is read or written again.
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
    """Watches the descriptors of connections that are not read. Each disconnection is reported once, and the
    descriptor is then no longer watched."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: dict[int, DisconnectCallback] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            loop.add_reader(self._epoll.fileno(), self._ready)

    def __len__(self) -> int:
        return len(self._callbacks)

    def watch(self, descriptor: int, callback: DisconnectCallback, *, finished: bool = False) -> None:
        """Calls `callback` when the peer disconnects.

        finished: the peer's last byte has arrived already, so only a reset is reported.
        """
        if self._epoll is not None and descriptor not in self._callbacks:
            self._callbacks[descriptor] = callback
            self._epoll.register(descriptor, 0 if finished else select.EPOLLRDHUP)

    def forget(self, descriptor: int) -> None:
        """Stops watching the descriptor. Must be called before it is read again and before it is closed."""
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
