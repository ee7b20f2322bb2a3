"""The options of accepted sockets, among them two that decide what a large answer costs.

BBR paces a connection at the rate that it finds. Between machines that keeps queues short; on one machine
there is no queue in between, and each packet that a timer holds back finds the reader asleep and has to wake
it. So a connection from this machine gets a congestion control that does not pace, where the kernel's is BBR:
answers of 1 MB cost a third less processor time, on eight connections half, and come half as fast again.

A long send buffer does no good either: under BBR its bytes only wait, and on one machine they have left the
processor's caches before the reader comes to them, which makes the reader dearer than the broker.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

from config.limits import KIB
from protocol.serving.session import plain_host

__all__ = ["SHORT_SEND_BUFFER_BYTES", "SocketOptions"]

SHORT_SEND_BUFFER_BYTES: Final = 192 * KIB
"""About twice what Apache Kafka sets everywhere."""

_PACED: Final = frozenset({b"bbr", b"bbr2", b"bbr3"})
_UNPACED: Final = b"reno"
"""Every kernel has it, and allows it to everybody unless its administrator has taken it from the list."""


class SocketOptions:
    """send_buffer_bytes: as in `ListenerSettings`."""

    __slots__ = ("_is_paced", "_send_buffer_bytes")

    def __init__(self, listening: socket.socket, send_buffer_bytes: int | None) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._is_paced = _congestion_control(listening) in _PACED

    def apply(self, sock: socket.socket, host: str) -> None:
        """Sets the options of a connection from `host`, as `plain_host` writes it. Raises OSError."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        is_from_here = plain_host(sock.getsockname()[0]) == host
        if is_from_here and self._is_paced:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
        size_bytes = self._send_buffer_bytes
        if size_bytes is None and (is_from_here or self._is_paced):
            size_bytes = SHORT_SEND_BUFFER_BYTES
        if size_bytes is not None and size_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size_bytes)


def _congestion_control(sock: socket.socket) -> bytes:
    """Its name; empty where the system tells none."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    except (AttributeError, OSError):
        return b""
