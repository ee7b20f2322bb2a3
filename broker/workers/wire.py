"""What passes between a broker and its workers: a kind of one byte, a length of four (big endian), a body.

    broker → worker    ORDER      one at a time: an encoded `Order`
    worker → broker    LINE …     any number, text for the log
                       RESULT     exactly one of these two per order: an encoded result,
                       FAILURE    or the reason, as text

The threads that wait for a worker handle bytes only. Plans and results are encoded and decoded by whoever
made the order: msgspec builds what it knows of a class when the class is first met, and two threads that
meet it at the same moment can end the process.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

ORDER: Final = b"O"
LINE: Final = b"L"
RESULT: Final = b"R"
FAILURE: Final = b"F"

_HEAD_BYTES: Final = 5
_LARGEST_BYTES: Final = 1 << 30


class Order(msgspec.Struct, frozen=True):
    """job: its name. plan: its plan, encoded. bytes_per_second: 0 for no limit."""

    job: str
    plan: bytes
    bytes_per_second: float


class PipeClosed(Exception):
    """The other side has gone."""


def write(descriptor: int, kind: bytes, body: bytes) -> None:
    """Blocks until all has been taken. Raises PipeClosed."""
    data = memoryview(kind + len(body).to_bytes(4, "big") + body)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError as error:
        raise PipeClosed from error


def read(descriptor: int) -> tuple[bytes, bytes]:
    """(kind, body). Blocks. Raises PipeClosed."""
    head = _read_exactly(descriptor, _HEAD_BYTES)
    size = int.from_bytes(head[1:], "big")
    if size > _LARGEST_BYTES:
        raise PipeClosed(f"a message of {size} bytes")
    return head[:1], _read_exactly(descriptor, size)


def _read_exactly(descriptor: int, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        part = os.read(descriptor, size_bytes - len(data))
        if not part:
            raise PipeClosed("end of the stream")
        data += part
    return bytes(data)
