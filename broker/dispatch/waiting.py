"""A request with a pending answer: a long poll, a rebalance, or an acknowledgement by replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer
from protocol.codec.message import Message
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.dispatch.routes import Route


class WaitingAnswer(DelayedAnswer):
    """Keeps the place of an answer in the connection's queue until the answer is complete.

    request: kept if its names would be needed to say that it has failed. local_ns: the time that it has taken
    so far.
    """

    __slots__ = (
        "_dispatcher",
        "_pending",
        "arrived_ns",
        "context",
        "frame",
        "local_ns",
        "request",
        "route",
        "waits_since_ns",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        route: Route,
        context: RequestContext,
        request: Message | None,
        pending: Pending[Any],
        arrived_ns: int,
        frame: memoryview | None = None,
    ) -> None:
        """The wait begins at the connection's `now_ns`. frame: kept if the fast lane may want to remember the
        request when it is answered."""
        super().__init__(connection, route.is_produce)
        if pending.holds_request:
            self.held_bytes = context.frame_size_bytes
        self._dispatcher = dispatcher
        self._pending = pending
        self.route = route
        self.context = context
        self.request = request if route.keeps_request else None
        self.frame = b""
        if frame is not None and route.remembers is not None and route.remembers.wants(request):
            self.request, self.frame = request, frame.tobytes()
        self.arrived_ns = arrived_ns
        self.waits_since_ns = now_ns = connection.now_ns
        self.local_ns = now_ns - arrived_ns
        dispatcher.metrics.waiting += 1
        pending.on_complete(self._deliver)

    def _deliver(self, response: Any) -> None:
        self._dispatcher.metrics.waiting -= 1
        self._dispatcher.answer_late(self, response)

    def cancel(self) -> None:
        """Gives the answer up, because the client has disconnected."""
        self._dispatcher.give_up(self._pending, self.connection)
