"""A connection on a real non-blocking socket of the loop.

Reading: one `recv_into` per readiness, into the loop's scratch buffer, and what it brought is handled at
once. Writing: answers of a turn are sent at once, as far as the peer takes them; only what is left over
waits for the socket to become writable. So a request that is answered in its turn costs two system calls
beside the loop's.

The end of a stream (FIN) says only that the peer sends nothing more. It may have closed its sending side to
say so, as `nc -N` and some test tools do, or be gone; the two look alike until an answer is sent, which a
peer that is gone refuses with a reset. So all that came before it is answered, as by Apache Kafka: the
requests that lie unread, those that wait (measured with 4.3.1: a long poll, a join), and then the connection
is closed. A reset ends it at once with all that waits. What waits for longer than `connections.max.idle.ms`
behind the end of a stream is given up: nobody is kept waiting for ever for a peer that has gone in silence.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker.network.cold_reads import ColdReads
from broker.network.connection import CLOSED, TURN_OVER
from broker.network.disconnects import Disconnects
from broker.network.interfaces import ChannelUser, Traffic
from broker.network.output import OutputQueue, Transport
from broker.network.response_pieces import Piece, release_pieces
from config.limits import (
    OUTPUT_QUEUE_PAUSE_BYTES,
    OUTPUT_QUEUE_RESUME_BYTES,
    SMALL_FRAME_BYTES,
    TURN_SENT_BYTES,
)
from protocol.errors import EndsProcess

_log = logging.getLogger("barnabas.network")

_SENT_DIRECTLY: Final = (bytes, bytearray)
_PEER_ERRORS: Final = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTUNREACH, errno.ENETUNREACH}
)


class SocketChannel:
    """A socket that carries one connection. `begin` starts it with its connection; `on_closed` is called
    once, at the end."""

    __slots__ = (
        "_disconnects",
        "_finished",
        "_large_receive_bytes",
        "_linger",
        "_loop",
        "_on_closed",
        "_output",
        "_reading",
        "_receive",
        "_send",
        "_socket",
        "_traffic",
        "_writing",
        "connection",
        "descriptor",
        "host",
        "open",
    )

    connection: ChannelUser

    def __init__(
        self,
        sock: socket.socket,
        host: str,
        transport: Transport,
        *,
        loop: AbstractEventLoop,
        disconnects: Disconnects,
        traffic: Traffic,
        on_closed: Callable[[SocketChannel], None],
        cold: ColdReads | None = None,
        large_receive_bytes: int = 0,
    ) -> None:
        """large_receive_bytes: the kernel's receive buffer once so much arrives at a time that the requests
        are large; 0 leaves it as it is."""
        self.host = host
        self.descriptor = transport.descriptor
        self.open = True
        self._socket = sock
        self._receive = transport.receive
        self._send = transport.send
        self._output = OutputQueue(transport, cold, self._on_helper_done)
        self._loop = loop
        self._disconnects = disconnects
        self._traffic = traffic
        self._on_closed = on_closed
        self._large_receive_bytes = large_receive_bytes
        self._reading = False
        self._writing = False
        self._linger = False
        self._finished = False
        """Whether the end of the stream was seen; unread bytes may lie before it."""

    def begin(self, connection: ChannelUser) -> None:
        self.connection = connection
        self.resume()

    def last_active_ms(self) -> int:
        return self.connection.now_ns // 1_000_000

    def is_awaiting_answer(self) -> bool:
        return self.connection.waiting > 0 and not self._finished

    def expire(self) -> None:
        self._traffic.expired += 1
        self.abort("idle for longer than connections.max.idle.ms")

    @property
    def unsent_bytes(self) -> int:
        return self._output.cost_bytes

    # Reading

    def _readable(self) -> None:
        connection = self.connection
        if connection.holds:
            self._readable_while_held()
            return
        try:
            count = self._receive(connection.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        if count == 0:
            self._pause()
            connection.peer_finished()
            self._await_break()
            return
        if count > SMALL_FRAME_BYTES and self._large_receive_bytes:
            self._widen()
        traffic = self._traffic
        traffic.received_bytes += count
        sent_before = traffic.sent_bytes
        connection.received(count)
        if traffic.sent_bytes == sent_before and self.open:
            self._look_for_reset()

    def _widen(self) -> None:
        """Lets the kernel take whole large requests in, so that the peer sends while others are served, and a
        request is read in few calls."""
        size_bytes, self._large_receive_bytes = self._large_receive_bytes, 0
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

    def _look_for_reset(self) -> None:
        """Checks whether the peer has reset the connection together with the bytes that were just read.

        When data and a reset arrive together libuv stops watching the descriptor, and uvloop calls us once,
        as if there were data only. If we had something to send the send would fail; here nothing was sent.
        """
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._broken(OSError(error, os.strerror(error)))

    def _readable_while_held(self) -> None:
        """Called when the socket is readable although the connection must not read: there is more data, or
        the peer has gone."""
        if self.connection.holds == TURN_OVER:
            return
        try:
            finished = not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        self._pause()
        if finished:
            self._await_break()
        else:
            self._disconnects.watch(self.descriptor, self._on_disconnect)

    def _await_break(self) -> None:
        """Watches for a reset, after the end of the stream was seen while something is still being
        answered."""
        self._finished = True
        if self.open and not self._linger:
            self._disconnects.watch(self.descriptor, self._on_disconnect, finished=True)

    def _on_disconnect(self, broken: bool) -> None:
        if broken:
            self.connection.peer_gone("the peer has gone while its request was waiting")
        else:
            self._await_break()

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self.descriptor)

    def resume(self) -> None:
        if not self._reading and self.open and not self._linger:
            self._reading = True
            self._disconnects.forget(self.descriptor)
            self._loop.add_reader(self.descriptor, self._readable)

    # Writing

    def send(self, pieces: list[Piece]) -> None:
        if not self.open or self._linger:
            release_pieces(pieces)
            return
        output = self._output
        if output.cost_bytes:
            self._append(pieces)
        elif len(pieces) == 1 and isinstance(data := pieces[0], _SENT_DIRECTLY):
            try:
                sent = self._send(data, 0)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._broken(error)
                return
            self._traffic.sent_bytes += sent
            if sent != len(data):
                self._append([memoryview(data)[sent:]])
        else:
            self._write(pieces)

    def _append(self, pieces: list[Piece]) -> None:
        """Puts pieces behind those that wait, if any do."""
        output = self._output
        try:
            output.append(pieces)
        except OSError as error:
            self._broken(error)
            return
        if not self._writing and not output.is_busy:
            self._write()
        elif output.cost_bytes > OUTPUT_QUEUE_PAUSE_BYTES:
            self.connection.output_full()

    def _write(self, pieces: list[Piece] | None = None) -> None:
        """Sends what waits, or these pieces while nothing waits."""
        output = self._output
        before = output.sent_bytes
        try:
            if pieces is None:
                done = output.write(TURN_SENT_BYTES)
            else:
                done = output.send(pieces, TURN_SENT_BYTES)
        except OSError as error:
            self._broken(error)
            return
        finally:
            self._traffic.sent_bytes += output.sent_bytes - before
        if done:
            self._stop_writing()
            if self._linger:
                self._end()
                return
        elif output.is_busy:
            self._stop_writing()
        else:
            self._await_writable()
        cost = output.cost_bytes
        if cost > OUTPUT_QUEUE_PAUSE_BYTES:
            self.connection.output_full()
        elif cost <= OUTPUT_QUEUE_RESUME_BYTES:
            self.connection.output_drained()

    def _await_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self.descriptor, self._writable)

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self.descriptor)

    def _writable(self) -> None:
        try:
            self.connection.touch()
            self._write()
        except EndsProcess:
            raise
        except Exception:
            self._failed()

    def _failed(self) -> None:
        """Ends the connection after an exception of ours in the middle of writing. Called from the `except`
        clause."""
        self.connection.failed()
        self.abort("a fault of ours")

    def _on_helper_done(self, error: BaseException | None) -> None:
        """Goes on after a helper thread has sent a part of a cold slice and no longer uses the socket."""
        if not self.open:
            self._give_back()
        elif error is None:
            self._writable()
        elif isinstance(error, BlockingIOError | InterruptedError):
            self._await_writable()
        elif isinstance(error, OSError):
            self._broken(error)
        elif isinstance(error, Exception) and not isinstance(error, EndsProcess):
            try:
                raise error
            except Exception:
                self._failed()
        else:
            raise error

    # The end

    def close(self, reason: str) -> None:
        """Closes the socket for the connection. What was answered before is still sent, as long as the peer
        takes it."""
        if not self.open:
            return
        _log.debug("%s: closed: %s", self.connection.connection_id, reason)
        self._pause()
        if self._output:
            self._linger = True
        else:
            self._end()

    def abort(self, reason: str) -> None:
        """Closes the socket at once; unsent output is lost."""
        if self.open:
            self._output.clear()
            self.connection.close(reason)
            self._end()

    def _broken(self, error: OSError) -> None:
        if error.errno not in _PEER_ERRORS:
            _log.warning("%s: %s", self.connection.connection_id, error)
        self._output.clear()
        if self.connection.holds & CLOSED:
            self._end()
        else:
            self._linger = True  # so that nothing more is sent
            self.connection.peer_gone(str(error))
            self._end()

    def _end(self) -> None:
        if not self.open:
            return
        self.open = False
        self._pause()
        self._disconnects.forget(self.descriptor)
        self._stop_writing()
        self._output.clear()
        if not self._output.is_busy:
            self._give_back()
            return
        with suppress(OSError):
            self._socket.shutdown(
                socket.SHUT_RDWR
            )  # ends the helper's call; only then is the descriptor closed

    def _give_back(self) -> None:
        self._socket.close()
        self._on_closed(self)
