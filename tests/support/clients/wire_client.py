"""A client of one connection on the house's own message classes: nothing retried, nothing hidden."""

from __future__ import annotations

import socket
import ssl
from itertools import count
from typing import Self, TypeVar

from protocol.codec.message import Message
from protocol.framing import decode_response, encode_request_frame
from protocol.registry import api

M = TypeVar("M", bound=Message)


class ConnectionEnded(Exception):
    """The broker closed the connection where an answer was due."""


class WireClient:
    """``ask`` sends one request and waits for its answer; a deadline bounds each wait."""

    def __init__(
        self,
        address: str,
        *,
        client_id: str | None = "wire",
        timeout_seconds: float = 90,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self.socket = socket.create_connection((host, int(port)), timeout_seconds)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._client_id = client_id
        self._correlation_ids = count(1)

    def send(self, request: Message, version: int) -> int:
        """The correlation id under which the request went out."""
        correlation_id = next(self._correlation_ids)
        self.socket.sendall(encode_request_frame(request, version, correlation_id, self._client_id))
        return correlation_id

    def receive(self) -> bytes:
        """One frame without its size."""
        return self._exactly(int.from_bytes(self._exactly(4)))

    def ask(self, request: Message, version: int) -> Message:
        """The answer of the request's API at that version, decoded to its last byte."""
        correlation_id = self.send(request, version)
        cls = api(request.declaration.key or 0).response
        answered, response = decode_response(cls, version, self.receive())
        if answered != correlation_id:
            raise ValueError(f"the answer to {correlation_id} carries correlation id {answered}")
        return response

    def ask_for(self, cls: type[M], request: Message, version: int) -> M:
        """`ask`, for a reader who wants to see the type of the answer."""
        response = self.ask(request, version)
        if not isinstance(response, cls):
            raise TypeError(f"{cls.__name__} was expected, not {type(response).__name__}")
        return response

    def at_end(self) -> bool:
        """Whether the broker closes the connection, waiting for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise ConnectionEnded(f"{len(data)} of {size} bytes had come")
            data += part
        return bytes(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
