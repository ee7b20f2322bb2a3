"""A connection without a network: a wire that keeps what it is given, a service that a test scripts."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.dispatch.lane import Lane
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer
from broker.network.memory import RequestMemory
from broker.network.ready_queue import ReadyQueue
from broker.network.response_pieces import BYTES_LIKE, Piece, release_pieces
from protocol.serving.pending import CloseConnection
from protocol.serving.session import Session
from tests.support.rigs.hand_clock import HandClock, HandTimers

KIB = 1024
MIB = 1024 * KIB


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def produce(text: str) -> bytes:
    """A frame that begins as a Produce request does."""
    return framed(b"\0\0" + text.encode())


def other(text: str) -> bytes:
    """A frame that begins as some other request does."""
    return framed(b"\0\x01" + text.encode())


@dataclass
class RecordingWire:
    sends: list[bytes] = field(default_factory=list)
    closed: str | None = None
    resumed: int = 0

    def send(self, pieces: list[Piece]) -> None:
        self.sends.append(b"".join(bytes(p) if isinstance(p, BYTES_LIKE) else p.read() for p in pieces))
        release_pieces(pieces)

    def resume(self) -> None:
        self.resumed += 1

    def close(self, reason: str) -> None:
        self.closed = reason

    @property
    def sent(self) -> bytes:
        return b"".join(self.sends)


class RecordingAnswer(DelayedAnswer):
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedService:
    """Answers `text!` to a request `text`; what begins with `wait` is answered when the test says so."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.requests: list[str] = []
        self.waiting: dict[str, RecordingAnswer] = {}
        self.complaints: list[str] = []
        self.may_fail = False
        self.failures = 0
        self.cost_ms = 0.0
        self.during: Callable[[str], None] = lambda text: None
        self.answer_bytes = 0
        self.held_bytes = 0

    def serve(
        self, connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        text = bytes(frame[2:]).decode()
        self.requests.append(text)
        self.clock.move(self.cost_ms)
        connection.now_ns = self.clock.monotonic_ns()
        self.during(text)
        if text.startswith("wait"):
            self.waiting[text] = answer = RecordingAnswer(connection, bytes(frame[:2]) == b"\0\0")
            answer.held_bytes = self.held_bytes
            return answer
        if text.startswith("close"):
            raise CloseConnection("told to")
        if text.startswith("none"):
            return None
        return [f"{text}!".encode() + b"." * self.answer_bytes]

    def answer(self, text: str) -> None:
        self.waiting.pop(text).complete([f"{text}!".encode()])

    def sent(self, connection: Connection) -> None:
        pass

    def malformed(self, connection: Connection, reason: str) -> None:
        self.complaints.append(reason)

    def failed(self, connection: Connection) -> None:
        if not self.may_fail:
            raise  # what is being handled: no test fails in silence
        self.failures += 1


class Rig:
    """One connection and all that it needs. The scratch buffer is overwritten after each turn."""

    def __init__(
        self, *, memory: RequestMemory | None = None, max_frame_bytes: int = 64 * MIB, poison: bool = True
    ) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.memory = memory or RequestMemory(128 * MIB, scratch_bytes=64 * KIB, poison=poison)
        self.lane = Lane(clock=self.clock, timers=self.timers, memory=self.memory)
        self.service = ScriptedService(self.clock)
        self.wire = RecordingWire()
        self.ready_queue = ReadyQueue(self.timers.call_soon)
        self.max_frame_bytes = max_frame_bytes
        self.connection = self.another()

    def another(self, wire: RecordingWire | None = None) -> Connection:
        return Connection(
            self.service,
            wire or self.wire,
            Session("test", "PLAINTEXT", "127.0.0.1"),
            memory=self.memory,
            ready_queue=self.ready_queue,
            clock=self.clock,
            timers=self.timers,
            max_frame_bytes=self.max_frame_bytes,
        )

    def feed(self, data: bytes, connection: Connection | None = None) -> int:
        """Gives what the connection takes, as a socket does; tells how much it took."""
        connection = connection or self.connection
        at = 0
        while at < len(data) and not connection.holds:
            space = connection.space()
            count = min(len(space), len(data) - at)
            space[:count] = data[at : at + count]
            connection.received(count)
            at += count
        return at
