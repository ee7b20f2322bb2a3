"""Fetch requests of consumers that read one partition, like an earlier one of their connection.

The lane reads by the same function as the long way. What is there it gives at once, and if there is nothing
it waits as the long way does. It declines an offset that is not in the log, fewer records than the reader
wants at least, a disk that fails, aborted transactions that the reader has to leave out, and in a session
every request for which another partition may have something to tell. Requests of followers, those that may be
sent to a replica in their rack, and those that open or close a session or name several partitions, take the
long way.

In a session the lane does to it what the long way does. What a request says of its partition is noted first,
and once more if the lane declines then; the epoch goes on with the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.plain_fetches import (
    AnswerFrame,
    PlainFetch,
    PlainSession,
    parts_of,
    parts_of_session,
)
from broker.fast_lane.remembered import RememberedRequests, Shape
from broker.fast_lane.waiting_fetch import wait_for_records
from broker.handlers.fetch import FetchServices
from broker.replication.fetch_sessions import FINAL_EPOCH, NO_SESSION_ID, FetchSession
from broker.replication.partition import Partition
from broker.replication.reading import CONSUMER, FIRST_VERSION_WITH_TOPIC_IDS, params_of
from broker.replication.roles import NO_EPOCH
from config.limits import TURN_SENT_BYTES
from protocol.framing import SIZE_PREFIX_BYTES
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from storage.slices import LogSlice

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.dispatch.routes import Route
    from broker.network.connection import Connection
    from broker.network.response_pieces import Piece
    from protocol.serving.request_context import RequestContext

__all__ = ["FetchLanes"]

_FIRST_VERSION: Final = 5
"""The first one whose answer tells the log start."""
_FETCH: Final = int(ApiKey.FETCH)

_Remembered: TypeAlias = PlainFetch | PlainSession


class FetchLane:
    """The lane of one connection, see `broker.network.interfaces.FastLane`."""

    __slots__ = ("_dispatcher", "_epoch", "_services", "has_declined", "remembered", "sent_bytes", "taken")

    def __init__(self, dispatcher: Dispatcher, services: FetchServices, epoch: LaneEpoch) -> None:
        self._dispatcher = dispatcher
        self._services = services
        self._epoch = epoch
        self.remembered: RememberedRequests[_Remembered] = RememberedRequests(epoch)
        self.has_declined = False
        """The request that takes the long way now is remembered already."""
        self.taken = 0
        self.sent_bytes = 0

    def take(
        self, connection: Connection, view: memoryview, at: int, end: int, left: int, out: list[Piece]
    ) -> int:
        found = self.remembered.find(view, at, end)
        if found is None:
            self.has_declined = False
            return at
        shape, known = found
        if isinstance(known, PlainFetch):
            return self._take_run(connection, shape, known, view, at, end, left, out)
        return self._take_of_session(connection, shape, known, view, at, end, out)

    def _take_run(
        self,
        connection: Connection,
        shape: Shape[_Remembered],
        plain: PlainFetch,
        view: memoryview,
        at: int,
        end: int,
        left: int,
        out: list[Piece],
    ) -> int:
        """Answers requests that are like each other, one behind the other."""
        self.has_declined = True
        unpack, head, before, rest = shape.unpack, shape.head, plain.before, plain.rest
        frame_bytes = shape.size_bytes
        size = frame_bytes - SIZE_PREFIX_BYTES
        answer, log = plain.answer, plain.partition.log
        began_ns = connection.now_ns
        self._dispatcher.begin_remembered(plain.context, began_ns)
        behind = b""
        begin, last, taken, records_bytes = at, end - frame_bytes, 0, 0
        while at <= last and taken < left and records_bytes <= TURN_SENT_BYTES:
            found_size, found_head, correlation_id, found_before, offset, found_rest = unpack(view, at)
            if found_before != before or found_head != head or found_size != size or found_rest != rest:
                break
            plain.wanted.fetch_offset = offset
            records = plain.read()
            if not records:
                if records is None and not taken and not self._services.fetches.is_full:
                    self._wait(connection, plain, plain.session_of_its_own(), correlation_id, size)
                    return at + frame_bytes
                break
            records.retain()
            count = records.size_bytes
            out.append(
                behind
                + answer.head(
                    correlation_id, log.high_watermark, log.last_stable_offset, log.log_start_offset, count
                )
            )
            out.append(records)
            behind = answer.behind
            records_bytes += count
            at += frame_bytes
            taken += 1
        if taken:
            if behind:
                out.append(behind)
            self._count(connection, plain, taken, at - begin, records_bytes, began_ns)
        return at

    def _take_of_session(
        self,
        connection: Connection,
        shape: Shape[_Remembered],
        known: PlainSession,
        view: memoryview,
        at: int,
        end: int,
        out: list[Piece],
    ) -> int:
        """Answers a request of a session; the next one comes with another epoch."""
        self.has_declined = False
        size, _, correlation_id, _, epoch = shape.unpack(view, at)
        stop: int = at + SIZE_PREFIX_BYTES + size
        fetches = self._services.fetches
        sessions = fetches.sessions
        session = sessions.get(known.id)
        if (
            stop > end
            or session is None
            or session.epoch != epoch
            or session.isolation_level != known.isolation_level
            or session.waiting is not None
        ):
            return at
        plain = known.find(session, view, at + shape.size_bytes, stop)
        if plain is None:
            return at
        self.has_declined = True
        began_ns = connection.now_ns
        self._dispatcher.begin_remembered(plain.context, began_ns)
        records = plain.read()
        if records is False or (records is None and fetches.is_full):
            return at
        sessions.advance(session, now_ms=fetches.clock.monotonic_ms())
        if records is None:
            self._wait(connection, plain, session, correlation_id, size)
            return stop
        log = plain.partition.log
        high_watermark, log_start, count = log.high_watermark, log.log_start_offset, records.size_bytes
        session.told_records(plain.wanted, high_watermark, log_start)
        records.retain()
        answer = plain.answer
        out.append(answer.head(correlation_id, high_watermark, log.last_stable_offset, log_start, count))
        out.append(records)
        if answer.behind:
            out.append(answer.behind)
        self._count(connection, plain, 1, stop - at, count, began_ns)
        return stop

    def _wait(
        self, connection: Connection, plain: PlainFetch, session: FetchSession, correlation_id: int, size: int
    ) -> None:
        self.taken, self.sent_bytes = 1, 0
        wait_for_records(
            self._dispatcher, connection, plain, session, correlation_id, size, self._services, self._epoch
        )

    def _count(
        self,
        connection: Connection,
        plain: PlainFetch,
        taken: int,
        received_bytes: int,
        records_bytes: int,
        began_ns: int,
    ) -> None:
        counters = plain.partition.counters
        counters.total_fetch_requests += taken
        counters.bytes_out += records_bytes
        self.taken = taken
        self.sent_bytes = records_bytes + taken * plain.answer.fixed_bytes
        received_bytes -= SIZE_PREFIX_BYTES * taken
        self._dispatcher.count_remembered(connection, plain.route.counts, taken, received_bytes, began_ns)


class FetchLanes:
    """Makes the lanes, see `broker.dispatch.routes.RemembersRequests`."""

    def __init__(self, services: FetchServices) -> None:
        self._services = services
        self._replicas = services.replicas
        self._fetches = services.fetches

    def wants(self, request: FetchRequest) -> bool:
        """See `broker.dispatch.routes.RemembersRequests`."""
        topics = request.topics
        return len(topics) <= 1 and (not topics or len(topics[0].partitions) == 1)

    def remember(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        route: Route,
        frame: memoryview,
        context: RequestContext,
        request: FetchRequest,
        response: FetchResponse | Pending[Any] | None,
    ) -> None:
        if not isinstance(response, FetchResponse) or not _is_plain(route.version, request, response):
            return
        if connection.session.authentication is not None:
            return  # the session ends, which is looked at with each request
        if request.rack_id and self._fetches.selector is not None:
            return  # it may be sent to another replica with any of its requests
        lane = connection.fast_lane(_FETCH)
        if not isinstance(lane, FetchLane):
            lane = FetchLane(dispatcher, self._services, self._replicas.lane_epoch)
            connection.use_fast_lane(_FETCH, lane)
        if lane.has_declined:
            lane.has_declined = False
        elif request.session_id != NO_SESSION_ID:
            self._remember_in_session(lane, route, frame, context, request, response)
        elif request.session_epoch == FINAL_EPOCH and lane.remembered.has_room():
            self._remember_without_session(lane, route, frame, context, request, response)

    def _remember_without_session(
        self,
        lane: FetchLane,
        route: Route,
        frame: memoryview,
        context: RequestContext,
        request: FetchRequest,
        response: FetchResponse,
    ) -> None:
        by_id = route.version >= FIRST_VERSION_WITH_TOPIC_IDS
        session = FetchSession(uses_topic_ids=by_id, privileged=False, may_stay=False, now_ms=0)
        session.update(request)
        (wanted,) = session.wanted.values()
        hosted: Mapping[Any, Partition] = self._replicas.by_id if by_id else self._replicas.by_name
        partition = hosted.get(wanted.key)
        parts = parts_of(route, frame, request)
        if partition is None or parts is None:
            return
        before, rest = parts
        wanted.name_topic(partition.topic)
        params = params_of(request, route.version, CONSUMER, self._fetches.max_bytes)
        plain = PlainFetch(
            route, context, params, wanted, partition, AnswerFrame(route, response), before, rest
        )
        lane.remembered.add(bytes(frame[:4]), before, f"q{len(rest)}s", plain)

    def _remember_in_session(
        self,
        lane: FetchLane,
        route: Route,
        frame: memoryview,
        context: RequestContext,
        request: FetchRequest,
        response: FetchResponse,
    ) -> None:
        session = self._fetches.sessions.get(request.session_id)
        parts = parts_of_session(route, frame, request)
        if session is None or parts is None:
            return
        key, before, rest = parts
        head = bytes(frame[:4])
        remembered = lane.remembered
        known = remembered.known(head, key)
        if not isinstance(known, PlainSession):
            remembered.give_back(self._places_of_closed)
            known = PlainSession(session.id, request.isolation_level)
            if not remembered.add(head, key, "i", known):
                return
        if rest is None:
            known.none = before
            return
        topic = request.topics[0]
        name = topic.topic_id if session.uses_topic_ids else topic.topic
        wanted = session.wanted.get((name, topic.partitions[0].partition))
        if wanted is None or wanted.partition is None:
            return
        params = params_of(request, route.version, CONSUMER, self._fetches.max_bytes)
        plain = PlainFetch(
            route, context, params, wanted, wanted.partition, AnswerFrame(route, response), before, rest
        )
        places = known.places
        known.add(plain, is_full=remembered.is_full)
        remembered.take_places(known.places - places)

    def _places_of_closed(self, known: _Remembered) -> int:
        """The places that a session takes which was closed; 0 for all else."""
        if isinstance(known, PlainFetch) or self._fetches.sessions.get(known.id) is not None:
            return 0
        return known.places


def _is_plain(version: int, request: FetchRequest, response: FetchResponse) -> bool:
    """Whether a consumer that named one partition, or in a session none, got records of one partition, and
    nothing else was told."""
    topics, told = request.topics, response.responses
    if version < _FIRST_VERSION or len(told) != 1 or len(told[0].partitions) != 1:
        return False
    data = told[0].partitions[0]
    if not isinstance(data.records, LogSlice) or data.error_code or data.aborted_transactions:
        return False
    if request.replica_id != CONSUMER or request.replica_state is not None:
        return False
    if request.forgotten_topics_data or request.session_id != response.session_id or len(topics) > 1:
        return False
    if not topics:
        return True
    asked = topics[0].partitions
    return (
        len(asked) == 1
        and asked[0].partition == data.partition_index
        and asked[0].last_fetched_epoch <= NO_EPOCH
        and topics[0].topic_id == told[0].topic_id
        and (version >= FIRST_VERSION_WITH_TOPIC_IDS or topics[0].topic == told[0].topic)
    )
