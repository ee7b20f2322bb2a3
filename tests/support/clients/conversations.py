"""Many conversations with a broker over a few connections, driven from one thread.

A conversation is a generator: it yields an `Ask` and is sent the answer, or a `Pause`. It has one request
under way at a time; those that share a connection are pipelined on it, and the broker answers in their order.
The requests are the house's own messages, so both brokers are asked by the same client, at the same cost.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Final, NamedTuple

from protocol.codec.message import Message
from protocol.framing import decode_response, encode_request_frame
from protocol.registry import api

__all__ = ["Ask", "Conversation", "Pause", "Took", "converse"]

RECEIVE_BYTES: Final = 1 << 20
CONNECT_SECONDS: Final = 30


class Ask(NamedTuple):
    request: Message
    version: int


class Pause(NamedTuple):
    seconds: float


Conversation = Generator[Ask | Pause, Message | None, None]


class Took(NamedTuple):
    """Seconds of wall time, and of the client's processor time."""

    seconds: float
    client_seconds: float


class Line:
    """One connection, and who waits for an answer on it, in order."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: deque[tuple[Conversation, Ask]] = deque()
        self._outgoing: list[bytes] = []
        self._incoming = bytearray()
        self._correlation_ids = count(1)

    def put(self, conversation: Conversation, ask: Ask) -> None:
        """It leaves with the next `flush`."""
        frame = encode_request_frame(ask.request, ask.version, next(self._correlation_ids), "conversations")
        self._outgoing.append(frame)
        self._waiting.append((conversation, ask))

    def flush(self) -> None:
        if self._outgoing:
            self.socket.sendall(b"".join(self._outgoing))
            self._outgoing.clear()

    def answers(self) -> list[tuple[Conversation, Message]]:
        """Those that have come; waits for one byte at least. Raises RuntimeError if the broker hung up."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise RuntimeError("the broker closed the connection")
        incoming = self._incoming
        incoming += data
        found = []
        at = 0
        while len(incoming) >= at + 4:
            end = at + 4 + int.from_bytes(incoming[at : at + 4])
            if end > len(incoming):
                break
            conversation, ask = self._waiting.popleft()
            cls = api(ask.request.declaration.key or 0).response
            found.append((conversation, decode_response(cls, ask.version, bytes(incoming[at + 4 : end]))[1]))
            at = end
        del incoming[:at]
        return found


class Talk:
    """All conversations of one run."""

    def __init__(self, port: int, shared: Sequence[Sequence[Conversation]]) -> None:
        self.lines = [Line(port) for _ in shared]
        self._line_of = {
            conversation: line
            for line, conversations in zip(self.lines, shared, strict=True)
            for conversation in conversations
        }
        self._pauses: list[tuple[float, int, Conversation]] = []
        self._numbers = count()
        self.under_way = len(self._line_of)

    def begin(self) -> None:
        for conversation in self._line_of:
            self.go_on(conversation, None)

    def go_on(self, conversation: Conversation, answer: Message | None) -> None:
        try:
            wanted = conversation.send(answer)
        except StopIteration:
            self.under_way -= 1
            return
        if isinstance(wanted, Ask):
            self._line_of[conversation].put(conversation, wanted)
        else:
            due = time.perf_counter() + wanted.seconds
            heapq.heappush(self._pauses, (due, next(self._numbers), conversation))

    def end_pauses(self) -> float:
        """Seconds until the next pause ends, at most one."""
        while self._pauses:
            left = self._pauses[0][0] - time.perf_counter()
            if left > 0:
                return min(left, 1.0)
            self.go_on(heapq.heappop(self._pauses)[2], None)
        return 1.0

    def close(self) -> None:
        for line in self.lines:
            line.socket.close()


def converse(
    port: int,
    shared: Sequence[Sequence[Conversation]],
    seconds: float,
    is_over: Callable[[], bool] = lambda: False,
) -> Took:
    """Until all have ended, the seconds are over or somebody says so. shared: by connection."""
    talk = Talk(port, shared)
    began, spent = time.perf_counter(), time.process_time()
    try:
        with selectors.DefaultSelector() as selector:
            for line in talk.lines:
                selector.register(line.socket, selectors.EVENT_READ, line)
            talk.begin()
            while talk.under_way and time.perf_counter() - began < seconds and not is_over():
                patience = talk.end_pauses()
                for line in talk.lines:
                    line.flush()
                for key, _ in selector.select(patience):
                    for conversation, answer in key.data.answers():
                        talk.go_on(conversation, answer)
        return Took(time.perf_counter() - began, time.process_time() - spent)
    finally:
        talk.close()
