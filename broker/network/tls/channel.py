"""A connection over TLS on a socket of the loop: `sockets.SocketChannel` with a filter before its socket.

The handshake is done as its bytes come, in a turn of its own (`handshakes`), and the connection that is being
secured counts among the open ones from the start. It has a time limit of its own. When it is complete the
connection is told who the peer is; what is no TLS, or fails, ends the connection with one line.

Two things differ from plaintext afterwards. Plaintext may wait in the session while the socket is not
readable: then reading goes on in the next turn by itself. And records may wait for the socket when the queue
of answers is empty already: they count as output until they have left.
"""

from __future__ import annotations

import errno
import socket
import ssl
from asyncio import AbstractEventLoop
from collections.abc import Callable

from broker.network.cold_reads import ColdReads
from broker.network.disconnects import Disconnects
from broker.network.interfaces import ChannelUser, Traffic
from broker.network.output import OutputQueue
from broker.network.response_pieces import Piece, release_pieces
from broker.network.sockets import SocketChannel
from broker.network.tls.filter import NoTls, TlsFilter, told
from broker.network.tls.handshakes import Handshakes
from config.limits import TLS_HANDSHAKE_MS
from protocol.errors import EndsProcess
from protocol.serving.session import Principal

__all__ = ["NameRefused", "TlsChannel"]


class NameRefused(Exception):
    """The peer's certificate gives it no principal."""


PrincipalOf = Callable[[bytes | None], Principal | None]
"""From a peer's certificate (DER; None without one) to its principal; None leaves that to SASL. Raises
NameRefused."""


class _EncryptedOutput(OutputQueue):
    """The queue of answers in front of a filter: it is empty when the records have left too."""

    __slots__ = ("_filter",)

    _filter: TlsFilter

    def __bool__(self) -> bool:
        return bool(self._items) or self._filter.unsent_bytes > 0

    def send(self, pieces: list[Piece], budget_bytes: int) -> bool:
        self.append(pieces)
        return self.write(budget_bytes)

    def write(self, budget_bytes: int) -> bool:
        if not self._filter.flush():
            return False
        all_taken = super().write(budget_bytes)
        return self._filter.flush() and all_taken


class TlsChannel(SocketChannel):
    """A socket that carries one connection over TLS.

    handshakes, principal_of: None where this side is the client, whose handshake is complete already.
    """

    __slots__ = ("_filter", "_handshakes", "_limit", "_principal_of", "_reads_on")

    def __init__(
        self,
        sock: socket.socket,
        host: str,
        tls: TlsFilter,
        *,
        loop: AbstractEventLoop,
        disconnects: Disconnects,
        traffic: Traffic,
        on_closed: Callable[[SocketChannel], None],
        cold: ColdReads | None = None,
        large_receive_bytes: int = 0,
        handshakes: Handshakes | None = None,
        principal_of: PrincipalOf | None = None,
    ) -> None:
        transport = tls.transport()
        super().__init__(
            sock,
            host,
            transport,
            loop=loop,
            disconnects=disconnects,
            traffic=traffic,
            on_closed=on_closed,
            cold=cold,
            large_receive_bytes=large_receive_bytes,
        )
        output = _EncryptedOutput(transport, cold, self._on_helper_done)
        output._filter = tls
        self._output = output
        self._filter = tls
        self._handshakes = handshakes
        """None when the handshake is complete."""
        self._principal_of = principal_of
        self._reads_on = False
        self._limit = None if handshakes is None else handshakes.limit(self._too_slow)

    @property
    def unsent_bytes(self) -> int:
        return self._output.cost_bytes + self._filter.unsent_bytes

    def begin(self, connection: ChannelUser) -> None:
        super().begin(connection)
        if self._filter.has_input:
            self._read_on()

    # The handshake

    def _go_on(self) -> None:
        """Goes on with the handshake when it is its turn."""
        if not self.open:
            return
        self.resume()
        try:
            is_complete = self._shake_hands()
        except EndsProcess:
            raise
        except Exception:
            self._failed()
            return
        if is_complete:
            self._readable()

    def _shake_hands(self) -> bool:
        """Goes on with the handshake of a peer that has connected; whether it is complete."""
        try:
            if not self._filter.shake_hands():
                self._write_what_is_due()
                return False
            session = self._filter.session
            certificate = None if session is None else session.getpeercert(binary_form=True)
            principal = None if self._principal_of is None else self._principal_of(certificate)
        except (NoTls, NameRefused) as refusal:
            self._refuse(str(refusal))
            return False
        except ssl.SSLError as error:
            self._refuse(told(error))
            return False
        except OSError as error:
            self._broken(error)
            return False
        self._handshakes = self._principal_of = None
        self._lift_limit()
        if principal is not None:
            self.connection.secured(principal)
        self._write_what_is_due()
        return True

    def _too_slow(self) -> None:
        self._limit = None
        if self.open:
            self._refuse(f"no complete TLS handshake within {TLS_HANDSHAKE_MS // 1000} seconds")

    def _lift_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _refuse(self, reason: str) -> None:
        """Ends a connection that is not secured, and says why."""
        self.connection.refused(reason)
        self.abort(reason)

    # Reading

    def _readable(self) -> None:
        if self._handshakes is not None:
            self._pause()
            self._handshakes.add(self._go_on)
            return
        try:
            received_before = self._traffic.received_bytes
            super()._readable()
            if self._traffic.received_bytes == received_before and self.open and not self._finished:
                self._look_for_reset()  # a part of a record may have come, and the reset with it
            self._write_what_is_due()
        except EndsProcess:
            raise
        except Exception:
            self._failed()
        if self.open and self._filter.has_input and not self.connection.holds:
            self._read_on()

    def _read_on(self) -> None:
        """Reads again in the next turn of the loop, because the socket will not say that there is more."""
        if not self._reads_on:
            self._reads_on = True
            self._loop.call_soon(self._read_on_now)

    def _read_on_now(self) -> None:
        self._reads_on = False
        if self.open and not self._linger and not self.connection.holds and not self._finished:
            self._readable()

    def resume(self) -> None:
        super().resume()
        if self._filter.has_input:
            self._read_on()

    # Writing

    def send(self, pieces: list[Piece]) -> None:
        if not self.open or self._linger:
            release_pieces(pieces)
        elif self._output.cost_bytes:
            self._append(pieces)
        else:
            self._write(pieces)

    def _write_what_is_due(self) -> None:
        """Waits for the socket, if it has not taken what the session has to say by itself."""
        if self.open and self._filter.unsent_bytes and not self._writing and not self._output.is_busy:
            self._await_writable()

    # The end

    def _broken(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLError):
            reason = told(error)
            self.connection.refused(reason)
            error = ConnectionResetError(errno.ECONNRESET, reason)  # it has been told already
        super()._broken(error)

    def _end(self) -> None:
        if self.open:
            self._lift_limit()
            self._filter.say_goodbye()
        super()._end()
