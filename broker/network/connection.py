"""A connection without a socket: bytes in, requests to a service in order, answers out in order.

The wire below (a socket, a peer in the same process, a simulator) asks `space` where to put bytes and says
`received`; complete frames are handed to the service as views; answers go to `Wire.send`, several at a time.

**Order.** As in Kafka one request of a connection runs at a time: the next one begins when the answer to the
last one is known. Only Produce requests may wait together, at most 16 and one after the other, because an
append is done when its handler returns and merely its acknowledgement is outstanding. Answers leave in the
order of the requests.

**Holds.** Everything that keeps the next request from being begun is a bit in `holds`: an answer that is
awaited, a throttle, an output queue that is too long, a turn that is over, a frame that waits for memory, a
server that is going down, an authentication that has failed, a peer that has sent its last byte. While any
bit is set nothing is parsed and the wire does not read; when the last one is cleared, parsing goes on from
the kept tail without a new read.

**Fast lanes.** A request that is like an earlier one may be answered by a fast lane (`broker.fast_lane`). The
lane of its API is asked first; what it declines is served. While earlier requests wait for their answers only
the lane of Produce is asked.

**Turns.** A turn ends after 64 requests, 2 ms or 1 MiB of answers; the rest follows through the ready queue.

**Faults.** What is raised in here, or comes through from the service, is a fault of ours. It ends this
connection and nobody else's turn; only an `EndsProcess` goes on to the loop.

**Views.** A frame is a view into the scratch buffer, valid until the service returns. What is kept from one
turn to the next is a copy: the tail, or the large frame. Both are writable, because the log patches offset
and epoch of a batch in place.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from broker.network.interfaces import DelayedAnswer, FastLane, Service, Wire
from broker.network.large_frame import AwaitedFrame, LargeFrame
from broker.network.memory import SILENT_MS, RequestMemory
from broker.network.ready_queue import ReadyQueue
from broker.network.response_pieces import BYTES_LIKE, Piece, release_pieces
from config.limits import (
    SMALL_FRAME_BYTES,
    TURN_MS,
    TURN_REQUESTS,
    TURN_SENT_BYTES,
    WAITING_PRODUCE_BYTES,
    WAITING_PRODUCE_PER_CONNECTION,
)
from config.ports import Clock, Timer, Timers
from protocol.errors import EndsProcess
from protocol.serving.pending import CloseConnection
from protocol.serving.session import Principal, Session

# The bits of `Connection.holds`, each a reason for which no further request may begin.

AWAITS_ANSWER: Final = 1
"""A request is being answered, and the next one may not wait beside it."""
MUTED: Final = 2
"""The client is throttled (KIP-219)."""
OUTPUT_FULL: Final = 4
"""The peer does not take its answers, and the output queue is too long."""
TURN_OVER: Final = 8
"""This turn has done enough; the rest follows through the ready queue."""
AWAITS_MEMORY: Final = 16
"""A large frame waits for room in the memory pool."""
DRAINING: Final = 32
"""The server is shutting down, or the client has failed to authenticate."""
CLOSED: Final = 64
"""The connection is closed."""
FINISHED: Final = 128
"""The peer has sent its last byte, and some of its requests are still being answered."""

_TLS_HANDSHAKE: Final = 0x1603
"""How the first record of TLS begins: its kind, and the older half of its version."""

_TURN_NS: Final = TURN_MS * 1_000_000
_read_size: Final = Struct(">i").unpack_from


class Connection:
    """One connection, as the head of this module describes it.

    holds: the reasons for which no request may begin, as the bits above; 0 when there is none.

    now_ns: when the connection was last active, in monotonic nanoseconds.

    received_bytes: all bytes that ever arrived.

    turn_began_ns: when the bytes that are handled now had arrived.

    last_served: belongs to the service; nobody else reads it.
    """

    __slots__ = (
        "_asks_again",
        "_begun_at",
        "_clock",
        "_is_queued",
        "_lanes",
        "_large",
        "_memory",
        "_mute",
        "_muted_until_ms",
        "_out",
        "_ready_queue",
        "_serve",
        "_service",
        "_tail",
        "_tail_at",
        "_timers",
        "_waiting",
        "_waiting_bytes",
        "_wire",
        "holds",
        "last_served",
        "max_frame_bytes",
        "now_ns",
        "received_bytes",
        "session",
        "turn_began_ns",
    )

    def __init__(
        self,
        service: Service,
        wire: Wire,
        session: Session,
        *,
        memory: RequestMemory,
        ready_queue: ReadyQueue,
        clock: Clock,
        timers: Timers,
        max_frame_bytes: int,
    ) -> None:
        self.session = session
        self.last_served: Any = None
        self.turn_began_ns = 0
        self.max_frame_bytes = max_frame_bytes
        self.holds = 0
        self.now_ns = 0
        self.received_bytes = 0
        self._service = service
        self._serve = service.serve
        self._wire = wire
        self._memory = memory
        self._ready_queue = ready_queue
        self._clock = clock
        self._timers = timers
        self._is_queued = False
        self._asks_again = False
        self._lanes: dict[int, FastLane] | None = None
        self._tail: bytearray | memoryview | None = None
        self._tail_at = 0
        self._begun_at = 0
        self._large: LargeFrame | AwaitedFrame | None = None
        self._waiting: list[DelayedAnswer] = []
        self._waiting_bytes = 0
        self._out: list[Piece] = []
        self._mute: Timer | None = None
        self._muted_until_ms = 0

    # What the wire calls

    def space(self) -> memoryview:
        """The buffer into which the wire puts the next bytes. It is valid until `received` is called, and may
        be asked for only while `holds` is 0."""
        large = self._large
        if large is not None:
            return large.space()
        tail = self._tail
        if tail is None:
            self._begun_at = 0
            return self._memory.space
        size = len(tail) - self._tail_at
        self._memory.view[:size] = memoryview(tail)[self._tail_at :]
        self._begun_at = size
        return self._memory.space_after(size)

    def received(self, count: int) -> None:
        """Handles the complete requests after the wire has put `count` bytes into `space`."""
        try:
            self.received_bytes += count
            large = self._large
            if large is not None and self._received_large(large, count):
                return
            memory = self._memory
            end = self._begun_at + count
            if self._tail is not None:
                self._tail = None
                memory.hold(self, 0)
            at = self._parse(memory.view, 0, end)
            if at != end and not self.holds & CLOSED:
                self._keep(memory.view[at:end])
            self._flush()
            if memory.poison:
                memory.overwrite()
        except EndsProcess:
            raise
        except Exception:
            self.failed()

    def _received_large(self, large: LargeFrame | AwaitedFrame, count: int) -> bool:
        """What arrived in a buffer of its own. False if it lies in the scratch buffer after all."""
        if isinstance(large, AwaitedFrame):
            self._large = None
            if large.buffer is None:
                self._begun_at = 0
                return False
            self._received_awaited(large, memoryview(large.buffer)[:count])
            return True
        large.filled_bytes += count
        if large.complete:
            self._large = None
            self._tail, self._tail_at = large.frame, 0
            self._parse_tail()
            if self._tail is None and not self.holds & CLOSED:
                self._memory.give_back(large.buffer)
                self._large = AwaitedFrame(self._memory, self, large.size_bytes)
            self._flush()
        else:
            self.now_ns = self._clock.monotonic_ns()
            self._await_room(large)
        return True

    def _received_awaited(self, awaited: AwaitedFrame, view: memoryview) -> None:
        """Handles what was read behind a large frame, in the buffer that is borrowed for it."""
        count = len(view)
        at = self._parse(view, 0, count)
        is_open = not self.holds & CLOSED
        size = self._needs_buffer(view) if at == 0 and is_open else 0
        if size:
            self._large = large = LargeFrame.in_place(awaited, size, count)
            self._await_room(large)
        else:
            rest = bytearray(view[at:])
            awaited.give_back()
            if rest and is_open:
                self._keep(memoryview(rest))
            elif is_open and count > SMALL_FRAME_BYTES:
                self._large = awaited
        self._flush()

    def secured(self, principal: Principal) -> None:
        """Notes who the peer is, as its certificate says."""
        self.session.principal = principal

    def refused(self, reason: str) -> None:
        """Ends the connection because of what the peer has sent, and has that counted and told."""
        if not self.holds & CLOSED:
            self.now_ns = self._clock.monotonic_ns()
            self._service.malformed(self, reason)
            self.close(reason)

    def peer_gone(self, reason: str) -> None:
        """Ends the connection because the peer will take no answer: pending answers are cancelled and no
        request begins."""
        self.close(reason)

    def peer_finished(self) -> None:
        """Ends the connection when all is answered: the peer has sent its last byte, but it may still read
        answers."""
        if self._waiting:
            self.holds |= FINISHED
        else:
            self.close("the peer has closed the connection")

    def touch(self) -> None:
        """Notes that the peer has just taken some output, so the connection is not idle."""
        self.now_ns = self._clock.monotonic_ns()

    @property
    def connection_id(self) -> str:
        return self.session.connection_id

    @property
    def waiting(self) -> int:
        """The number of requests whose answer has not been sent yet."""
        return len(self._waiting)

    @property
    def has_output(self) -> bool:
        """Whether answers are ready that were not handed to the wire yet."""
        return bool(self._out) or self._is_queued

    def output_full(self) -> None:
        """Lets no request begin until `output_drained`, because the wire's output queue is too long."""
        self.holds |= OUTPUT_FULL

    def output_drained(self) -> None:
        if self.holds & OUTPUT_FULL:
            self.holds &= ~OUTPUT_FULL
            self._schedule()

    # What the service, the memory and the server call

    def mute(self, throttle_ms: int) -> None:
        """Lets no request begin for `throttle_ms`; the answers that are ready still leave (KIP-219). Of
        several requests that wait together the longest throttle counts."""
        if self.holds & CLOSED or throttle_ms <= 0:
            return
        self.holds |= MUTED
        deadline_ms = self._clock.monotonic_ms() + throttle_ms
        if self._mute is not None:
            if deadline_ms <= self._muted_until_ms:
                return
            self._mute.cancel()
        self._muted_until_ms = deadline_ms
        self._mute = self._timers.call_at(deadline_ms, self._unmute)

    def _unmute(self) -> None:
        self._mute = None
        self.holds &= ~MUTED
        self._schedule()

    def fast_lane(self, api_key: int) -> FastLane | None:
        return None if self._lanes is None else self._lanes.get(api_key)

    def use_fast_lane(self, api_key: int, lane: FastLane) -> None:
        """From now on the lane is asked first whenever a request of this API comes. api_key: up to 255."""
        if self._lanes is None:
            self._lanes = {}
        self._lanes[api_key] = lane

    def wait_for(self, answer: DelayedAnswer) -> None:
        """A request was taken whose answer comes later, or behind answers that do."""
        self._waiting_bytes += answer.held_bytes
        self._waiting.append(answer)
        self._check_window()

    def memory_freed(self) -> None:
        if self.holds & AWAITS_MEMORY:
            self._schedule()

    def answered(self, answer: DelayedAnswer, pieces: list[Piece]) -> None:
        """Takes the answer of a delayed request. It leaves in the next turn, once all answers before it have
        left."""
        if self.holds & CLOSED:
            release_pieces(pieces)
            return
        answer.pieces = pieces
        if self._waiting and self._waiting[0] is answer:
            self._schedule()

    def drain(self) -> None:
        """Lets no request begin any more; the requests that wait are still answered."""
        self.holds |= DRAINING

    def turn(self) -> None:
        """Sends what has been answered and goes on with the bytes that were kept. The ready queue calls
        it."""
        self._is_queued = False
        if self.holds & CLOSED:
            return
        try:
            self.holds &= ~TURN_OVER
            if self._waiting:
                self._collect()
            large = self._large
            if large is not None:
                self._await_room(large)
            elif self._tail is not None and not self.holds:
                self._parse_tail()
            self._flush()
            if not self.holds:
                self._wire.resume()
            elif self.holds & FINISHED and not self._waiting:
                self.close("the peer has closed the connection, and all is answered")
        except EndsProcess:
            raise
        except Exception:
            self.failed()

    def close(self, reason: str) -> None:
        """Ends the connection, for either side; answers that are ready are still sent if the peer takes
        them."""
        if self.holds & CLOSED:
            return
        self._flush()
        self.holds |= CLOSED
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None
        self._tail = self._large = None
        self._memory.hold(self, 0)
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            if answer.pieces is None:
                answer.cancel()
            else:
                release_pieces(answer.pieces)
        self._wire.close(reason)

    def failed(self) -> None:
        """Ends this connection after an exception that is our fault. It must be called from the `except`
        clause."""
        self._service.failed(self)
        out, self._out = self._out, []
        release_pieces(out)
        self.close("a fault of ours")

    # Parsing

    def _parse(self, view: memoryview, at: int, end: int) -> int:
        """Serves the complete frames in `view[at:end]`, until one is incomplete or a bit of `holds` is set,
        and returns the position that it reached."""
        serve = self._serve
        out = self._out
        last = end - 4
        left = TURN_REQUESTS
        sent = 0
        self.now_ns = self.turn_began_ns = now_ns = self._clock.monotonic_ns()
        deadline_ns = now_ns + _TURN_NS
        while at <= last and not self.holds:
            size = _read_size(view, at)[0]
            if size < 0 or size > self.max_frame_bytes:
                self._refuse(size)
                return end
            stop = at + 4 + size
            if stop > end:
                break
            if left == 0 or now_ns > deadline_ns or sent > TURN_SENT_BYTES:
                self.holds |= TURN_OVER
                self._schedule()
                break
            lanes = self._lanes
            if lanes is not None and size > 1 and (not self._waiting or not view[at + 5]):
                lane = lanes.get(view[at + 5])
                if lane is not None and (reached := lane.take(self, view, at, end, left, out)) != at:
                    at = reached
                    left -= lane.taken
                    sent += lane.sent_bytes
                    now_ns = self.now_ns
                    continue
            left -= 1
            # The request begins with its API key, and Produce has 0: only its requests may wait together.
            if self._waiting and (size < 2 or view[at + 4] or view[at + 5]):
                self.holds |= AWAITS_ANSWER
                break
            try:
                answer = serve(self, view[at + 4 : stop], now_ns)
            except CloseConnection as verdict:
                self.close(str(verdict) or "the request's handler closed the connection")
                return end
            at = stop
            now_ns = self.now_ns
            if self.holds & CLOSED:
                self._drop(answer)
            elif answer.__class__ is list:
                if self._waiting:
                    self._waiting.append(DelayedAnswer(self, True, answer))
                    self._check_window()
                    continue
                for piece in answer:
                    out.append(piece)
                    sent += len(piece) if isinstance(piece, BYTES_LIKE) else piece.size_bytes
            elif answer is not None:
                self.wait_for(answer)  # type: ignore[arg-type]
        return at

    @staticmethod
    def _drop(answer: list[Piece] | DelayedAnswer | None) -> None:
        """Throws away the answer to a request during which the connection was closed."""
        if isinstance(answer, DelayedAnswer):
            answer.cancel()
        elif answer is not None:
            release_pieces(answer)

    def _check_window(self) -> None:
        waiting = self._waiting
        if waiting and (
            not waiting[-1].is_produce
            or len(waiting) >= WAITING_PRODUCE_PER_CONNECTION
            or self._waiting_bytes >= WAITING_PRODUCE_BYTES
        ):
            self.holds |= AWAITS_ANSWER

    def _parse_tail(self) -> None:
        tail = self._tail
        if tail is None:
            return
        at = self._tail_at
        end = len(tail)
        reached = self._parse(memoryview(tail), at, end)
        if self.holds & CLOSED:
            return
        if reached == end:
            self._tail = None
            self._memory.hold(self, 0)
        elif self.holds:
            self._tail_at = reached
        elif reached != at or self._needs_buffer(memoryview(tail)[reached:]):
            self._keep(memoryview(tail)[reached:])

    def _needs_buffer(self, rest: memoryview) -> int:
        """The size of an incomplete frame that needs a buffer of its own; 0 if it needs none."""
        if self.holds or len(rest) < 4:
            return 0
        size = 4 + int(_read_size(rest)[0])
        return size if size > self._memory.largest_small_frame_bytes else 0

    def _keep(self, rest: memoryview) -> None:
        """Copies the bytes that were not handled, for a later turn."""
        size = self._needs_buffer(rest)
        if size:
            self._tail = None
            self._large = LargeFrame(self._memory, self, size, rest)
            self._await_room(self._large)
        else:
            self._tail, self._tail_at = bytearray(rest), 0
            self._memory.hold(self, len(rest))

    def _await_room(self, large: LargeFrame | AwaitedFrame) -> None:
        if large.make_room(self._clock.monotonic_ns()):
            self.holds &= ~AWAITS_MEMORY
            return
        self.holds |= AWAITS_MEMORY
        if not self._asks_again:
            self._asks_again = True
            self._timers.call_at(self._clock.monotonic_ms() + SILENT_MS, self._ask_again)

    def _ask_again(self) -> None:
        """Asks for memory that nobody has given back: who holds it may have fallen silent."""
        self._asks_again = False
        self.memory_freed()

    def _refuse(self, size: int) -> None:
        config = (
            "socket.request.max.bytes" if self.session.is_authenticated else "sasl.server.max.receive.size"
        )
        reason = f"a frame of {size} bytes, allowed are 0 to {self.max_frame_bytes} ({config})"
        if size >> 16 == _TLS_HANDSHAKE:
            reason = (
                f"the first bytes are {size.to_bytes(4).hex(' ')}, a TLS handshake, and the listener speaks "
                f"{self.session.security_protocol} (a client with security.protocol=SSL or SASL_SSL?)"
            )
        self._service.malformed(self, reason)
        self.close(reason)

    # Answers

    def _collect(self) -> None:
        """Moves the answers that are known, in the order of the requests, to the output of this turn."""
        waiting = self._waiting
        while waiting:
            pieces = waiting[0].pieces
            if pieces is None:
                break
            self._waiting_bytes -= waiting.pop(0).held_bytes
            self._out += pieces
        self.holds &= ~AWAITS_ANSWER
        self._check_window()

    def _flush(self) -> None:
        out = self._out
        if out:
            self._out = []
            self._wire.send(out)
            self._service.sent(self)

    def _schedule(self) -> None:
        if not self._is_queued and not self.holds & CLOSED:
            self._is_queued = True
            self._ready_queue.add(self)
