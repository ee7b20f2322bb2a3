"""How an embedded broker makes a topic: two requests of Kafka's protocol, written by hand.

The parent's process may hold any `protocol` package of its own, so ours is not imported there. CreateTopics 4
and Metadata 4 are the newest versions in which strings and arrays have lengths of fixed size:

    request    size i32 | api key i16 | version i16 | correlation id i32 | client id string | body
    string     length i16, -1 for null | UTF-8             array    count i32 | items
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Final

CREATE_TOPICS: Final = 19
METADATA: Final = 3
VERSION: Final = 4
LARGEST_ANSWER_BYTES: Final = 16 << 20
LOOK_EVERY_SECONDS: Final = 0.005


class TopicRefused(Exception):
    """The broker did not make the topic; the text is the broker's. ``code`` is Kafka's error code."""

    def __init__(self, name: str, code: int, message: str | None) -> None:
        super().__init__(f"{name}: {message or 'refused'} (error code {code})")
        self.name = name
        self.code = code


def create_topic(
    address: str,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    timeout_seconds: float,
) -> None:
    """Returns when the topic can be written to and read. Raises TopicRefused, OSError and TimeoutError."""
    deadline = time.monotonic() + timeout_seconds
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout_seconds) as connection:
        body = _i32(1) + _text(name) + struct.pack(">ih", partitions, replication_factor) + _i32(0)
        body += _i32(len(config)) + b"".join(_text(key) + _text(value) for key, value in config.items())
        body += _i32(int(timeout_seconds * 1000)) + b"\0"
        code, message = _created(_ask(connection, CREATE_TOPICS, body))
        if code:
            raise TopicRefused(name, code, message)
        wanted = _i32(1) + _text(name) + b"\0"
        while not _can_be_used(_ask(connection, METADATA, wanted)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} was made, but has no leaders after {timeout_seconds} s")
            time.sleep(LOOK_EVERY_SECONDS)


def _ask(connection: socket.socket, api_key: int, body: bytes) -> _Reader:
    request = struct.pack(">hhi", api_key, VERSION, 1) + _text("barnabas-embedded") + body
    connection.sendall(_i32(len(request)) + request)
    size = int.from_bytes(_exactly(connection, 4))
    if size > LARGEST_ANSWER_BYTES:
        raise ConnectionError(f"an answer of {size} bytes to API {api_key}: this is no Kafka broker")
    answer = _Reader(_exactly(connection, size))
    answer.i32()  # correlation id
    answer.i32()  # throttle time
    return answer


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError(
                "the broker closed the connection; if its first listener wants a login (SASL), create topics "
                "with a client"
            )
        data += part
    return bytes(data)


def _created(answer: _Reader) -> tuple[int, str | None]:
    """The error code and the error text of the topic that was created."""
    answer.i32()
    answer.text()
    return answer.i16(), answer.text()


def _can_be_used(answer: _Reader) -> bool:
    """Whether a Metadata response shows the topic and all its partitions without an error."""
    for _ in range(answer.i32()):  # brokers: id, host, port, rack
        answer.i32()
        answer.text()
        answer.i32()
        answer.text()
    answer.text()  # cluster id
    answer.i32()  # controller
    answer.i32()  # one topic
    errors = [answer.i16()]
    answer.text()
    answer.take(1)
    for _ in range(answer.i32()):
        errors.append(answer.i16())
        answer.take(8)  # index, leader
        for _ in range(2):  # replicas, replicas in sync
            answer.take(4 * answer.i32())
    return not any(errors)


class _Reader:
    """Reads the fields of a response, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def i16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def text(self) -> str | None:
        length = self.i16()
        return None if length < 0 else self.take(length).decode()


def _i32(value: int) -> bytes:
    return value.to_bytes(4, signed=True)


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, signed=True) + data
