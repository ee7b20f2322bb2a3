"""The network of this machine: listeners and outgoing connections on non-blocking sockets of one loop.

The real side of `interfaces.Network`. A connection that was accepted and one that was made here become the
same `SocketChannel`; who drives it is the caller's matter.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from broker.network.acceptor import Acceptor
from broker.network.cold_reads import ColdReads
from broker.network.disconnects import Disconnects
from broker.network.interfaces import Channel, ListenerSettings, Traffic
from broker.network.limits import ConnectionLimits
from broker.network.output import Transport, plain
from broker.network.sockets import SocketChannel
from broker.network.tls.channel import TlsChannel
from broker.network.tls.filter import TlsFilter, told
from broker.network.tls.handshakes import Handshakes
from broker.network.tls.sides import ConnectingSide, ListeningSide
from config.limits import LARGE_RECEIVE_BYTES, LARGE_RECEIVE_LEAST_BYTES, TLS_PART_BYTES
from config.ports import Clock, Timers
from config.tls_settings import TlsSettings
from protocol.serving.session import plain_host

RMEM_MAX: Final = Path("/proc/sys/net/core/rmem_max")
"""The largest receive buffer that a process may ask the kernel for, in bytes (sysctl net.core.rmem_max)."""


class SocketNetwork:
    """`interfaces.Network`.

    make_transport: what stands between the socket of an accepted connection and the connection. cold: sends
    slices of files that are not in memory; without it the loop sends all of them.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        timers: Timers,
        make_transport: Callable[[socket.socket, ListenerSettings], Transport] | None = None,
        cold: ColdReads | None = None,
    ) -> None:
        self.cold = cold
        self.call_soon = loop.call_soon
        self._loop = loop
        self._clock = clock
        self._timers = timers
        self._make_transport = make_transport or (lambda sock, _: plain(sock))
        self._large_receive_bytes = large_receive_bytes()
        self._connecting_sides: dict[str, ConnectingSide] = {}
        """By the name of the listener to which they connect."""
        self._handshakes = Handshakes(loop.call_soon, clock, timers)
        self._records = memoryview(bytearray(TLS_PART_BYTES))
        """Where the records of any connection over TLS arrive; nothing stays in it."""
        self.disconnects = Disconnects(loop)

    def listen(
        self,
        settings: ListenerSettings,
        *,
        limits: ConnectionLimits,
        on_accept: Callable[[Channel, int], None],
        on_closed: Callable[[Channel], None],
    ) -> Acceptor:
        """Implements `interfaces.Network`."""

        large_receive_bytes = 0 if settings.receive_buffer_bytes > 0 else self._large_receive_bytes

        def take(sock: socket.socket, host: str, port: int) -> None:
            channel = SocketChannel(
                sock,
                host,
                self._make_transport(sock, settings),
                loop=self._loop,
                disconnects=self.disconnects,
                traffic=acceptor.traffic,
                on_closed=on_closed,
                cold=self.cold,
                large_receive_bytes=large_receive_bytes,
            )
            on_accept(channel, port)

        def take_encrypted(side: ListeningSide, sock: socket.socket, host: str, port: int) -> None:
            channel = TlsChannel(
                sock,
                host,
                side.secure(sock),
                loop=self._loop,
                disconnects=self.disconnects,
                traffic=acceptor.traffic,
                on_closed=on_closed,
                cold=self.cold,
                large_receive_bytes=large_receive_bytes,
                handshakes=self._handshakes,
                principal_of=side.principal_of,
            )
            on_accept(channel, port)

        side = None
        if settings.tls is not None:
            names_clients = settings.security_protocol == "SSL"
            side = ListeningSide(settings.tls, self._records, names_clients=names_clients)
        acceptor = Acceptor(
            settings,
            loop=self._loop,
            limits=limits,
            clock=self._clock,
            timers=self._timers,
            on_accept=take if side is None else partial(take_encrypted, side),
            side=side,
        )
        return acceptor

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
    ) -> asyncio.Task[None]:
        """Implements `interfaces.Network`."""

        async def attempt() -> None:
            secured: TlsFilter | None = None
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    sock = await self._open_socket(host, port)
                    if tls is not None:
                        secured = await self._secure(sock, host, tls)
            except (OSError, TimeoutError) as error:
                done(error if error.args else OSError("no answer in time"))
                return
            channel: SocketChannel
            if secured is None:
                channel = SocketChannel(
                    sock,
                    host,
                    plain(sock),
                    loop=self._loop,
                    disconnects=self.disconnects,
                    traffic=traffic,
                    on_closed=on_closed,
                )
            else:
                channel = TlsChannel(
                    sock,
                    host,
                    secured,
                    loop=self._loop,
                    disconnects=self.disconnects,
                    traffic=traffic,
                    on_closed=on_closed,
                )
            done(channel)

        return self._loop.create_task(attempt())

    async def _secure(self, sock: socket.socket, host: str, tls: TlsSettings) -> TlsFilter:
        """Does the handshake of a connection that was made here. The socket is closed if that fails."""
        try:
            side = self._connecting_sides.get(tls.listener)
            if side is None or side.tls != tls:
                side = self._prepared(tls)
            secured = side.secure(sock, host)
            while not secured.shake_hands():
                await self._until_readable(sock)
        except ssl.SSLError as error:
            sock.close()
            raise OSError(told(error)) from None
        except ValueError as error:  # a name that has an address and cannot stand in a certificate
            sock.close()
            raise OSError(f"no TLS with that host: {error}") from None
        except BaseException:
            sock.close()
            raise
        return secured

    async def _until_readable(self, sock: socket.socket) -> None:
        readable: asyncio.Future[None] = self._loop.create_future()

        def tell() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(sock.fileno(), tell)
        try:
            await readable
        finally:
            self._loop.remove_reader(sock.fileno())

    async def _open_socket(self, host: str, port: int) -> socket.socket:
        """Connects a socket to the first of the host's addresses that answers."""
        try:
            addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise OSError(f"it is no address: {error}") from error
        failure: OSError = OSError("it has no address")
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure

    def prepare(self, tls: TlsSettings) -> None:
        """Implements `interfaces.Network`."""
        self._prepared(tls)

    def _prepared(self, tls: TlsSettings) -> ConnectingSide:
        side = self._connecting_sides.get(tls.listener)
        if side is None or not side.is_current(tls):
            side = self._connecting_sides[tls.listener] = ConnectingSide(tls, self._records)
        return side

    def host_name(self) -> str:
        """Implements `interfaces.Network`."""
        return socket.getfqdn()

    def resolve(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Implements `interfaces.Network`."""
        return resolve(names)

    def close(self) -> None:
        """Implements `interfaces.Network`."""
        self.disconnects.close()


def large_receive_bytes(rmem_max: Path = RMEM_MAX) -> int:
    """The kernel's receive buffer for a connection with large requests: up to 4 MiB, as far as the machine
    allows; 0 where that is so little that the kernel does better by itself, or not known."""
    try:
        allowed = int(rmem_max.read_text())
    except (OSError, ValueError):
        return 0
    return 0 if allowed < LARGE_RECEIVE_LEAST_BYTES else min(allowed, LARGE_RECEIVE_BYTES)


def resolve(names: Sequence[str]) -> dict[str, list[str]]:
    """The addresses of each host name, the resolver's first choice first; an empty list for an unknown name.
    It blocks."""
    found: dict[str, list[str]] = {}
    for name in names:
        try:
            addresses = (plain_host(str(each[4][0])) for each in socket.getaddrinfo(name, None))
            found[name] = list(dict.fromkeys(addresses))
        except (OSError, UnicodeError):
            found[name] = []
    return found
