"""A request that is decoded, handled and answered in turns.

::

    frame ─▶ decode, counting what it takes ─▶ handler ─▶ elements, encoded as they come ─▶ the answer
             too much: the connection is           └▶ or a pending answer, encoded when it is there
             closed before it is taken

The bytes of the answer are the same as if the request were served in one go. The elements that a handler
yields in turns (`protocol.serving.turns`) are encoded some at a time and forgotten, so a long answer exists
as bytes alone. If the client disconnects, the work stops where it is.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from broker.dispatch.failures import raise_failure, release_slices
from broker.dispatch.lane import Lane
from broker.dispatch.long_answer import LongAnswer, Steps
from broker.dispatch.routes import is_of_follower
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer
from broker.network.response_pieces import Piece
from config.limits import LONG_REQUEST_BYTES
from protocol.codec.compiler import stepping_decoder
from protocol.codec.message import Message
from protocol.errors import EndsProcess, ProtocolError
from protocol.registry import api
from protocol.serving.pending import NO_ANSWER, AnswerTooLong, CloseConnection, Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.dispatch.routes import Route

_UNANSWERED: Final = "its request could not be answered"


class LongRequest(DelayedAnswer):
    """A request that the lane serves in turns (`broker.dispatch.lane.Work`), and its place in the
    connection's queue.

    arrived_ns: the time at which its frame was complete. frame_bytes: the size of the frame. local_ns: the
    time that its turns have taken so far. remote_ns: the time for which its answer was pending. context: set
    when the request is decoded.
    """

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_dispatcher",
        "_frame",
        "_is_gone",
        "_is_in_queue",
        "_is_in_turn",
        "_lane",
        "_pending",
        "_position",
        "_response",
        "_steps",
        "_turn_began_ns",
        "_waits_since_ns",
        "arrived_ns",
        "context",
        "frame_bytes",
        "local_ns",
        "remote_ns",
        "route",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        lane: Lane,
        connection: Connection,
        route: Route,
        frame: memoryview,
        position: int,
        correlation_id: int,
        client_id: str,
        arrived_ns: int,
    ) -> None:
        """position: the position in the frame at which the request begins, behind its header."""
        super().__init__(connection, is_produce=False)
        self._dispatcher = dispatcher
        self._lane = lane
        self._frame = frame.tobytes()
        self._position = position
        self._correlation_id = correlation_id
        self._client_id = client_id
        self._pending: Pending[Any] | None = None
        self._response: Any = None
        """The answer that was pending, until it is encoded in a turn of its own. It may hold open files."""
        self._is_in_queue = False
        self._is_in_turn = False
        self._is_gone = False
        self._turn_began_ns = 0
        self._waits_since_ns = 0
        self.route = route
        self.context: RequestContext | None = None
        self.frame_bytes = len(frame)
        self.arrived_ns = arrived_ns
        self.local_ns = 0
        self.remote_ns = 0
        self._steps: Steps = self._work()

    def serve(self) -> list[Piece] | DelayedAnswer:
        """Begins to serve the request, when its frame has arrived. Returns the answer if it is complete
        already, else the object that keeps its place in the connection's queue. Raises CloseConnection."""
        self._lane.enter(self)
        if self.pieces is not None:
            return self.pieces
        self._is_in_queue = True
        return self

    # Turns

    def turn(self, deadline_ns: int) -> bool:
        """Implements `broker.dispatch.lane.Work`."""
        dispatcher = self._dispatcher
        self._turn_began_ns = dispatcher.monotonic_ns()
        if self.context is not None:
            dispatcher.current.context = self.context
        self._is_in_turn = True
        try:
            for _ in self._steps:
                if self._is_gone:
                    self._steps.close()
                    return True
                if dispatcher.monotonic_ns() > deadline_ns:
                    return False
            return True
        except CloseConnection as verdict:
            if isinstance(verdict, AnswerTooLong):
                dispatcher.malformed(self.connection, str(verdict))
            if not self._is_in_queue:
                raise
            self.connection.close(str(verdict))
            return True
        except EndsProcess:
            raise
        except Exception:
            dispatcher.log_failure(self.connection, self.route, self.context)
            if not self._is_in_queue:
                raise CloseConnection(_UNANSWERED) from None
            self.connection.close(_UNANSWERED)
            return True
        finally:
            self._is_in_turn = False
            self.connection.now_ns = now_ns = dispatcher.monotonic_ns()
            self.local_ns += now_ns - self._turn_began_ns

    def memory_freed(self) -> None:
        """Implements `broker.network.memory.Holder`. A request that was received needs no further memory."""

    def cancel(self) -> None:
        """Stops the work, because the client has disconnected."""
        self._is_gone = True
        if self._pending is not None:
            self._dispatcher.give_up(self._pending, self.connection)
        if not self._is_in_turn:
            self._steps.close()
            self._lane.leave(self)
            release_slices(self._response)
            self._response = None

    # Steps

    def _work(self) -> Steps:
        """The steps from the frame to the encoded answer, or to a pending one."""
        dispatcher, route = self._dispatcher, self.route
        request, kept = yield from self._decoded()
        if route.for_followers is not None and is_of_follower(request):
            self.route = route = route.for_followers
        self.context = context = dispatcher.begin(
            route, self.connection, self._correlation_id, self._client_id, self.frame_bytes, kept
        )
        answer = LongAnswer(route)
        try:
            if route.turns is None:
                response = route.handler(dispatcher.services, context, request)
            else:
                response = yield from answer.collect(route.turns(dispatcher.services, context, request))
            if isinstance(response, Pending):
                if response.response is None:
                    self._wait_for(response)
                    return
                response = response.response
            yield from self._answer(answer, context, response)
        except (CloseConnection, EndsProcess):
            raise
        except Exception:
            mirrored = request if self.frame_bytes <= LONG_REQUEST_BYTES else None
            self._deliver(dispatcher.answer_failure(self.connection, route, context, mirrored))

    def _decoded(self) -> Generator[None, None, tuple[Message, bytes]]:
        """Decodes the request, and gives the frame up. Returns the request, and its bytes if the handler
        passes them on. Raises CloseConnection."""
        route = self.route
        decode = stepping_decoder(api(route.api_key).request, route.version)
        try:
            request, end = yield from decode(self._frame, self._position, route.memory_bytes)
        except ProtocolError as error:
            raise self._dispatcher.unreadable(self.connection, self._frame, error) from error
        kept = self._frame[:end] if route.keeps_frame else b""
        self._frame = b""
        self._lane.decoded(self)
        return request, kept

    def _answer(self, answer: LongAnswer, context: RequestContext, response: Any) -> Steps:
        dispatcher, route = self._dispatcher, self.route
        if response.__class__ is not route.response_class:
            raise_failure(route.name, response)
        if route.count_errors is not None:
            route.count_errors(response, route.counts.errors)
        try:
            pieces = yield from answer.frame(response, context.version, context.correlation_id)
            spent_ns = self.local_ns + dispatcher.monotonic_ns() - self._turn_began_ns
            if dispatcher.throttle(self.connection, route, context, response, pieces, spent_ns):
                pieces = answer.framed(response, context.version, context.correlation_id)
        except BaseException:
            release_slices(response)
            raise
        self._deliver(pieces)

    def _deliver(self, pieces: list[Piece]) -> None:
        now_ns = self._dispatcher.monotonic_ns()
        self._dispatcher.count_long(self, now_ns, self.local_ns + now_ns - self._turn_began_ns)
        if self._is_in_queue:
            self.complete(pieces)
        else:
            self.pieces = pieces

    # Pending answers

    def _wait_for(self, pending: Pending[Any]) -> None:
        self._pending = pending
        self._waits_since_ns = self._dispatcher.monotonic_ns()
        self._dispatcher.metrics.waiting += 1
        pending.on_complete(self._completed)

    def _completed(self, response: Any) -> None:
        dispatcher = self._dispatcher
        dispatcher.metrics.waiting -= 1
        self.remote_ns = dispatcher.monotonic_ns() - self._waits_since_ns
        if response is NO_ANSWER:
            self.complete([])
        elif isinstance(response, CloseConnection):
            self.connection.close(str(response))
        else:
            self._response = response
            self._steps = self._late()
            self._lane.again(self)

    def _late(self) -> Steps:
        """Encodes an answer that was pending and is complete now."""
        context = self.context
        if context is None:
            return
        response, self._response = self._response, None
        try:
            yield from self._answer(LongAnswer(self.route), context, response)
        except (CloseConnection, EndsProcess):
            raise
        except Exception:
            self._deliver(self._dispatcher.answer_failure(self.connection, self.route, context, None))
