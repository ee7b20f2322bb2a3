"""What stands around a connection: the wire below, the service above, and an answer that is not there yet."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from broker.network.response_pieces import Piece

if TYPE_CHECKING:
    from broker.network.connection import Connection


class Wire(Protocol):
    """What is below a connection."""

    def send(self, pieces: list[Piece]) -> None:
        """Takes the pieces over and sends them, in order, when the peer takes them."""
        ...

    def resume(self) -> None:
        """Reading may go on, if it had stopped."""
        ...

    def close(self, reason: str) -> None: ...


class DelayedAnswer:
    """An answer that comes later. The service subclasses it; `pieces` is None until it is there."""

    __slots__ = ("connection", "is_produce", "pieces")

    def __init__(self, connection: Connection, is_produce: bool, pieces: list[Piece] | None = None) -> None:
        self.connection = connection
        self.is_produce = is_produce
        self.pieces = pieces

    def complete(self, pieces: list[Piece]) -> None:
        """An empty list: there is nothing to be sent, but the wait is over."""
        self.connection.answered(self, pieces)

    def cancel(self) -> None:
        """The peer has gone; nobody waits any longer."""


class Service(Protocol):
    """Who serves the requests of a connection (`broker.dispatch`)."""

    def serve(
        self, connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        """Answers one request: at once, later, or not at all. Raises CloseConnection.

        Leaves the time of its end in `connection.now_ns`.
        """
        ...

    def sent(self, connection: Connection) -> None:
        """The answers of a turn have been handed to the wire."""
        ...

    def malformed(self, connection: Connection, reason: str) -> None:
        """What arrived is no request; counted, and logged now and then."""
        ...

    def failed(self, connection: Connection) -> None:
        """Called while an exception of ours is handled that has no request to end at: counted and logged."""
        ...


BytesLike: TypeAlias = bytes | bytearray | memoryview


class Transport(NamedTuple):
    """receive: fills a buffer, 0 at the end of the stream. send: (data, flags) to the bytes taken."""

    descriptor: int
    receive: Callable[[memoryview], int]
    send: Callable[[BytesLike, int], int]
    sends_files: bool


def plain(sock: socket.socket) -> Transport:
    """The socket itself."""
    return Transport(sock.fileno(), sock.recv_into, sock.send, True)
