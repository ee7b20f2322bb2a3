"""What stands between a socket and its connection: nothing for plaintext, a filter for everything else.

A transport looks like the socket's own `recv_into` and `send`, non-blocking and raising what a socket raises.
For plaintext these *are* the socket's methods, bound once: the way through costs nothing. A filter (TLS over
`ssl.MemoryBIO`) puts functions of its own there, reads and writes the socket underneath, and says that files
cannot be sent past it. It must raise BlockingIOError while it can give no plaintext, and return 0 at the end.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview


class Transport(NamedTuple):
    """receive: fills a buffer, 0 at the end of the stream. send: (data, flags) to the bytes taken."""

    descriptor: int
    receive: Callable[[memoryview], int]
    send: Callable[[BytesLike, int], int]
    sends_files: bool


def plain(sock: socket.socket) -> Transport:
    """The socket itself."""
    return Transport(sock.fileno(), sock.recv_into, sock.send, True)
