"""What passes between a broker and its workers: msgpack behind a length of four bytes (big endian).

broker → worker    Order      one at a time
worker → broker    Line …     any number, for the log
                   Outcome    exactly one per order
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

_LENGTH_BYTES: Final = 4
_LARGEST_BYTES: Final = 1 << 30


class Order(msgspec.Struct, frozen=True):
    """job: its name. plan: its plan, encoded. bytes_per_second: 0 for no limit."""

    job: str
    plan: bytes
    bytes_per_second: float


class Line(msgspec.Struct, frozen=True, tag=True):
    text: str


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """result: encoded, or None with the reason in `failure`."""

    result: bytes | None
    failure: str = ""


Reply = Line | Outcome


class PipeClosed(Exception):
    """The other side has gone."""


def write(descriptor: int, message: msgspec.Struct) -> None:
    """Blocks until all has been taken. Raises PipeClosed."""
    body = msgspec.msgpack.encode(message)
    data = memoryview(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError as error:
        raise PipeClosed from error


def read_order(descriptor: int) -> Order:
    """Blocks. Raises PipeClosed."""
    return msgspec.msgpack.decode(_read_frame(descriptor), type=Order)


def read_reply(descriptor: int) -> Reply:
    """Blocks. Raises PipeClosed."""
    reply: Reply = msgspec.msgpack.decode(_read_frame(descriptor), type=Line | Outcome)
    return reply


def _read_frame(descriptor: int) -> bytes:
    size = int.from_bytes(_read_exactly(descriptor, _LENGTH_BYTES), "big")
    if size > _LARGEST_BYTES:
        raise PipeClosed(f"a message of {size} bytes")
    return _read_exactly(descriptor, size)


def _read_exactly(descriptor: int, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        part = os.read(descriptor, size_bytes - len(data))
        if not part:
            raise PipeClosed("end of the stream")
        data += part
    return bytes(data)
