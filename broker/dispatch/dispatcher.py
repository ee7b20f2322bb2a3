"""From a frame to its answer: the header is read, the body decoded, a handler called, its response encoded.

    frame   int16 api key, int16 version, int32 correlation id, client id, tags, body

The dispatcher is the boundary at which errors of a request end. If the peer breaks the protocol, its
connection is closed. If a handler raises what it must not, at once or when it completes its answer later, the
exception is logged with its stack and counted, and the client is told UNKNOWN_SERVER_ERROR, or, where the API
cannot say that, the connection is closed. Only an `EndsProcess` goes on, up to the loop: a broker that cannot
trust its own state must not answer anybody.

Every line of `serve` runs for every request. It makes as few calls and objects as it can, and counts inline.
"""

from __future__ import annotations

import logging
import struct
import sys
from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from broker.dispatch.failures import failure_response, raise_failure, release_slices
from broker.dispatch.lane import Lane
from broker.dispatch.long_request import LongRequest
from broker.dispatch.malformed import MalformedLog
from broker.dispatch.routes import RemembersRequests, Route, Routes, is_of_follower, takes_nothing
from broker.dispatch.waiting import WaitingAnswer
from broker.metrics.histogram import BOUNDS_NS
from broker.metrics.requests import RequestCounts, RequestMetrics
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer
from broker.network.response_pieces import Piece, as_pieces
from broker.quotas.throttle import Throttle, UnlessThrottled
from config.limits import (
    CLIENT_ID_LENGTH_IN_LOGS,
    PLAIN_REQUEST_BYTES,
    SOFTWARE_NAME_LENGTH_FOR_METRICS,
)
from config.ports import Clock
from protocol.codec.compiler import stepping_decoder
from protocol.codec.message import Message
from protocol.codec.reading import lenient_text, skip_tags
from protocol.errors import EndsProcess, ErrorCode, ProtocolError
from protocol.framing import encode_response_frame
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.registry import ApiKey, api, find_api
from protocol.serving.authorization import Authorizer, AuthorizerNotReady
from protocol.serving.handler_table import HandlerTable
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from protocol.serving.turns import run_through

_log = logging.getLogger("barnabas.dispatch")

_HEADER_BYTES: Final = 10
_WALL_CLOCK_VALID_NS: Final = 1_000_000
_read_header: Final = struct.Struct(">hhih").unpack_from
_MALFORMED: Final = (ProtocolError, struct.error, IndexError)


class CurrentRequest:
    """The request that a node is handling, for whoever looks from outside. All its dispatchers write to one
    object, so it names the request that any of them began last.

    context: of the request that is being handled, or was handled last. The watchdog reads it to say why a
    turn of the loop takes so long.
    """

    __slots__ = ("context",)

    def __init__(self) -> None:
        self.context: RequestContext | None = None


class Dispatcher:
    """Serves all connections of one kind of listener (`broker.network.interfaces.Service`)."""

    def __init__(
        self,
        handlers: HandlerTable,
        services: Any,
        *,
        clock: Clock,
        authorizer: Authorizer,
        lane: Lane,
        current: CurrentRequest | None = None,
        throttle: Throttle | None = None,
        metrics: RequestMetrics | None = None,
        fast_lanes: Mapping[int, RemembersRequests] = MappingProxyType({}),
    ) -> None:
        """lane: takes the requests that may last longer than a turn of the loop. current: is told which
        request is being handled. All dispatchers of a node share one of each. fast_lanes: by API key, the
        fast lanes that remember plain requests."""
        self.metrics = metrics or RequestMetrics()
        self._fast_lanes = fast_lanes
        self.routes = Routes(handlers, self.metrics)
        self._throttle: Throttle | None = None
        self.throttle_by(throttle)
        self.current = current or CurrentRequest()
        self._made_routes = self.routes.made
        self.services = services
        self.monotonic_ns = clock.monotonic_ns
        self._lane = lane
        self._clock = clock
        self._authorizer = authorizer
        self._malformed = MalformedLog()
        self._wall_ms = 0
        self._wall_read_ns = -_WALL_CLOCK_VALID_NS - 1

    def throttle_by(self, throttle: Throttle | None) -> None:
        """Asks this throttle from now on; None, while there are no quotas. The caller bumps the lanes' epoch
        behind it, because clients that have a quota now may be on their fast lanes."""
        self._throttle = throttle
        lanes = self._fast_lanes
        if self._throttle is not None:
            lanes = {key: UnlessThrottled(each, self._throttle) for key, each in lanes.items()}
        self.routes.remember_by(lanes)

    def serve(
        self, connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        """See `broker.network.interfaces.Service`."""
        size = len(frame)
        try:
            api_key, version, correlation_id, name_length = _read_header(frame)
            route = self._made_routes.get((api_key << 16) | version) or self.routes.find(api_key, version)
            if route is None:
                return self._unserved(connection, frame, arrived_ns)
            at, client_id = _HEADER_BYTES, ""
            if name_length > 0:
                at += name_length
                try:
                    client_id = frame[_HEADER_BYTES:at].tobytes().decode()
                except UnicodeDecodeError:
                    client_id = lenient_text(frame[_HEADER_BYTES:at].tobytes(), "the client id")
            if route.flexible:
                count = frame[at]
                at = skip_tags(frame, at + 1, count, size) if count else at + 1
            if at > size:
                raise ProtocolError(f"the client id ends {at - size} bytes after the frame")
            if size <= route.plain_bytes:
                request, end = route.decode(frame, at)
            elif (decoded := _decode_in_one_go(route, frame, at)) is not None:
                request, end = decoded
            else:
                return LongRequest(
                    self, self._lane, connection, route, frame, at, correlation_id, client_id, arrived_ns
                ).serve()
        except _MALFORMED as error:
            raise self.unreadable(connection, frame, error) from error
        if route.for_followers is not None and is_of_follower(request):
            route = route.for_followers
        if arrived_ns - self._wall_read_ns > _WALL_CLOCK_VALID_NS:
            self._wall_read_ns = arrived_ns
            self._wall_ms = self._clock.wall_ms()
        self.current.context = context = RequestContext(
            api_key, version, correlation_id, client_id, connection.session,
            self._wall_ms, self._authorizer, size, frame[:end].tobytes() if route.keeps_frame else b"",
        )  # fmt: skip
        route.counts.requests += 1
        route.counts.received_bytes += size
        try:
            response = route.handler(self.services, context, request)
            if response.__class__ is not route.response_class and response is not None:
                if not _is_finished(route, response):
                    return self._wait(connection, route, context, request, response, arrived_ns, frame)
                response = response.response
            if api_key == ApiKey.API_VERSIONS:
                _note_client_software(connection.session, version, request, response)
            pieces = self._encode(connection, route, context, response, arrived_ns)
            if route.remembers is not None:
                route.remembers.remember(self, connection, route, frame, context, request, response)
        except (CloseConnection, EndsProcess):
            connection.now_ns = self.monotonic_ns()
            raise
        except Exception:
            pieces = self.answer_failure(connection, route, context, request)
        connection.now_ns = now_ns = self.monotonic_ns()
        bucket = bisect_left(BOUNDS_NS, now_ns - arrived_ns)
        connection.last_served = times = route.times
        times.local[bucket] += 1
        if queued_ns := arrived_ns - connection.turn_began_ns:
            times.queue[bisect_left(BOUNDS_NS, queued_ns)] += 1
            bucket = bisect_left(BOUNDS_NS, queued_ns + now_ns - arrived_ns)
        times.total[bucket] += 1
        return pieces

    def _wait(
        self,
        connection: Connection,
        route: Route,
        context: RequestContext,
        request: Message,
        pending: Pending[Any],
        arrived_ns: int,
        frame: memoryview,
    ) -> WaitingAnswer:
        if route.remembers is not None:
            route.remembers.remember(self, connection, route, frame, context, request, pending)
        connection.now_ns = self.monotonic_ns()
        return WaitingAnswer(self, connection, route, context, request, pending, arrived_ns, frame)

    # For the fast lanes (see `broker.fast_lane`)

    def begin_remembered(self, context: RequestContext, arrived_ns: int) -> int:
        """Called when requests like the one of this context are about to be handled. Returns the wall clock
        in milliseconds."""
        self.current.context = context
        if arrived_ns - self._wall_read_ns > _WALL_CLOCK_VALID_NS:
            self._wall_read_ns = arrived_ns
            self._wall_ms = self._clock.wall_ms()
        return self._wall_ms

    def count_remembered(
        self, connection: Connection, counts: RequestCounts, requests: int, received_bytes: int, began_ns: int
    ) -> None:
        """Counts requests that were answered together. Each of them took its share of the time, and waited
        for the rest of it."""
        counts.requests += requests
        counts.received_bytes += received_bytes
        connection.now_ns = now_ns = self.monotonic_ns()
        times = connection.last_served = counts.times
        local_ns = (now_ns - began_ns) // requests
        total_ns = now_ns - connection.turn_began_ns
        bucket = bisect_left(BOUNDS_NS, local_ns)
        times.local[bucket] += requests
        if total_ns > local_ns:
            times.queue[bisect_left(BOUNDS_NS, total_ns - local_ns)] += requests
            bucket = bisect_left(BOUNDS_NS, total_ns)
        times.total[bucket] += requests

    def give_up(self, pending: Pending[Any], connection: Connection) -> None:
        """Cancels a pending answer, because the client has disconnected. An answer that is complete already
        is not cancelled."""
        if pending.done:
            return
        self.metrics.waiting -= 1
        try:
            pending.cancel()
        except EndsProcess:
            raise
        except Exception:
            self.failed(connection)

    def malformed(self, connection: Connection, reason: str, kind: str = "") -> None:
        """See `broker.network.interfaces.Service`. kind: see `MalformedLog`."""
        self.metrics.malformed += 1
        self._malformed.complain(connection, reason, kind)

    def failed(self, connection: Connection) -> None:
        """See `broker.network.interfaces.Service`."""
        self.metrics.failures += 1
        session = connection.session
        _log.exception("%s on listener %s: this is our fault", session.connection_id, session.listener)

    def sent(self, connection: Connection) -> None:
        """See `broker.network.interfaces.Service`."""
        times = connection.last_served
        if times is not None:
            times.send[bisect_left(BOUNDS_NS, self.monotonic_ns() - connection.now_ns)] += 1

    # Answers

    def _encode(
        self, connection: Connection, route: Route, context: RequestContext, response: Any, arrived_ns: int
    ) -> list[Piece] | None:
        """Encodes an answer, and throttles its client. None if there is no response."""
        if response is None:
            return self._unanswered(connection, route, context)
        if route.count_errors is not None:
            route.count_errors(response, route.counts.errors)
        try:
            pieces = route.encode(response, context.version, context.correlation_id)
            if self._throttle is not None:
                elapsed_ns = self.monotonic_ns() - arrived_ns
                if self.throttle(connection, route, context, response, pieces, elapsed_ns):
                    return route.encode(response, context.version, context.correlation_id)
            return pieces
        except BaseException:
            release_slices(response)
            raise

    def throttle(
        self,
        connection: Connection,
        route: Route,
        context: RequestContext,
        response: Any,
        pieces: list[Piece],
        elapsed_ns: int,
    ) -> bool:
        """Mutes the connection if its client is over a quota, and not this node itself. Returns whether the
        response now names a throttle time and must be encoded again. pieces: the response's frame, which
        begins with its size in four bytes."""
        if self._throttle is None:
            return False
        response_bytes = int.from_bytes(bytes(pieces[0][:4]), "big")  # type: ignore[index]
        throttle_ms = self._throttle.throttle_ms(
            context,
            response_bytes=response_bytes,
            elapsed_ns=elapsed_ns,
            is_exempt=takes_nothing(route, context),
        )
        is_told = False
        if route.has_throttle_time:
            told_ms = response.throttle_time_ms
            throttle_ms = response.throttle_time_ms = max(throttle_ms, told_ms)
            is_told = throttle_ms != told_ms
        if throttle_ms > 0 and not context.session.is_in_process:
            _mute(connection, route, throttle_ms)
        return is_told

    def _unanswered(
        self, connection: Connection, route: Route, context: RequestContext
    ) -> list[Piece] | None:
        """Mutes the connection if a Produce request that gets no answer is over the quota of its client.
        Returns the answer, None."""
        if self._throttle is not None and (throttle_ms := self._throttle.unanswered_ms(context)) > 0:
            _mute(connection, route, throttle_ms)
        return None

    def answer_late(self, waiting: WaitingAnswer, response: Any) -> None:
        """Encodes a response that a handler has left pending and that is complete now."""
        route, connection = waiting.route, waiting.connection
        began_ns = self.monotonic_ns()
        if response is NO_ANSWER:
            self._unanswered(connection, route, waiting.context)
            waiting.complete([])
            return
        if isinstance(response, CloseConnection):
            connection.close(str(response))
            return
        try:
            if response.__class__ is list and route.remembers is not None:
                pieces = response  # a fast lane has encoded it already
            elif response.__class__ is not route.response_class:
                raise_failure(route.name, response)
            else:
                pieces = (
                    self._encode(connection, route, waiting.context, response, began_ns - waiting.local_ns)
                    or []
                )
                if waiting.frame and route.remembers is not None:
                    frame = memoryview(waiting.frame)
                    route.remembers.remember(
                        self, connection, route, frame, waiting.context, waiting.request, response
                    )
        except EndsProcess:
            raise
        except Exception:
            try:
                pieces = self.answer_failure(connection, route, waiting.context, waiting.request)
            except CloseConnection as verdict:
                connection.close(str(verdict))
                return
        connection.now_ns = now_ns = self.monotonic_ns()
        times = route.times
        times.remote[bisect_left(BOUNDS_NS, began_ns - waiting.waits_since_ns)] += 1
        times.local[bisect_left(BOUNDS_NS, waiting.local_ns + now_ns - began_ns)] += 1
        times.total[bisect_left(BOUNDS_NS, now_ns - waiting.arrived_ns)] += 1
        connection.last_served = times
        waiting.complete(pieces)

    # For long requests (see `long_request`)

    def begin(
        self,
        route: Route,
        connection: Connection,
        correlation_id: int,
        client_id: str,
        size: int,
        frame: bytes,
    ) -> RequestContext:
        """Makes the context of a request that is decoded and about to be handled. frame: see
        `RequestContext`."""
        self.current.context = context = RequestContext(
            route.api_key,
            route.version,
            correlation_id,
            client_id,
            connection.session,
            self._clock.wall_ms(),
            self._authorizer,
            size,
            frame,
        )
        route.counts.requests += 1
        route.counts.received_bytes += size
        return context

    def count_long(self, request: LongRequest, now_ns: int, local_ns: int) -> None:
        """Counts a long request that is answered. The time in which it was neither handled nor waited for
        others, it has waited for its turns."""
        times = request.route.times
        total_ns = now_ns - request.arrived_ns
        times.local[bisect_left(BOUNDS_NS, local_ns)] += 1
        times.total[bisect_left(BOUNDS_NS, total_ns)] += 1
        if request.remote_ns:
            times.remote[bisect_left(BOUNDS_NS, request.remote_ns)] += 1
        queued_ns = total_ns - local_ns - request.remote_ns
        if queued_ns > 0:
            times.queue[bisect_left(BOUNDS_NS, queued_ns)] += 1
        request.connection.last_served = times

    # Failures

    def _unserved(self, connection: Connection, frame: memoryview, arrived_ns: int) -> list[Piece]:
        """Refuses an API or a version that is not served here. Only ApiVersions has an answer to that
        (KIP-511); for others the connection is closed."""
        api_key, version, correlation_id, name_length = _read_header(frame)
        connection.now_ns = arrived_ns
        registration = self.routes.handlers.get(api_key)
        if api_key == ApiKey.API_VERSIONS and registration is not None:
            response = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[
                    ApiVersionsResponse.ApiVersion(
                        api_key, registration.min_version, registration.max_version
                    )
                ],
            )
            errors = self.metrics.counts("ApiVersions", registration.max_version).errors
            errors[ErrorCode.UNSUPPORTED_VERSION] = errors.get(ErrorCode.UNSUPPORTED_VERSION, 0) + 1
            return as_pieces(encode_response_frame(response, 0, correlation_id))
        known = find_api(api_key)
        name = known.name if known is not None else f"API key {api_key}"
        if registration is not None:
            low, high = registration.min_version, registration.max_version
            reason = f"{name} version {version}, served are {low} to {high}"
        elif known is not None:
            reason = f"{name}, which is not served on this listener"
        else:
            reason = f"{name}, which nobody knows"
        session = connection.session
        client_id = frame[_HEADER_BYTES : _HEADER_BYTES + max(0, name_length)].tobytes()
        client = client_id[:CLIENT_ID_LENGTH_IN_LOGS].decode("utf-8", "replace")
        software = session.client_software_name[:CLIENT_ID_LENGTH_IN_LOGS]
        who = f"client {client!r} ({software})"
        self.malformed(connection, f"{who} asked for {reason}", f"{name} {who}")
        raise CloseConnection(reason)

    def unreadable(
        self, connection: Connection, frame: memoryview | bytes, error: Exception
    ) -> CloseConnection:
        """Counts and logs a request that could not be read. Returns the exception that the caller raises."""
        connection.now_ns = self.monotonic_ns()
        what = "a request"
        if len(frame) >= _HEADER_BYTES:
            known = find_api(_read_header(frame)[0])
            what = f"a {known.name} request" if known else what
        reason = f"{what} of {len(frame)} bytes could not be read: {error}"
        self.malformed(connection, reason)
        return CloseConnection(reason)

    def answer_failure(
        self, connection: Connection, route: Route, context: RequestContext, request: Message | None
    ) -> list[Piece]:
        """Answers a request whose handler has failed; called while the exception is being handled. Raises
        CloseConnection if the API cannot say it in an answer.

        request: None if it was not kept, or is too long to be answered item by item.
        """
        self.log_failure(connection, route, context)
        try:
            response = failure_response(request, route.response_class, context.version)
            if response is not None:
                pieces = route.encode(response, context.version, context.correlation_id)
                if route.count_errors is not None:
                    route.count_errors(response, route.counts.errors)
                return pieces
        except EndsProcess:
            raise
        except Exception:
            _log.exception("Nor could the client be told so")
        connection.now_ns = self.monotonic_ns()
        raise CloseConnection(f"a {route.name} request failed")

    def log_failure(self, connection: Connection, route: Route, context: RequestContext | None) -> None:
        """Logs the exception that is being handled. context: None if the request was not even decoded."""
        if isinstance(sys.exception(), AuthorizerNotReady):
            _log.debug("%s from %s came too early", route.name, connection.session.connection_id)
            return
        self.metrics.failures += 1
        _log.exception(
            "%s version %d from client %r at %s failed; this is our fault",
            route.name,
            route.version,
            "" if context is None else context.client_id[:CLIENT_ID_LENGTH_IN_LOGS],
            connection.session.connection_id,
        )


def _mute(connection: Connection, route: Route, throttle_ms: int) -> None:
    connection.mute(throttle_ms)
    route.times.throttle[bisect_left(BOUNDS_NS, throttle_ms * 1_000_000)] += 1


def _decode_in_one_go(route: Route, frame: memoryview, at: int) -> tuple[Message, int] | None:
    """Decodes a long request with records, or a short one whose API says that it is plain; None for others,
    which are served in turns. Raises before the arrays of one with records exist if they would take more
    memory than they may."""
    if route.is_produce:
        steps = stepping_decoder(api(route.api_key).request, route.version)(frame, at, route.memory_bytes)
        return run_through(steps)
    if route.is_plain is None or len(frame) > PLAIN_REQUEST_BYTES:
        return None
    request, end = route.decode(frame, at)
    return (request, end) if route.is_plain(request, route.version) else None


def _is_finished(route: Route, response: Any) -> bool:
    """Whether the pending answer that a handler gave is complete already. Raises if the handler gave anything
    else."""
    if not isinstance(response, Pending):
        raise TypeError(f"the handler of {route.name} answered with a {type(response).__name__}")
    found = response.response
    if found is not None and found.__class__ is not route.response_class:
        raise_failure(route.name, found)
    return found is not None


def _note_client_software(session: Session, version: int, request: Any, response: Any) -> None:
    """Remembers the name and version of the client's software, under which its connection is counted from now
    on (KIP-511)."""
    if version >= 3 and response is not None and response.error_code == ErrorCode.NONE:
        name = request.client_software_name[:SOFTWARE_NAME_LENGTH_FOR_METRICS]
        release = request.client_software_version[:SOFTWARE_NAME_LENGTH_FOR_METRICS]
        session.client_software_name = name or session.client_software_name
        session.client_software_version = release or session.client_software_version
