"""The process behind ``latency``: a producer at a fixed rate, a consumer in long poll.

Both move raw frames. The batch is prebuilt, and an answer to the consumer that carries
records closes all open measurements, so that nothing has to be decoded. Company: one
greedy connection that fetches a large topic without pause, and a slow one that asks for
it and reads the answer in small sips.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from typing import Any, Final

from tests.performance.frames import fetch_frame, produce_frame
from tests.performance.raw_client import percentiles

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
EMPTY_ANSWER_BYTES: Final = 160
"""An answer of a single-partition fetch that is longer than this has records in it."""


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def answer(connection: socket.socket, buffer: memoryview) -> int:
    """Read one whole answer and forget it; its size."""
    head = connection.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise RuntimeError("the broker closed the connection")
    left = size = _INT.unpack(head)[0]
    while left:
        got = connection.recv_into(buffer, min(left, len(buffer)))
        if got == 0:
            raise RuntimeError("the broker closed the connection")
        left -= got
    return int(size)


def consume(plan: dict[str, Any], sent: list[int], latencies: list[int], count: int) -> None:
    connection = connect(plan["port"])
    buffer = memoryview(bytearray(1 << 20))
    frame = fetch_frame(bytes.fromhex(plan["topic_id"]), 0, 1 << 20)
    offset = 0
    while len(latencies) < count:
        _LONG.pack_into(frame.buffer, frame.offset_position, offset)
        connection.sendall(frame.buffer)
        if answer(connection, buffer) > EMPTY_ANSWER_BYTES:
            now = time.perf_counter_ns()
            arrived = len(sent)
            latencies += [now - sent[index] for index in range(offset, arrived)]
            offset = arrived


def fill_noise(plan: dict[str, Any]) -> int:
    """200 MB for the company to read; the next offset."""
    connection = connect(plan["port"])
    buffer = memoryview(bytearray(1 << 16))
    frame = produce_frame(plan["noise"], 0, 1 << 19, 1000)
    for _ in range(400):
        connection.sendall(frame.buffer)
        answer(connection, buffer)
    connection.close()
    return 400 * frame.records


def greedy(plan: dict[str, Any], stop: threading.Event) -> None:
    connection = connect(plan["port"])
    buffer = memoryview(bytearray(8 << 20))
    frame = fetch_frame(bytes.fromhex(plan["noise_id"]), 0, 8 << 20)
    _LONG.pack_into(frame.buffer, frame.offset_position, 0)
    while not stop.is_set():
        connection.sendall(frame.buffer)
        answer(connection, buffer)


def slow(plan: dict[str, Any], stop: threading.Event) -> None:
    connection = connect(plan["port"])
    frame = fetch_frame(bytes.fromhex(plan["noise_id"]), 0, 50 << 20)
    _LONG.pack_into(frame.buffer, frame.offset_position, 0)
    connection.sendall(frame.buffer)
    while not stop.is_set():
        connection.recv(4096)
        time.sleep(0.01)


def main() -> int:
    plan = json.loads(sys.argv[1])
    stop = threading.Event()
    if plan["noise"]:
        fill_noise(plan)
        for company in (greedy, slow):
            threading.Thread(target=company, args=(plan, stop), daemon=True).start()
        time.sleep(0.5)
    sent: list[int] = []
    latencies: list[int] = []
    count = int(plan["rate"] * plan["seconds"])
    consumer = threading.Thread(target=consume, args=(plan, sent, latencies, count))
    consumer.start()
    time.sleep(0.3)
    connection = connect(plan["port"])
    buffer = memoryview(bytearray(1 << 16))
    frame = produce_frame(plan["topic"], 0, 100, 100)
    began = time.perf_counter()
    for number in range(count):
        delay = began + number / plan["rate"] - time.perf_counter()
        if delay > 0:
            time.sleep(delay)
        sent.append(time.perf_counter_ns())
        connection.sendall(frame.buffer)
        answer(connection, buffer)
    consumer.join(30)
    stop.set()
    print(json.dumps(percentiles(sorted(latencies[20:]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
