"""The client side of a connection, sans-IO: bytes in, answers out. `network.connection` is the server side.

Answers come in the order of the requests and are handled as they come, so reading is never paused. Memory is
taken for bytes that have arrived, never for a length that is only announced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct
from typing import Final

from broker.network.connection import CLOSED
from broker.network.interfaces import Wire
from broker.network.memory import RequestMemory
from config.limits import MIB
from config.ports import Clock
from protocol.serving.session import Principal

_log = logging.getLogger("barnabas.peer")

__all__ = ["BrokenReply", "ReplyConnection"]

MAX_REPLY_BYTES: Final = 1024 * MIB
"""More than any answer to our requests. A peer that announces more does not speak this protocol."""

_read_size: Final = Struct(">i").unpack_from


class BrokenReply(Exception):
    """The peer has sent bytes that are no answer, so its connection ends. It is no ProtocolError, because
    those who take an answer in decode what it holds, and a fault that they find there is not the peer's."""


class ReplyConnection:
    """Implements `network.interfaces.ChannelUser` for a channel.

    on_reply gets each frame without its size, when it is complete. It raises BrokenReply for one that is no
    answer; whatever else it raises goes on to the loop.
    """

    def __init__(
        self,
        wire: Wire,
        memory: RequestMemory,
        clock: Clock,
        on_reply: Callable[[memoryview], None],
        connection_id: str,
    ) -> None:
        self.holds = 0
        self.waiting = 0
        self.now_ns = clock.monotonic_ns()
        self.connection_id = connection_id
        self._wire = wire
        self._memory = memory
        self._clock = clock
        self._on_reply = on_reply
        self._tail = bytearray()
        self._needed_bytes = 4

    def space(self) -> memoryview:
        return self._memory.view

    def received(self, count: int) -> None:
        self.touch()
        try:
            if self._tail:
                self._tail += self._memory.view[:count]
                if len(self._tail) < self._needed_bytes:
                    return
                data, self._tail = self._tail, bytearray()
                rest = self._parse(memoryview(data))
            else:
                rest = self._parse(self._memory.view[:count])
        except BrokenReply as error:
            self.peer_gone(str(error))
            return
        if not self.holds & CLOSED:
            self._tail = bytearray(rest)

    def _parse(self, view: memoryview) -> memoryview:
        at, end = 0, len(view)
        self._needed_bytes = 4
        while end - at >= 4 and not self.holds & CLOSED:
            size = _read_size(view, at)[0]
            if not 0 <= size <= MAX_REPLY_BYTES:
                raise BrokenReply(f"an answer of {size} bytes")
            if at + 4 + size > end:
                self._needed_bytes = 4 + size
                break
            self._on_reply(view[at + 4 : at + 4 + size])
            at += 4 + size
        return view[at:]

    def touch(self) -> None:
        self.now_ns = self._clock.monotonic_ns()

    def output_full(self) -> None:
        """Does nothing: each request has a time limit, so requests need not be held back."""

    def output_drained(self) -> None:
        """Does nothing, see `output_full`."""

    def secured(self, principal: Principal) -> None:
        """Does nothing: this side is the client."""

    def refused(self, reason: str) -> None:
        """The other node has ended the TLS session; it may want a certificate that this one does not show."""
        if not self.holds & CLOSED:
            _log.warning("Connection %s: %s", self.connection_id, reason)
            self.close(reason)

    def peer_gone(self, reason: str) -> None:
        self.close(reason)

    def peer_finished(self) -> None:
        """The peer closed the connection, so requests that are not answered yet fail."""
        self.close("the peer has closed the connection")

    def failed(self) -> None:
        """Raises the exception that is handled again. The answer was for a part of this node, whose state may
        be half changed, so the exception goes on to the loop."""
        raise

    def close(self, reason: str) -> None:
        if not self.holds & CLOSED:
            self.holds |= CLOSED
            self._tail = bytearray()
            self._wire.close(reason)
