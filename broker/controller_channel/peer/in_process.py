"""Requests to a role that runs on the same loop.

The request is encoded, its frame goes through a connection of the other role's dispatcher in a later turn
of the loop, and the answer comes back as bytes and is decoded. It is as over a network, but nothing is lost.
So no call is made from within another one, and the two roles share no object.

A connection serves one request at a time, as all connections do. A request that may wait long (a fetch of the
metadata log) belongs on a channel of its own, so that heartbeats do not wait behind it; channels are cheap.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from broker.controller_channel.peer.calls import Call, Calls, OnResponse
from broker.network.connection import CLOSED, Connection
from broker.network.interfaces import Service
from broker.network.memory import RequestMemory
from broker.network.ready_queue import ReadyQueue
from broker.network.response_pieces import Piece, joined_bytes
from config.limits import MIB
from config.ports import Clock, Timers
from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.framing import decode_response, encode_request_frame
from protocol.peer_channel import PeerError
from protocol.registry import api
from protocol.serving.handler_table import HandlerTable
from protocol.serving.session import Principal, Session

_MAX_FRAME_BYTES: Final = 100 * MIB


class InProcessPeer:
    """Implements `protocol.peer_channel.PeerChannel` for a service on this loop, and is the wire of its
    connection.

    handlers: what the other side serves; requests are sent in its highest version. listener: the name of the
    listener to which the connection seems to belong at the other side.
    """

    def __init__(
        self,
        service: Service,
        handlers: HandlerTable,
        *,
        memory: RequestMemory,
        clock: Clock,
        timers: Timers,
        client_id: str,
        listener: str,
        principal: Principal | None = None,
    ) -> None:
        self._service = service
        self._handlers = handlers
        self._memory = memory
        self._clock = clock
        self._timers = timers
        self._client_id = client_id
        self._session = Session(
            f"in-process-{client_id}", listener, "127.0.0.1", principal or Principal(), is_in_process=True
        )
        self._ready_queue = ReadyQueue(timers.call_soon)
        self._calls = Calls(clock, timers, self._no_answer)
        self._frames: deque[bytes] = deque()
        self._scheduled = False
        self._closed = False
        self._connection = self._connect()

    def send(self, request: Message, on_response: OnResponse, *, timeout_ms: int) -> None:
        """Implements `protocol.peer_channel.PeerChannel`. The answer comes in a later turn, never from within
        this call."""
        key = request.declaration.key
        registration = None if key is None else self._handlers.get(key)
        if key is None or registration is None or self._closed:
            reason = "closed" if self._closed else f"{type(request).__name__} is not served there"
            self._timers.call_soon(lambda: on_response(PeerError(reason)))
            return
        call = self._calls.begin(request, api(key).response, on_response, timeout_ms)
        call.version = registration.max_version
        self._frames.append(encode_request_frame(request, call.version, call.number, self._client_id))
        self._schedule()

    def close_channel(self) -> None:
        """Closes the channel. Requests that are under way fail."""
        self._closed = True
        self._connection.peer_gone("the channel is closed")

    # The wire of the other side's connection

    def send_pieces(self, pieces: list[Piece]) -> None:
        try:
            data = joined_bytes(pieces)
        except OSError as error:  # the disk does not give a part of the metadata log
            self._connection.peer_gone(str(error))
            return
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            frame = data[at + 4 : at + 4 + size]
            at += 4 + size
            self._timers.call_soon(partial(self._deliver, frame))

    def resume(self) -> None:
        self._schedule()

    def connection_closed(self, reason: str) -> None:
        """Fails the requests that are under way, because the other side has closed the connection. The next
        request makes a new one."""
        self._frames.clear()
        self._calls.fail_all(reason)

    def _connect(self) -> Connection:
        connection = Connection(
            self._service,
            _Wire(self),
            self._session,
            memory=self._memory,
            ready_queue=self._ready_queue,
            clock=self._clock,
            timers=self._timers,
            max_frame_bytes=_MAX_FRAME_BYTES,
        )
        connection.touch()
        return connection

    def _schedule(self) -> None:
        if not self._scheduled and self._frames:
            self._scheduled = True
            self._timers.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Gives the other side the next frame, if it takes one."""
        self._scheduled = False
        if self._connection.holds & CLOSED and not self._closed:
            self._connection = self._connect()
        connection = self._connection
        while self._frames and not connection.holds:
            frame = self._frames.popleft()
            at = 0
            while at < len(frame) and not connection.holds:
                space = connection.space()
                count = min(len(space), len(frame) - at)
                space[:count] = frame[at : at + count]
                at += count
                connection.received(count)
            if at < len(frame) and not connection.holds & CLOSED:
                self._frames.appendleft(frame[at:])

    def _deliver(self, frame: bytes) -> None:
        call = self._calls.take(int.from_bytes(frame[:4], "big"))
        if call is None:
            return  # it was given up
        answer: Message | PeerError
        try:
            answer = decode_response(call.cls, call.version, memoryview(frame))[1]
        except ProtocolError as error:
            answer = PeerError(f"the answer cannot be read: {error}")
        call.on_response(answer)

    def _no_answer(self, call: Call) -> None:
        """Closes the connection, as between hosts, because all later answers would wait behind this one."""
        self._connection.peer_gone("no answer in time")
        self._calls.fail_all("no answer in time")


class _Wire:
    """The wire of the connection. It is a class of its own because `InProcessPeer.send` sends requests."""

    __slots__ = ("_peer",)

    def __init__(self, peer: InProcessPeer) -> None:
        self._peer = peer

    def send(self, pieces: list[Piece]) -> None:
        self._peer.send_pieces(pieces)

    def resume(self) -> None:
        self._peer.resume()

    def close(self, reason: str) -> None:
        self._peer.connection_closed(reason)
