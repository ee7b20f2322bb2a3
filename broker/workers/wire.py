"""What passes between a node and a child process: a kind of one byte, a length of four (big endian), a body.

    node → child    ORDER      one at a time: what it shall do, encoded
    child → node    LINE …     any number, text for the log
                    RESULT     exactly one of these two per order: the result, encoded,
                    FAILURE    or the reason, as text

How orders and results are encoded is a matter of each kind of child: workers take msgpack, policies take
JSON. The threads that wait for a child handle bytes only.

This module imports nothing of ours: the policies' process, on whose path nothing of ours lies, loads it from
its file.
"""

from __future__ import annotations

import os
from typing import Final

ORDER: Final = b"O"
LINE: Final = b"L"
RESULT: Final = b"R"
FAILURE: Final = b"F"

_HEAD_BYTES: Final = 5
LARGEST_BYTES: Final = 1 << 30


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


def read(descriptor: int, largest_bytes: int = LARGEST_BYTES) -> tuple[bytes, bytes]:
    """Reads a message and returns its kind and body. Blocks. Raises PipeClosed, also for a body that is
    announced larger than allowed."""
    head = _read_exactly(descriptor, _HEAD_BYTES)
    size = int.from_bytes(head[1:], "big")
    if size > largest_bytes:
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
