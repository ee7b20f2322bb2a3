"""A server on real sockets of a real loop, with a scripted service and a clock that can be moved by hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from broker.network.acceptor import Acceptor
from broker.network.cold_reads import ColdReads
from broker.network.interfaces import ListenerSettings
from broker.network.limits import ConnectionLimits
from broker.network.memory import RequestMemory
from broker.network.output import Transport
from broker.network.server import Server, ServerSettings
from broker.network.socket_network import SocketNetwork
from config.tls_settings import TlsSettings
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.sans_io import MIB, ScriptedService, framed

Scenario = Callable[["NetworkRig"], Coroutine[Any, Any, None]]


class NetworkRig:
    """`run` gives a coroutine a started server on a port of the kernel's choice."""

    def __init__(
        self,
        *,
        limits: ConnectionLimits | None = None,
        settings: ServerSettings | None = None,
        memory: RequestMemory | None = None,
        make_transport: Callable[[socket.socket, ListenerSettings], Transport] | None = None,
        host: str = "127.0.0.1",
        cold: ColdReads | None = None,
        receive_buffer_bytes: int = -1,
        tls: TlsSettings | None = None,
    ) -> None:
        self._tls = tls
        self._receive_buffer_bytes = receive_buffer_bytes
        self._cold = cold
        self._limits = limits
        self._settings = settings
        self._memory = memory or RequestMemory(128 * MIB, poison=True)
        self._make_transport = make_transport
        self._host = host
        self._clients: list[socket.socket] = []
        self._client_ports: set[int] = set()
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.service = ScriptedService(self.clock)
        self.failures: list[dict[str, Any]] = []
        self.server: Server
        self.network: SocketNetwork
        self.acceptor: Acceptor
        self.loop: asyncio.AbstractEventLoop

    def run(self, scenario: Scenario) -> None:
        uvloop.run(self._run(scenario))
        if self.failures:
            raise AssertionError(self.failures)

    async def _run(self, scenario: Scenario) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda loop, context: self.failures.append(context))
        self.network = SocketNetwork(
            self.loop,
            clock=self.clock,
            timers=self.timers,
            make_transport=self._make_transport,
            cold=self._cold,
        )
        self.server = Server(
            self.network,
            clock=self.clock,
            timers=self.timers,
            memory=self._memory,
            limits=self._limits,
            settings=self._settings,
        )
        settings = ListenerSettings(
            "PLAINTEXT" if self._tls is None else "SSL",
            self._host,
            0,
            receive_buffer_bytes=self._receive_buffer_bytes,
            security_protocol="PLAINTEXT" if self._tls is None else "SSL",
            tls=self._tls,
        )
        acceptor = self.server.listen(settings, self.service)
        assert isinstance(acceptor, Acceptor)
        self.acceptor = acceptor
        self._take_ours_only(self.acceptor)
        self.server.start()
        try:
            await asyncio.wait_for(scenario(self), 120)
        finally:
            self.server.abort("the test is over")
            for client in self._clients:
                client.close()

    def _take_ours_only(self, acceptor: Acceptor) -> None:
        """Whoever still looks for a server that had this port before is closed unheard."""
        accept = acceptor._on_accept

        def accept_ours(sock: socket.socket, host: str, port: int) -> None:
            if port in self._client_ports:
                accept(sock, host, port)
            else:
                sock.close()

        acceptor._on_accept = accept_ours

    async def connect(self, port: int | None = None, **options: int) -> Client:
        """port: of another listener than the rig's own."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        sock = socket.socket(family)
        for name, value in options.items():
            sock.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        sock.setblocking(False)
        sock.bind((self._host, 0))
        self._client_ports.add(sock.getsockname()[1])
        self._clients.append(sock)
        await self.loop.sock_connect(sock, (self._host, port or self.acceptor.port))
        return Client(self, sock)

    async def until(self, condition: Callable[[], object]) -> None:
        """Lets the loop turn until something is the case; the rig's deadline bounds it."""
        while not condition():
            await asyncio.sleep(0.001)


class Client:
    def __init__(self, rig: NetworkRig, sock: socket.socket) -> None:
        self.rig = rig
        self.sock = sock

    async def send(self, data: bytes) -> None:
        await self.rig.loop.sock_sendall(self.sock, data)

    async def ask(self, text: str, expected: int) -> bytes:
        await self.send(framed(b"\0\1" + text.encode()))
        return await self.receive(expected)

    async def receive(self, count: int) -> bytes:
        """Exactly so many bytes, fewer only at the end of the stream."""
        data = bytearray()
        while len(data) < count:
            part = await self.rig.loop.sock_recv(self.sock, min(count - len(data), 1 << 20))
            if not part:
                break
            data += part
        return bytes(data)

    async def at_end(self) -> bool:
        """Whether the server has closed the connection, waiting for it."""
        try:
            return await self.rig.loop.sock_recv(self.sock, 1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Goes without a goodbye."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()
