"""The client that moves prebuilt frames where no C compiler is (`load`).

Run as a process of its own, so that its processor time can be told apart::

    python -m tests.performance.raw_client '{"kind": "produce", "port": 9092, ...}'

It prints one JSON object: requests, bytes, seconds, cpu_seconds, latency percentiles
in µs. A producer's sequence (with the checksum that covers it) and a fetch offset are
patched in place. An error in a produce answer makes the run fail.
"""

from __future__ import annotations

import json
import resource
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from protocol.codec.compiler import decode
from protocol.crc import crc32c
from protocol.messages.produce import ProduceResponse
from tests.performance.frames import (
    BATCH_CRC,
    BATCH_SEQUENCE,
    FetchFrame,
    ProduceFrame,
    fetch_frame,
    produce_frame,
)
from tests.performance.load import Load, Outcome

RECEIVE_BYTES: Final = 4 << 20
JOIN_UP_TO_BYTES: Final = 8 << 10
"""Smaller requests leave together in one call: joining copies them."""
_INT: Final = struct.Struct(">i")
_UNSIGNED: Final = struct.Struct(">I")
_LONG: Final = struct.Struct(">q")


class ProduceLane:
    """One connection that produces to its partitions in turn, with a fixed number of requests in flight."""

    def __init__(self, load: Load, lane: int) -> None:
        producer_id = load.producer_id + lane if load.idempotent else -1
        self.frames: list[ProduceFrame] = [
            produce_frame(topic, index, load.request_bytes, load.record_bytes, producer_id, load.acks)
            for topic, _, index in load.partitions_of(lane)
        ]
        self.idempotent = load.idempotent
        self.sequences = [0] * len(self.frames)
        self.turn = 0
        self._error_at = 0
        self._payload_bytes = self.frames[0].batch_bytes

    def next_frames(self, count: int) -> list[bytearray]:
        """The next frames to send; they must have left before the next call."""
        frames = []
        for _ in range(count):
            turn = self.turn
            frame = self.frames[turn]
            self.turn = (turn + 1) % len(self.frames)
            frames.append(self._numbered(turn, frame) if self.idempotent else frame.buffer)
        return frames

    def _numbered(self, turn: int, frame: ProduceFrame) -> bytearray:
        """The frame with its producer's next sequence, and the checksum that covers it."""
        buffer, start = bytearray(frame.buffer), frame.batch_start
        _INT.pack_into(buffer, start + BATCH_SEQUENCE, self.sequences[turn])
        self.sequences[turn] = (self.sequences[turn] + frame.records) & 0x7FFFFFFF
        checked = memoryview(buffer)[start + 21 : start + frame.batch_bytes]
        _UNSIGNED.pack_into(buffer, start + BATCH_CRC, crc32c(checked))
        return buffer

    def check(self, answer: memoryview) -> int:
        """Bytes acknowledged by this answer; raises on an error code.

        The first answer is decoded, and shows where the error code stands in the others.
        """
        if not self._error_at or answer[self._error_at] or answer[self._error_at + 1]:
            partition = decode(ProduceResponse, 12, answer[5:]).responses[0].partition_responses[0]
            if partition.error_code:
                raise RuntimeError(
                    f"produce was refused: error {partition.error_code} {partition.error_message}"
                )
            topic = self.frames[0].topic.encode()
            # Behind the name: one byte for the number of partitions, four for the index.
            self._error_at = bytes(answer).index(topic) + len(topic) + 5
        return self._payload_bytes


class FetchLane:
    """One connection that reads the topic from its start, again and again."""

    def __init__(self, load: Load, lane: int) -> None:
        _, topic_id, index = load.partitions_of(lane)[0]
        self.frame: FetchFrame = fetch_frame(bytes.fromhex(topic_id), index, load.request_bytes)
        batches = max(1, load.request_bytes // load.batch_bytes)
        self.step = batches * load.records_per_batch
        self.end = load.end_offset - self.step
        self.offset = 0

    def next_frames(self, count: int) -> list[bytearray]:
        frames = []
        for _ in range(count):
            buffer = bytearray(self.frame.buffer)
            _LONG.pack_into(buffer, self.frame.offset_position, self.offset)
            frames.append(buffer)
            self.offset += self.step
            if self.offset > self.end:
                self.offset = 0
        return frames

    def check(self, answer: memoryview) -> int:
        return len(answer)


class Connection:
    """One socket with its lane; the answers are cut by their length and counted."""

    def __init__(self, load: Load, lane: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", load.port_of(lane)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lane = ProduceLane(load, lane) if load.kind == "produce" else FetchLane(load, lane)
        self.window = load.in_flight
        self.sent_at: deque[int] = deque()
        self.latencies: list[int] = []
        self.bytes = 0
        self.requests = 0
        self.buffer = bytearray(RECEIVE_BYTES)
        self.view = memoryview(self.buffer)
        self.filled = 0
        self.skip = 0
        self.large = 0

    def fill_window(self) -> None:
        """Send as many requests as are wanting, in one call where the socket takes them."""
        wanting = self.window - len(self.sent_at)
        if wanting <= 0:
            return
        frames = self.lane.next_frames(wanting)
        now = time.perf_counter_ns()
        self.sent_at.extend([now] * wanting)
        if len(frames) > 1 and len(frames[0]) <= JOIN_UP_TO_BYTES:
            self.socket.sendall(b"".join(frames))
            return
        sent = self.socket.sendmsg(frames)
        for frame in frames:
            if sent < len(frame):
                self.socket.sendall(memoryview(frame)[sent:])
            sent = max(0, sent - len(frame))

    def receive(self) -> None:
        """Take what has arrived, and count the answers that are complete."""
        if self.skip:
            self._skip()
            return
        received = self.socket.recv_into(self.view[self.filled :])
        if received == 0:
            raise RuntimeError("the broker closed the connection")
        self.filled += received
        now = time.perf_counter_ns()
        position = 0
        while self.filled - position >= 4:
            size = _INT.unpack_from(self.buffer, position)[0]
            if self.filled - position - 4 < size:
                break
            self._count(self.lane.check(self.view[position + 4 : position + 4 + size]), now)
            position += 4 + size
        rest = self.filled - position
        if rest >= 4 and (size := _INT.unpack_from(self.buffer, position)[0]) + 4 > RECEIVE_BYTES // 2:
            # A large answer: what is still to come is received and forgotten.
            self.skip, self.large = size + 4 - rest, size
            rest = 0
        elif rest:
            self.buffer[:rest] = self.buffer[position : self.filled]
        self.filled = rest

    def _skip(self) -> None:
        received = self.socket.recv_into(self.view, min(self.skip, RECEIVE_BYTES))
        if received == 0:
            raise RuntimeError("the broker closed the connection")
        self.skip -= received
        if self.skip == 0:
            self._count(self.large, time.perf_counter_ns())

    def _count(self, size_bytes: int, now: int) -> None:
        self.latencies.append(now - self.sent_at.popleft())
        self.requests += 1
        self.bytes += size_bytes


def run(load: Load) -> Outcome:
    """Keep every connection's window full until the time is over."""
    if load.in_session:
        raise RuntimeError("fetches in a session want the C client, and so a C compiler")
    connections = [Connection(load, lane) for lane in range(load.connections)]
    cpu = _cpu_seconds()
    began = time.perf_counter()
    deadline = began + load.seconds
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.fill_window()
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while time.perf_counter() < deadline and sum(each.bytes for each in connections) < load.max_bytes:
            for key, _ in selector.select(timeout=1):
                connection = key.data
                connection.receive()
                connection.fill_window()
    seconds = time.perf_counter() - began
    latencies = sorted(latency for connection in connections for latency in connection.latencies)
    for connection in connections:
        connection.socket.close()
    return Outcome(
        sum(connection.requests for connection in connections),
        sum(connection.bytes for connection in connections),
        seconds,
        _cpu_seconds() - cpu,
        percentiles(latencies),
    )


def percentiles(latencies_ns: Sequence[int]) -> dict[str, float]:
    """p50 and p99 in µs of sorted latencies."""
    if not latencies_ns:
        return {}
    last = len(latencies_ns) - 1
    return {name: latencies_ns[round(last * share)] / 1000 for name, share in (("p50", 0.5), ("p99", 0.99))}


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(arguments: Sequence[str]) -> int:
    given: dict[str, Any] = json.loads(arguments[0])
    print(json.dumps(asdict(run(Load(**given)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
