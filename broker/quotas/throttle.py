"""How long a client must be quiet after its request: the place where quotas say so.

Dispatch asks once per answer, when the answer is encoded and both sizes are known. The time goes into the
answer's `throttle_time_ms` (an answer to which it adds something is encoded a second time), the answer leaves
at once, and then the connection is muted for that time, whether the client keeps quiet by itself or not
(KIP-219).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from protocol.serving.request_context import RequestContext

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.dispatch.routes import RemembersRequests, Route
    from broker.network.connection import Connection


class Throttle(Protocol):
    """Quotas decide behind this: on bytes produced and fetched, and on the time that requests take."""

    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        """Milliseconds, 0 for none.

        The request's bytes are `context.frame_size_bytes`. response_bytes: of the answer's frame, record
        bytes included; as in the request, without the four that say the size. elapsed_ns: the loop's time
        that the request took. is_exempt: it takes nothing of any quota
        (`broker.dispatch.routes.takes_nothing`).
        """
        ...

    def unanswered_ms(self, context: RequestContext) -> int:
        """The same for a Produce request with acks=0, which takes nothing of the quotas on time."""
        ...

    def applies_to(self, context: RequestContext) -> bool:
        """Whether requests of this client take something of a quota, so that none may take a fast lane."""
        ...


class AsTold:
    """The throttle of a controller: its clients are quiet for as long as their answers say already
    (`controller_mutation_rate`). Bytes and time are the quotas of brokers."""

    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        """See `Throttle`."""
        return 0

    def unanswered_ms(self, context: RequestContext) -> int:
        """See `Throttle`."""
        return 0

    def applies_to(self, context: RequestContext) -> bool:
        """See `Throttle`."""
        return False


class UnlessThrottled:
    """The fast lanes of one API while quotas are in force (`broker.dispatch.routes.RemembersRequests`): the
    requests of clients that have one are not remembered."""

    __slots__ = ("_lanes", "_throttle")

    def __init__(self, lanes: RemembersRequests, throttle: Throttle) -> None:
        self._lanes = lanes
        self._throttle = throttle

    def wants(self, request: Any) -> bool:
        return self._lanes.wants(request)

    def remember(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        route: Route,
        frame: memoryview,
        context: RequestContext,
        request: Any,
        response: Any,
    ) -> None:
        if not self._throttle.applies_to(context):
            self._lanes.remember(dispatcher, connection, route, frame, context, request, response)
