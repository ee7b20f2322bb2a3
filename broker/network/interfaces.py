"""What stands around a connection: the wire below it, the service above it, and the network it comes from.

`Network` is the port through which a node listens and connects. Its real side is `socket_network`, on the
sockets of this machine; `broker.simulation.memory_network` is another, in memory. Everything else of a node
sees channels and listeners through the protocols of this module, so nothing but the real side knows a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from broker.network.response_pieces import Piece

if TYPE_CHECKING:
    from broker.network.cold_reads import ColdReads
    from broker.network.connection import Connection
    from broker.network.limits import ConnectionLimits


class Wire(Protocol):
    """What carries the bytes of a connection: a socket, a peer in the same process, or a simulated
    network."""

    def send(self, pieces: list[Piece]) -> None:
        """Takes the pieces over and sends them, in order, when the peer takes them."""
        ...

    def resume(self) -> None:
        """Goes on reading, if reading was paused."""
        ...

    def close(self, reason: str) -> None: ...


class DelayedAnswer:
    """An answer that comes later. The service subclasses it; `pieces` is None until the answer is known."""

    __slots__ = ("connection", "is_produce", "pieces")

    def __init__(self, connection: Connection, is_produce: bool, pieces: list[Piece] | None = None) -> None:
        self.connection = connection
        self.is_produce = is_produce
        self.pieces = pieces

    def complete(self, pieces: list[Piece]) -> None:
        """Delivers the answer. An empty list means that nothing is sent, but the wait is over."""
        self.connection.answered(self, pieces)

    def cancel(self) -> None:
        """Gives up the request because the peer has disconnected. A subclass releases what the request
        holds."""


class Service(Protocol):
    """Serves the requests of a connection; `broker.dispatch` implements it."""

    def serve(
        self, connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        """Answers one request: at once (the pieces), later (a `DelayedAnswer`), or never (None).

        It leaves the time of its end in `connection.now_ns`. It raises CloseConnection to end the connection.
        """
        ...

    def sent(self, connection: Connection) -> None:
        """Called when the answers of a turn have been handed to the wire."""
        ...

    def malformed(self, connection: Connection, reason: str) -> None:
        """Called when the bytes that arrived are no request; counts and sometimes logs it."""
        ...

    def failed(self, connection: Connection) -> None:
        """Called from an `except` clause for an exception of ours that belongs to no single request; counts
        and logs it."""
        ...


class ChannelUser(Protocol):
    """What a channel drives: `network.connection.Connection`, or the asking side of a peer's connection."""

    holds: int
    now_ns: int

    @property
    def connection_id(self) -> str: ...
    @property
    def waiting(self) -> int: ...
    def space(self) -> memoryview: ...
    def received(self, count: int) -> None: ...
    def touch(self) -> None: ...
    def output_full(self) -> None: ...
    def output_drained(self) -> None: ...
    def peer_gone(self, reason: str) -> None: ...
    def peer_finished(self) -> None: ...
    def failed(self) -> None:
        """Called while an exception of ours is handled. Raises it again where the connection is the node's
        own."""
        ...

    def close(self, reason: str) -> None: ...


class Traffic:
    """Bytes and connections of one listener, as plain integers."""

    __slots__ = ("accepted", "closed", "expired", "received_bytes", "refused", "sent_bytes")

    def __init__(self) -> None:
        self.accepted = 0
        self.closed = 0
        self.expired = 0
        self.refused = 0
        self.received_bytes = 0
        self.sent_bytes = 0


class Channel(Wire, Protocol):
    """One connection of the network, as the node uses it. `send` and `close` are its user's, see `Wire`."""

    @property
    def host(self) -> str:
        """The peer's address, as `limits.plain_host` writes it."""
        ...

    @property
    def open(self) -> bool: ...

    @property
    def unsent_bytes(self) -> int: ...

    def begin(self, connection: ChannelUser) -> None:
        """Names who is driven; from now on what arrives is read."""
        ...

    def abort(self, reason: str) -> None:
        """Ends the connection at once, whatever was not sent."""
        ...

    def last_active_ms(self) -> int:
        """When the peer was last heard of, on the monotonic clock."""
        ...

    def awaits_us(self) -> bool:
        """Whether the peer waits for an answer."""
        ...

    def expire(self) -> None:
        """Ends a connection that was idle for too long."""
        ...


class ListenerSettings(msgspec.Struct, frozen=True):
    """What is set for one listener. A buffer size below 1 leaves the choice to the kernel."""

    name: str
    host: str
    port: int
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    security_protocol: str = "PLAINTEXT"


class Listener(Protocol):
    """A bound address. Connections come from `start` on."""

    @property
    def settings(self) -> ListenerSettings: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int:
        """The real one, where 0 was asked for."""
        ...

    def start(self) -> None: ...

    def close(self) -> None:
        """No more connections; those that are open go on."""
        ...


class ConnectAttempt(Protocol):
    """A connection that is being made. Whoever cancels it hears nothing of it any more."""

    def cancel(self) -> object: ...


class Network(Protocol):
    """Listeners and connections to elsewhere: a port of the node.

    cold: the part that sends slices of files that are not in memory, for its metrics; None where there is
    none.
    """

    @property
    def cold(self) -> ColdReads | None: ...

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Calls back in the next turn of the loop that brings what arrives."""
        ...

    def listen(
        self,
        settings: ListenerSettings,
        *,
        limits: ConnectionLimits,
        on_accept: Callable[[Channel, int], None],
        on_closed: Callable[[Channel], None],
    ) -> Listener:
        """Binds an address. Raises OSError.

        on_accept: gets each new channel and its peer's port, and begins the channel. on_closed: gets it once
        more when it has ended.
        """
        ...

    def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        traffic: Traffic,
        done: Callable[[Channel | OSError], None],
        on_closed: Callable[[Channel], None],
    ) -> ConnectAttempt:
        """Connects to the first address of the host that answers. `done` gets the channel, or why there is
        none, in a later turn of the loop; on_closed gets the channel when it has ended."""
        ...

    def host_name(self) -> str:
        """The full name of this machine, as others may look it up. May block for a look-up."""
        ...

    def resolve(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The addresses of each name, none for a name that nobody knows. Blocks: it is for a helper
        thread."""
        ...

    def close(self) -> None:
        """After the last channel has ended."""
        ...
