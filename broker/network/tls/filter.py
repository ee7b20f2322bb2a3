"""One TLS session in memory beside its socket: plaintext on one side, records on the other.

    socket ──recv_into──▶ scratch ──▶ records ──▶ incoming ──▶ session ──receive──▶ connection
    socket ◀──send─────── unsent ◀────────────── outgoing ◀── session ◀──send────── connection

`receive` and `send` look like a socket's own (`output.Transport`), so the queue of answers and the connection
need not know of it. The session is made when the first bytes have come: a peer that says nothing costs no
more than on a plaintext listener.

Bounds: what a peer may send before its handshake is complete; how many records are decrypted in one turn, and
how much of them may be no plaintext; how much is encrypted before the socket must take it; how much the
session itself may have to say to a peer that does not read (answers to key updates).
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker.network.output import BytesLike, Transport
from broker.network.tls.records import RecordQueue
from config.limits import (
    TLS_HANDSHAKE_BYTES,
    TLS_PART_BYTES,
    TLS_SILENT_BYTES,
    TLS_TURN_RECORDS,
    TLS_UNSENT_BYTES,
)

__all__ = ["MakeSession", "NoTls", "TlsFilter", "told"]

MakeSession = Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]

_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_HANDSHAKE: Final = 0x16
_ALERT: Final = 0x15
"""The first bytes of a TLS handshake, and of the answer of a server that refuses it."""
_SHOWN_BYTES: Final = 8


class NoTls(ConnectionError):
    """What the peer has sent is no TLS, or no end of a handshake is in sight; the text says what was seen."""


def told(error: ssl.SSLError) -> str:
    """Why a handshake or a record was refused, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message}"
    reason = str(error.reason or error).lower().replace("_", " ")
    return f"TLS failed: {reason}"


class TlsFilter:
    """The session between a socket and its connection. It is used by the loop's thread alone.

    make_session: makes the session between two buffers. scratch: a buffer for records that just came, which
    may be shared with others. awaits_peer: whether the peer speaks first, as a server's does.

    has_input: whether plaintext may be had without the socket becoming readable.
    """

    __slots__ = (
        "_awaits_peer",
        "_handshake_bytes",
        "_incoming",
        "_make_session",
        "_outgoing",
        "_receive",
        "_records",
        "_scratch",
        "_send",
        "_silent_bytes",
        "_socket",
        "_unsent",
        "has_input",
        "session",
    )

    def __init__(
        self, sock: socket.socket, make_session: MakeSession, scratch: memoryview, *, awaits_peer: bool
    ) -> None:
        self.session: ssl.SSLObject | None = None
        self.has_input = False
        self._socket = sock
        self._receive = sock.recv_into
        self._send = sock.send
        self._make_session = make_session
        self._scratch = scratch
        self._awaits_peer = awaits_peer
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._unsent: memoryview | None = None
        """Records of which the socket has taken a part."""
        self._handshake_bytes = 0
        self._records = RecordQueue()
        self._silent_bytes = 0
        """What the session was given since it last gave plaintext."""

    def transport(self) -> Transport:
        return Transport(self._socket.fileno(), self.receive, self.send, False)

    @property
    def unsent_bytes(self) -> int:
        """The bytes of records that the socket has not taken yet."""
        pending = 0 if self._outgoing is None else self._outgoing.pending
        return pending if self._unsent is None else pending + len(self._unsent)

    # The handshake

    def shake_hands(self) -> bool:
        """Goes on with the handshake as far as the peer's bytes allow; whether it is complete.

        Raises NoTls, ssl.SSLError and OSError; the alert that tells the peer has been sent then.
        """
        records = self._records
        while True:
            if self.session is not None or not self._awaits_peer:
                session = self.session or self._begin()
                try:
                    session.do_handshake()
                except ssl.SSLWantReadError:
                    self.flush()
                    if records.has_more:
                        self._feed(TLS_TURN_RECORDS)
                        continue
                except ssl.SSLError:
                    with suppress(OSError):
                        self.flush()
                    raise
                else:
                    self.flush()
                    records.keep()
                    self._silent_bytes = 0
                    self.has_input = True  # the peer's first request may have come with its last word
                    return True
            try:
                count = self._receive(self._scratch)
            except (BlockingIOError, InterruptedError):
                records.keep()
                return False
            if count == 0:
                raise ConnectionResetError(
                    errno.ECONNRESET, "the peer has closed the connection in the TLS handshake"
                )
            self._take_handshake(self._scratch[:count])

    def _take_handshake(self, data: memoryview) -> None:
        is_refusal = data[0] == _ALERT and not self._awaits_peer
        if self._handshake_bytes == 0 and data[0] != _HANDSHAKE and not is_refusal:
            raise NoTls(f"no TLS handshake: {_seen(data)}")
        self._handshake_bytes += len(data)
        if self._handshake_bytes > TLS_HANDSHAKE_BYTES:
            raise NoTls(f"no end of the TLS handshake after {self._handshake_bytes} bytes")
        if self.session is None:
            self._begin()
        self._feed(TLS_TURN_RECORDS, data)

    def _feed(self, most_records: int, arrived: memoryview | None = None) -> int:
        """Gives the session some of the records that have arrived; how many of them began."""
        piece = self._records.take(most_records, arrived)
        if self._incoming is not None:
            self._incoming.write(piece)
        self._silent_bytes += len(piece)
        return self._records.taken_records

    def _begin(self) -> ssl.SSLObject:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = self._make_session(self._incoming, self._outgoing)
        return self.session

    # After the handshake

    def receive(self, view: memoryview) -> int:
        """Fills `view` as far as the peer's bytes and TLS_TURN_RECORDS allow; 0 at the end of the stream.
        Raises BlockingIOError while there is nothing, ssl.SSLError and OSError."""
        session, records, scratch = self.session, self._records, self._scratch
        if session is None:
            raise BlockingIOError(errno.EAGAIN, "the handshake has not begun")
        read: Callable[[int, memoryview], int] = session.read  # type: ignore[assignment]
        size, filled = len(view), 0
        left = TLS_TURN_RECORDS
        is_drained = self.has_input = False
        while filled < size:
            try:
                count = read(size - filled, view[filled:])
            except ssl.SSLWantReadError:
                if not left:
                    break
                if records.has_more:
                    left -= self._feed(left)
                    continue
                if is_drained:
                    break
                try:
                    arrived = self._receive(scratch)
                except (BlockingIOError, InterruptedError):
                    break
                if arrived == 0:
                    if filled:
                        break
                    return 0
                is_drained = arrived < len(scratch)
                left -= self._feed(left, scratch[:arrived])
                continue
            except ssl.SSLZeroReturnError:
                count = 0
            if count == 0:  # the peer has said that it sends nothing more
                self.has_input = filled > 0
                if filled:
                    break
                return 0
            filled += count
            self._silent_bytes = 0
        else:
            self.has_input = True
        if records.has_more:
            self.has_input = True
        records.keep()
        self._say_what_is_due()
        if not filled:
            self._bear_silence()
            raise BlockingIOError(errno.EAGAIN, "no complete record")
        return filled

    def _bear_silence(self) -> None:
        """Gives a peer up whose records bring nothing."""
        if self._silent_bytes > TLS_SILENT_BYTES:
            raise ConnectionAbortedError(
                errno.ECONNABORTED, f"{self._silent_bytes} bytes of TLS records have brought no data"
            )

    def _say_what_is_due(self) -> None:
        """Sends what the session answers by itself, and gives a peer up that makes it speak without
        listening."""
        if self._outgoing is not None and self._outgoing.pending:
            self.flush()
            if self.unsent_bytes > TLS_UNSENT_BYTES:
                raise ConnectionAbortedError(
                    errno.ECONNABORTED, "the peer asks for new keys and does not read the answers"
                )

    def send(self, data: BytesLike, flags: int) -> int:
        """Encrypts a part of the data; how much of it. Raises BlockingIOError while the socket is full.

        With MSG_MORE the records stay here until more follows, `flush` is called, or they are many.
        """
        session, outgoing = self.session, self._outgoing
        if session is None or outgoing is None:
            raise BlockingIOError(errno.EAGAIN, "the handshake has not begun")
        if (self._unsent is not None or outgoing.pending >= TLS_PART_BYTES) and not self.flush():
            raise BlockingIOError(errno.EAGAIN, "the socket is full")
        part = data if len(data) <= TLS_PART_BYTES else memoryview(data)[:TLS_PART_BYTES]
        taken = session.write(part)
        if not flags & _MSG_MORE or outgoing.pending >= TLS_PART_BYTES:
            self.flush()
        return taken

    def flush(self) -> bool:
        """Gives the socket what was encrypted; whether it has taken all. Raises OSError."""
        while True:
            if self._unsent is None:
                if self._outgoing is None or not self._outgoing.pending:
                    return True
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return False
            self._unsent = self._unsent[sent:] if sent < len(self._unsent) else None

    def say_goodbye(self) -> None:
        """Tells the peer that nothing more follows (close_notify), if the socket takes it."""
        if self.session is None or self.unsent_bytes:
            return
        with suppress(OSError):  # an ssl.SSLError is one: the peer's own goodbye is not waited for
            self.session.unwrap()
        with suppress(OSError):
            self.flush()


def _seen(data: memoryview) -> str:
    """What the first bytes of a peer look like."""
    shown = bytes(data[:_SHOWN_BYTES])
    seen = f"the first bytes are {shown.hex(' ')}"
    if shown[0] == 0:
        return f"{seen}, as of a Kafka client without TLS (security.protocol=PLAINTEXT)"
    if shown[:4] in (b"GET ", b"HEAD", b"POST", b"PUT "):
        return f"{seen}, as of HTTP"
    return seen
