"""As much of HTTP as the admin port takes: one GET or HEAD per connection, an answer, the end.

Everything is bounded: the head of a request, the time it may take to arrive, the connections at once, and
what waits to be sent (a portion is made when the one before it has left).
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, AbstractServer, BaseTransport, Protocol, Task, TimerHandle, Transport
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final, cast

from broker.admin.pages import Page, Pages
from config.limits import ADMIN_CONNECTIONS, ADMIN_REQUEST_BYTES
from config.listeners import address_text

_log = logging.getLogger("barnabas.admin")

_REQUEST_TIME_S: Final = 30
_CRLF: Final = "\r\n"
_PLAIN: Final = "text/plain; charset=utf-8"


class AdminServer:
    """`open`, or `await start()`, after which `port` is known; `close()` ends it with its connections."""

    def __init__(self, loop: AbstractEventLoop, pages: Pages) -> None:
        self.port = 0
        self._loop = loop
        self._pages = pages
        self._server: AbstractServer | None = None
        self._opening: Task[None] | None = None
        self._open: set[AdminConnection] = set()

    def open(self, host: str, port: int) -> None:
        """Begins to listen; the log says where, or why not."""
        self._opening = self._loop.create_task(self._open_port(host, port))

    async def _open_port(self, host: str, port: int) -> None:
        try:
            await self.start(host, port)
            _log.info("Metrics and health at http://%s/", address_text(host, self.port))
        except OSError as error:
            _log.warning(
                "No metrics and health at %s (barnabas.admin.listener): %s",
                address_text(host, port),
                error.strerror,
            )

    async def start(self, host: str, port: int) -> None:
        """Listens on the address. Raises OSError when it cannot be bound."""
        server = await self._loop.create_server(self._connection, host, port)
        self._server = server
        self.port = int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._open):
            connection.abort()

    def _connection(self) -> AdminConnection:
        return AdminConnection(self._loop, self._pages, self._open)


class AdminConnection(Protocol):
    """One connection, which carries one request and its answer."""

    def __init__(self, loop: AbstractEventLoop, pages: Pages, connections: set[AdminConnection]) -> None:
        self._loop = loop
        self._pages = pages
        self._open = connections
        self._head = bytearray()
        self._transport: Transport | None = None
        self._rest: Iterator[bytes] | None = None
        self._paused = False
        self._chunked = False
        self._deadline: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        if len(self._open) >= ADMIN_CONNECTIONS:
            self._transport.abort()
            return
        self._open.add(self)
        self._deadline = self._loop.call_later(_REQUEST_TIME_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._transport = self._rest = None
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._rest is not None:
            return  # the request was answered; further bytes are ignored
        self._head += data[: ADMIN_REQUEST_BYTES + 1]
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > ADMIN_REQUEST_BYTES:
                self._answer(Page(431, _PLAIN, (b"The request's head is too long.\n",)), True)
            return
        line = bytes(self._head[:end]).split(b"\r\n", 1)[0]
        method, _, target = line.partition(b" ")
        self._chunked = method == b"GET" and line.endswith(b" HTTP/1.1")
        path = target.split(b" ")[0].split(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            self._answer(Page(405, _PLAIN, (b"Only GET and HEAD.\n",)), True)
            return
        self._answer(self._page(path), method == b"GET")

    def eof_received(self) -> bool:
        """The client says no more. Returns whether it still gets an answer: the connection stays open until
        that has been sent."""
        if self._rest is None:
            self.abort()
        return self._rest is not None

    def _page(self, path: str) -> Page:
        try:
            return self._pages.page(path)
        except Exception:
            _log.exception("The page %s failed", path[:100])
            return Page(500, _PLAIN, (b"The page failed; the log says why.\n",))

    def _answer(self, page: Page, with_body: bool) -> None:
        status = HTTPStatus(page.status)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            "Cache-Control: no-store\r\n"
            f"{'Transfer-Encoding: chunked' + _CRLF if self._chunked else ''}"
            "Connection: close\r\n\r\n"
        )
        self._rest = iter(page.portions if with_body else ())
        if self._transport is not None:
            self._transport.write(head.encode())
            self._go_on()

    def _go_on(self) -> None:
        """Sends one portion of the answer per turn of the loop, so that a long answer delays no client."""
        if self._transport is None or self._rest is None or self._paused:
            return
        try:
            portion = next(self._rest, None)
        except Exception:
            _log.exception("An answer of the admin port broke off")
            self.abort()  # without the last chunk, so that half an answer does not look like a whole one
            return
        if portion is None:
            if self._chunked:
                self._transport.write(b"0\r\n\r\n")
            self._transport.close()
            return
        self._transport.write(b"%x\r\n%b\r\n" % (len(portion), portion) if self._chunked else portion)
        self._loop.call_soon(self._go_on)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._loop.call_soon(self._go_on)
