"""What stands around a connection: the wire below it, the service above it, and the network it comes from.

`Network` is the port through which a node listens and connects. Its real side is `socket_network`, on the
sockets of this machine; `broker.simulation.cluster.memory_network` is another, in memory. Everything else of
a node sees channels and listeners through the protocols of this module, so nothing but the real side knows a
socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from broker.network.response_pieces import Piece
from config.tls_settings import TlsSettings
from protocol.serving.session import Principal

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
    """An answer that comes later. The service subclasses it; `pieces` is None until the answer is known.

    held_bytes: what it keeps of its request in memory until then.
    """

    __slots__ = ("connection", "held_bytes", "is_produce", "pieces")

    def __init__(self, connection: Connection, is_produce: bool, pieces: list[Piece] | None = None) -> None:
        self.connection = connection
        self.held_bytes = 0
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


class FastLane(Protocol):
    """Answers a connection's requests of one API that are like earlier ones (see `broker.fast_lane`).

    taken: how many it answered with the last `take`. sent_bytes: of their answers.
    """

    taken: int
    sent_bytes: int

    def take(
        self, connection: Connection, view: memoryview, at: int, end: int, left: int, out: list[Piece]
    ) -> int:
        """Answers plain requests, the first of which lies complete at `at`, and returns the position behind
        the last one that it answered: `at` if it declines the first one, which has had no effect then.

        left: so many requests at most. out: takes the answers, in order. An answer that comes later, or that
        comes behind such a one, is given to `Connection.wait_for` instead. The time of the end is left in
        `connection.now_ns` if anything was taken. Only Produce requests are taken while other requests of
        the connection, all of them Produce requests, wait for their answers.
        """
        ...


class ChannelUser(Protocol):
    """The user of a channel: `network.connection.Connection`, or the client side of a connection to a
    peer."""

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
    def secured(self, principal: Principal) -> None:
        """The peer has shown in its TLS handshake who it is."""
        ...

    def refused(self, reason: str) -> None:
        """What the peer sends is no TLS, or none that is accepted. The connection ends with that."""
        ...

    def failed(self) -> None:
        """Called from an `except` clause for an exception of ours. Raises it again where the node depends on
        the connection."""
        ...

    def close(self, reason: str) -> None: ...


class Traffic:
    """Counters of one listener: bytes and connections."""

    __slots__ = ("accepted", "closed", "expired", "received_bytes", "refused", "sent_bytes")

    def __init__(self) -> None:
        self.accepted = 0
        self.closed = 0
        self.expired = 0
        self.refused = 0
        self.received_bytes = 0
        self.sent_bytes = 0


class Channel(Wire, Protocol):
    """One connection of the network, as the node uses it. Its user calls `send` and `close` of `Wire`."""

    @property
    def host(self) -> str:
        """The peer's address, as `protocol.serving.session.plain_host` writes it."""
        ...

    @property
    def open(self) -> bool: ...

    @property
    def unsent_bytes(self) -> int: ...

    def begin(self, connection: ChannelUser) -> None:
        """Sets the user of the channel; from then on the bytes that arrive are read for it."""
        ...

    def abort(self, reason: str) -> None:
        """Ends the connection at once; unsent output is lost."""
        ...

    def last_active_ms(self) -> int:
        """When the connection was last active, in monotonic milliseconds."""
        ...

    def is_awaiting_answer(self) -> bool:
        """Whether the peer waits for an answer, so that its silence does not count as idleness."""
        ...

    def expire(self) -> None:
        """Ends the connection because it was idle for too long."""
        ...


class ListenerSettings(msgspec.Struct, frozen=True):
    """The settings of one listener. A buffer size below 1 leaves the choice to the kernel.

    send_buffer_bytes: None where the user has set nothing, and the network may choose. tls: None for a
    security protocol without TLS. sasl_server_max_receive_size: the largest frame of a client that is not
    authenticated; None on a listener without SASL.
    """

    name: str
    host: str
    port: int
    backlog: int = 50
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int = -1
    security_protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl_server_max_receive_size: int | None = None


class Listener(Protocol):
    """A listener that is bound to its address. It accepts connections after `start`."""

    @property
    def settings(self) -> ListenerSettings: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int:
        """The port that the listener got; it differs from the setting where the setting is 0."""
        ...

    def start(self) -> None: ...

    def check_tls(self, tls: TlsSettings) -> None:
        """Whether a listener over TLS could go on with these settings. Raises OSError if not."""
        ...

    def change_tls(self, tls: TlsSettings) -> bool:
        """Secures the connections that come from now on with these settings, and with what is in the files
        now; whether that is something new. Raises OSError, and nothing has changed then."""
        ...

    def close(self) -> None:
        """Stops accepting connections; those that are open go on."""
        ...


class ConnectAttempt(Protocol):
    """A connection that is being made. After `cancel` nothing more is reported of it."""

    def cancel(self) -> object: ...


class Network(Protocol):
    """The port through which a node listens, and connects to other nodes.

    cold: sends the file slices that are not in memory; metrics read its counters. None where there is no such
    part.
    """

    @property
    def cold(self) -> ColdReads | None: ...

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Calls `callback` in the next turn of the loop in which the network runs."""
        ...

    def listen(
        self,
        settings: ListenerSettings,
        *,
        limits: ConnectionLimits,
        on_accept: Callable[[Channel, int], None],
        on_closed: Callable[[Channel], None],
    ) -> Listener:
        """Binds an address. Raises OSError, also for a key store or trust store that cannot be used.

        on_accept: gets each new channel and its peer's port, and has to call `begin`. on_closed: gets the
        channel when it has ended.
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
        tls: TlsSettings | None = None,
    ) -> ConnectAttempt:
        """Connects to the first address of the host that answers. `done` gets the channel, or why there is
        none, in a later turn of the loop; on_closed gets the channel when it has ended. With `tls` the
        handshake is part of that."""
        ...

    def prepare(self, tls: TlsSettings) -> None:
        """Opens the stores that `connect` with these settings uses from now on; those that were open stay if
        they hold what they held. Raises OSError for one that cannot be used."""
        ...

    def host_name(self) -> str:
        """The full host name of this machine. It may block for a name look-up."""
        ...

    def resolve(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The addresses of each host name; an empty list for an unknown name. It blocks, so only a helper
        thread may call it."""
        ...

    def close(self) -> None:
        """Closes the network. Called after the last channel has ended."""
        ...
