"""A TCP proxy that keeps what passes through it: frames of Kafka's protocol, each with its answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import NamedTuple


class Exchange(NamedTuple):
    """One request and its answer (None: there was none), without their sizes; and who was at work."""

    label: str
    request: bytes
    response: bytes | None


class _Connection:
    def __init__(self, label: str) -> None:
        self.label = label
        self.sent = bytearray()
        self.received = bytearray()


class RecordingProxy:
    """Listens on a port of the kernel's choice; `target` may be set later, before the first client."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.target: tuple[str, int] | None = None
        self._connections: list[_Connection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target or ("127.0.0.1", 1))
            except OSError:
                client.close()
                continue
            connection = _Connection(self.label)
            self._connections.append(connection)
            for source, sink, kept in (
                (client, server, connection.sent),
                (server, client, connection.received),
            ):
                threading.Thread(target=_pump, args=(source, sink, kept), daemon=True).start()

    def exchanges(self) -> list[Exchange]:
        """What has passed so far. Answers come in the order of their requests; Produce may have none."""
        found: list[Exchange] = []
        for connection in list(self._connections):
            answers = {frame[:4]: frame for frame in frames(bytes(connection.received))}
            sent = frames(bytes(connection.sent))
            found += [Exchange(connection.label, each, answers.get(each[4:8])) for each in sent]
        return found


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            kept += piece
            sink.sendall(piece)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def frames(stream: bytes) -> list[bytes]:
    """The whole frames at the start of a stream, without their sizes."""
    found, position = [], 0
    while position + 4 <= len(stream):
        size = int.from_bytes(stream[position : position + 4])
        if position + 4 + size > len(stream):
            break
        found.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return found
