"""A remembered Fetch request that waits for records: the lane's part of a long poll.

It waits as every fetch does (`broker.replication.delayed_fetch`). When it is woken and nothing else has
changed meanwhile it is answered as the lane answers; otherwise the handler of Fetch looks again, and makes
the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.dispatch.waiting import WaitingAnswer
from broker.fast_lane.epoch import LaneEpoch
from broker.handlers.fetch import Fetch, FetchServices
from broker.replication.delayed_fetch import DelayedFetch
from broker.replication.fetch_sessions import FetchSession
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.serving.request_context import RequestContext
from storage.slices import LogSlice

if TYPE_CHECKING:
    from broker.dispatch.dispatcher import Dispatcher
    from broker.fast_lane.plain_fetches import PlainFetch
    from broker.network.connection import Connection
    from broker.network.response_pieces import Piece

__all__ = ["RememberedWait", "wait_for_records"]


class RememberedWait:
    """See the module, and `broker.replication.delayed_fetch.WaitingFetch`."""

    __slots__ = ("_context", "_epoch", "_number", "_plain", "_services", "_session", "_session_epoch")

    def __init__(
        self,
        plain: PlainFetch,
        session: FetchSession,
        context: RequestContext,
        services: FetchServices,
        epoch: LaneEpoch,
    ) -> None:
        self._plain = plain
        self._session = session
        self._session_epoch = session.epoch
        self._context = context
        self._services = services
        self._epoch = epoch
        self._number = epoch.number

    def look_again(self) -> FetchResponse | list[Piece]:
        """The response, or the pieces of one that is encoded already."""
        plain, session = self._plain, self._session
        wanted, active = plain.wanted, session.active
        if (
            self._number != self._epoch.number
            or len(active) != 1
            or wanted.key not in active
            or wanted.partition is not plain.partition
            or session.epoch != self._session_epoch
        ):
            return self._look_the_long_way()
        records = plain.read()
        if not isinstance(records, LogSlice):
            return self._look_the_long_way()
        log, counters, count = plain.partition.log, plain.partition.counters, records.size_bytes
        counters.total_fetch_requests += 1
        counters.bytes_out += count
        high_watermark, log_start = log.high_watermark, log.log_start_offset
        if session.is_kept:
            session.told_records(wanted, high_watermark, log_start)
        records.retain()
        answer = plain.answer
        correlation_id = self._context.correlation_id & 0xFFFFFFFF
        head = answer.head(correlation_id, high_watermark, log.last_stable_offset, log_start, count)
        return [head, records, answer.behind] if answer.behind else [head, records]

    def _look_the_long_way(self) -> FetchResponse:
        fetch = Fetch(self._session, self._plain.params, self._services, self._context)
        return fetch.look_again() if fetch.epoch == self._session_epoch else self.overtaken()

    def overtaken(self) -> FetchResponse:
        """The answer to a request whose session has gone on without it."""
        return FetchResponse(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH, self._session.id)


def wait_for_records(
    dispatcher: Dispatcher,
    connection: Connection,
    plain: PlainFetch,
    session: FetchSession,
    correlation_id: int,
    frame_bytes: int,
    services: FetchServices,
    epoch: LaneEpoch,
) -> None:
    """Has a request wait of which the first look has found nothing to tell; its session has accepted it.

    correlation_id: unsigned. frame_bytes: without the size field.
    """
    arrived_ns, like = connection.now_ns, plain.context
    if correlation_id > 0x7FFFFFFF:
        correlation_id -= 1 << 32
    now_ms = dispatcher.begin_remembered(like, arrived_ns)
    context = RequestContext(
        like.api_key, like.version, correlation_id, like.client_id, like.session, now_ms, like.authorizer,
        frame_bytes,
    )  # fmt: skip
    counts = plain.route.counts
    counts.requests += 1
    counts.received_bytes += frame_bytes
    plain.partition.counters.total_fetch_requests += 1
    wanted, log, params = plain.wanted, plain.partition.log, plain.params
    if (
        session.id
        and wanted.high_watermark == log.high_watermark
        and wanted.log_start_offset == log.log_start_offset
    ):
        session.rest(wanted)
    waiting = RememberedWait(plain, session, context, services, epoch)
    delayed = DelayedFetch(
        waiting,
        session,
        services.fetches,
        missing_bytes=params.min_bytes,
        read_committed=params.read_committed,
    )
    pending = delayed.start(params.max_wait_ms)
    connection.now_ns = dispatcher.monotonic_ns()
    answer = WaitingAnswer(dispatcher, connection, plain.route, context, None, pending, arrived_ns)
    connection.wait_for(answer)
