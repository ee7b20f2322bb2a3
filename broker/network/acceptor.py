"""A listening socket: it accepts connections while there is room for them, and pauses while there is not.

Four things make it pause: `max.connections` is reached (until a connection ends), connections come faster
than `max.connection.creation.rate`, the process has no descriptor left, or connections have used up their
share of descriptors (for a second). Meanwhile new connections wait in the kernel's backlog.
"""

from __future__ import annotations

import errno
import logging
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final

from broker.network.interfaces import ListenerSettings, Traffic
from broker.network.limits import ConnectionLimits
from broker.network.socket_options import SocketOptions
from broker.network.tls.sides import ListeningSide
from broker.ports.machine import highest_connection_descriptor
from config.limits import ACCEPT_PAUSE_MS, ACCEPTS_PER_TURN, HELD_CONNECTIONS
from config.ports import Clock, Timer, Timers
from config.tls_settings import TlsSettings
from protocol.serving.session import plain_host

_log = logging.getLogger("barnabas.network")

_LARGEST_PORT: Final = 65535
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """One listening socket. `on_accept` is called with each new socket, which is non-blocking, and with its
    peer's host and port.

    `port` is the port that the socket got; it differs from the setting where the setting is 0.
    """

    host: str
    port: int

    def __init__(
        self,
        settings: ListenerSettings,
        *,
        loop: AbstractEventLoop,
        limits: ConnectionLimits,
        clock: Clock,
        timers: Timers,
        on_accept: Callable[[socket.socket, str, int], None],
        highest_descriptor: int | None = None,
        side: ListeningSide | None = None,
    ) -> None:
        """side: secures the connections of a listener over TLS."""
        self.settings = settings
        self.side = side
        self.traffic = Traffic()
        self._loop = loop
        self._limits = limits
        self._clock = clock
        self._timers = timers
        self._on_accept = on_accept
        self._highest_descriptor = highest_descriptor or highest_connection_descriptor()
        self._accepting = False
        self._pause_timer: Timer | None = None
        self._held: dict[socket.socket, Timer] = {}
        self._socket = open_listening_socket(settings)
        self._options = SocketOptions(self._socket, settings.send_buffer_bytes)
        self.host, self.port = self._socket.getsockname()[:2]

    def check_tls(self, tls: TlsSettings) -> None:
        """Implements `interfaces.Listener`."""
        if self.side is not None:
            self.side.check(tls)

    def change_tls(self, tls: TlsSettings) -> bool:
        """Implements `interfaces.Listener`."""
        return self.side is not None and self.side.change(tls)

    def start(self) -> None:
        if not self._accepting and self._socket.fileno() >= 0:
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._ready)

    def close(self) -> None:
        """Closes the listening socket; the kernel refuses further connections."""
        self._pause()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        for sock, timer in self._held.items():
            timer.cancel()
            sock.close()
        self._held.clear()
        self._socket.close()

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._socket.fileno())

    def _ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._limits.has_room(self.settings.name):
                self._pause()
                self._limits.when_room(self.start)
                return
            now_ms = self._clock.monotonic_ms()
            pause_ms = self._limits.pause_ms(self.settings.name, now_ms)
            if pause_ms:
                self._pause()
                self._pause_timer = self._timers.call_at(now_ms + pause_ms, self.start)
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._pause_for_a_while(f"no new connections for now: {error.strerror}")
                    return
                continue  # the peer closed the connection before it was accepted
            if sock.fileno() > self._highest_descriptor:
                self._limits.record(self.settings.name, now_ms)
                sock.close()
                self.traffic.refused += 1
                self._pause_for_a_while(
                    "no new connections for now: the other descriptors are kept for files"
                )
                return
            self._take(sock, address, now_ms)

    def _take(self, sock: socket.socket, address: tuple[str, int], now_ms: int) -> None:
        host = plain_host(address[0])
        throttle_ms = self._limits.throttle_ms(host, now_ms)
        if throttle_ms:
            self.traffic.refused += 1
            self._hold(sock, now_ms + throttle_ms)
            return
        self._limits.record(self.settings.name, now_ms)
        refusal = self._limits.refusal(host)
        if refusal is not None:
            self.traffic.refused += 1
            _log.info("Refusing a connection on listener %s: %s", self.settings.name, refusal)
            sock.close()
            return
        try:
            sock.setblocking(False)
            self._options.apply(sock, host)
        except OSError:
            sock.close()  # the peer has reset the connection already
            return
        self.traffic.accepted += 1
        self._on_accept(sock, host, address[1])

    def _hold(self, sock: socket.socket, until_ms: int) -> None:
        """Closes a connection later that its address has opened too fast, so that it is not opened again at
        once."""
        if len(self._held) >= HELD_CONNECTIONS:
            sock.close()
            return

        def close() -> None:
            del self._held[sock]
            sock.close()

        self._held[sock] = self._timers.call_at(until_ms, close)

    def _pause_for_a_while(self, reason: str) -> None:
        _log.warning("Listener %s takes %s", self.settings.name, reason)
        self._pause()
        self._pause_timer = self._timers.call_at(self._clock.monotonic_ms() + ACCEPT_PAUSE_MS, self.start)


def open_listening_socket(settings: ListenerSettings) -> socket.socket:
    """Binds the socket and listens. An empty host means all interfaces, over IPv6 and IPv4 where the machine
    has both."""
    host: str | None = settings.host or None
    where = f"{settings.host or '*'}:{settings.port}"
    if not 0 <= settings.port <= _LARGEST_PORT:  # the resolver would take it modulo 65536
        raise OSError(0, f"listener {settings.name} cannot listen on {where}: no such port")
    flags = socket.AI_PASSIVE
    try:
        candidates = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OSError(0, f"listener {settings.name} cannot listen on {where}: {reason}") from error
    if host is None:
        candidates.sort(key=lambda candidate: candidate[0] != socket.AF_INET6)
    failure: OSError | None = None
    for family, kind, protocol, _, address in candidates:
        try:
            return _listen(family, kind, protocol, address, settings, dual=host is None)
        except OSError as error:
            failure = failure or error
    raise OSError(
        failure.errno if failure else 0,
        f"listener {settings.name} cannot listen on {where}: {failure.strerror if failure else 'no address'}",
    )


def _listen(
    family: int, kind: int, protocol: int, address: tuple[object, ...], settings: ListenerSettings, dual: bool
) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        if settings.receive_buffer_bytes > 0:  # connections inherit it, and their window scale
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(settings.backlog)
    except OSError:
        sock.close()
        raise
    return sock
