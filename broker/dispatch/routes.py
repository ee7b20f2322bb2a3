"""What the dispatcher needs to serve one API at one version. It is put together when it is first asked for.

To compile a codec takes about a millisecond, so a broker that has just started has no routes. `Routes.warm`
makes those for which all clients ask, before they connect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.metrics.requests import FETCH_FOLLOWER, RequestCounts, RequestMetrics
from broker.network.response_pieces import Piece
from config.limits import LONG_REQUEST_BYTES, ONE_STEP_MEMORY_BYTES, PLAIN_REQUEST_BYTES, REQUEST_MEMORY_BYTES
from protocol.codec.compiler import decoder
from protocol.codec.decoding import holds_arrays
from protocol.codec.message import Message
from protocol.codec.schema import schema
from protocol.framing import encode_response_frame
from protocol.registry import ApiKey, api
from protocol.serving.authorization import Operation
from protocol.serving.error_counts import error_counter
from protocol.serving.handler_table import HandlerTable, ServedApi

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.network.connection import Connection
    from protocol.serving.request_context import RequestContext

EncodeFrame = Callable[[Message, int, int], list[Piece]]

WARMED: Final = (
    (ApiKey.API_VERSIONS, 3),
    (ApiKey.API_VERSIONS, 4),
    (ApiKey.METADATA, 12),
    (ApiKey.METADATA, 13),
    (ApiKey.PRODUCE, 12),
    (ApiKey.PRODUCE, 13),
    (ApiKey.FETCH, 17),
    (ApiKey.FETCH, 18),
    (ApiKey.LIST_OFFSETS, 10),
)


_NO_BOUND: Final = 1 << 31
"""The bound for a request without arrays, which takes no more memory than its frame does."""


class RemembersRequests(Protocol):
    """Makes the fast lanes of one API, one per connection (`broker.fast_lane`)."""

    def wants(self, request: Any) -> bool:
        """Whether a request with a pending answer may be remembered when that is complete."""
        ...

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
        """Remembers a plain request that was handled, for the fast lane of its connection.

        frame: the frame as it was received, without its size; it is valid until this returns. response: None
        if there is none, and a Pending if it comes later.
        """
        ...


class Route:
    """One API at one version, on one kind of listener. `index` is the key by which the dispatcher finds it.

    keeps_request: a pending answer may need its request, to say for each item in it that it failed. A Produce
    request is never kept, because its records are views of a buffer that is used again. keeps_frame: see
    `ServedApi`. plain_bytes: a frame up to this size is decoded and handled in one go. is_plain: says so of a
    short request that is longer than that; None if it is not to be asked. memory_bytes: the memory that the
    arrays of one may take that is not plain. remembers: remembers plain requests for the fast lane, if the
    API has one. for_followers: the route of the same requests if they come from followers, which are counted
    apart; they never take the fast lane. It is None but for Fetch. is_exempt: it may take nothing of the
    quotas of clients (`takes_nothing`).
    """

    __slots__ = (
        "api_key",
        "count_errors",
        "counts",
        "decode",
        "encode",
        "flexible",
        "for_followers",
        "handler",
        "has_throttle_time",
        "is_exempt",
        "is_plain",
        "is_produce",
        "keeps_frame",
        "keeps_request",
        "memory_bytes",
        "name",
        "plain_bytes",
        "remembers",
        "response_class",
        "times",
        "turns",
        "version",
    )

    def __init__(
        self,
        registration: ServedApi[Any],
        version: int,
        counts: RequestCounts,
        remembers: RemembersRequests | None = None,
    ) -> None:
        api_key, handler = registration.api_key, registration.handler
        described = api(api_key)
        self.api_key = api_key
        self.version = version
        self.name = described.name
        self.handler = handler
        self.flexible = described.request_header_version(version) == 2
        self.is_produce = api_key == ApiKey.PRODUCE
        self.decode = decoder(described.request, version)
        self.response_class = described.response
        framing = registration.framing
        self.encode: EncodeFrame = encode_response_frame if framing is None else framing()  # type: ignore[assignment]
        self.has_throttle_time = "throttle_time_ms" in described.response.__struct_fields__
        self.count_errors = error_counter(described.response)
        self.keeps_request = not self.is_produce and not has_own_error_code(described.response, version)
        self.keeps_frame = registration.keeps_frame
        self.remembers = remembers
        self.for_followers: Route | None = None
        self.is_exempt = api_key == ApiKey.WRITE_TXN_MARKERS
        self.counts = counts
        self.times = counts.times
        self.turns = registration.turns
        self.memory_bytes = registration.memory_bytes or (
            ONE_STEP_MEMORY_BYTES if self.turns is None else REQUEST_MEMORY_BYTES
        )
        plain = registration.plain
        self.is_plain: Callable[[Any, int], bool] | None = plain if callable(plain) else None
        self.plain_bytes = (
            _plain_bytes(described.request, version, has_turns=self.turns is not None) if plain is True else 0
        )


def takes_nothing(route: Route, context: RequestContext) -> bool:
    """Whether a request takes nothing of the quotas of clients: what followers fetch, and what brokers ask
    each other with CLUSTER_ACTION. Who may not ask that is held at his quota, as in Kafka."""
    return route.is_exempt and (
        route.api_key != ApiKey.WRITE_TXN_MARKERS
        or context.may_see_cluster(Operation.ALTER)
        or context.may_see_cluster(Operation.CLUSTER_ACTION)
    )


class Routes:
    """The routes of a handler table, as a dict from `index` to route: one look-up per request."""

    def __init__(
        self,
        handlers: HandlerTable,
        metrics: RequestMetrics,
        remembers: Mapping[int, RemembersRequests] = MappingProxyType({}),
    ) -> None:
        self.handlers = handlers
        self._remembers = remembers
        self._metrics = metrics
        self.made: dict[int, Route] = {}

    @staticmethod
    def index(api_key: int, version: int) -> int:
        """One number for an API key and a version. It is negative if one of them is, and then there is no
        route."""
        return (api_key << 16) | version

    def find(self, api_key: int, version: int) -> Route | None:
        """The route of an API at a version, which is made now if need be. None if it is not served."""
        route = self.made.get(self.index(api_key, version))
        if route is None:
            registration = self.handlers.get(api_key)
            if registration is None or not registration.min_version <= version <= registration.max_version:
                return None
            counts = self._metrics.counts(api(api_key).name, version)
            route = Route(registration, version, counts, self._remembers.get(api_key))
            if api_key == ApiKey.FETCH:
                followers = self._metrics.counts(FETCH_FOLLOWER, version)
                route.for_followers = Route(registration, version, followers)
                route.for_followers.is_exempt = True
            self.made[self.index(api_key, version)] = route
        return route

    def remember_by(self, remembers: Mapping[int, RemembersRequests]) -> None:
        """Has these remember plain requests from now on, by API key."""
        self._remembers = remembers
        for route in self.made.values():
            route.remembers = remembers.get(route.api_key)

    def warm(self) -> None:
        """Makes the routes for which every client asks first. It takes some 20 ms."""
        for api_key, version in WARMED:
            self.find(api_key, version)


def is_of_follower(request: Any) -> bool:
    """Whether a Fetch request comes from a replica, and not from a consumer."""
    state = request.replica_state
    replica_id: int = request.replica_id if state is None else state.replica_id
    return replica_id >= 0


def has_own_error_code(response: type[Message], version: int) -> bool:
    """Whether a response can say of the whole request that it failed."""
    return any(field.name == "error_code" and field.present.covers(version) for field in schema(response))


def _plain_bytes(request: type[Message], version: int, *, has_turns: bool) -> int:
    if has_turns:
        return PLAIN_REQUEST_BYTES
    return LONG_REQUEST_BYTES if holds_arrays(request, version) else _NO_BOUND
