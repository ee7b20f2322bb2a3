"""WriteTxnMarkers (27), versions 1 and 2: a transaction coordinator ends transactions on the partitions that
this broker leads. KIP-98.

    1    flexible
    2    the version of transactions, by which the log judges the marker's epoch (KIP-1228)

Each marker is appended with acks=all; the answer comes when all are replicated, or refused, or when
`request.timeout.ms` is over (REQUEST_TIMED_OUT for the others: the coordinator sends them again). A marker
for `__consumer_offsets` goes through the group coordinator, for which offsets count or are dropped with it.

Needs ALTER or CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias

from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupServices
from broker.services import HasClock, HasConfig, HasCoordinatorLog, HasReplicas, HasTimers
from config.ports import Timer
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns
from storage.append import AppendResult
from storage.errors import AppendRefused

Marker: TypeAlias = WriteTxnMarkersRequest.WritableTxnMarker
Place: TypeAlias = tuple[str, int]
OnError: TypeAlias = Callable[[ErrorCode], None]

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

_OF_THE_GROUP_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class WriteMarkersServices(
    HasReplicas, HasClock, HasTimers, HasConfig, HasCoordinatorLog, GroupServices, Protocol
):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: WriteMarkersServices, context: RequestContext, request: WriteTxnMarkersRequest
) -> Turns[WriteTxnMarkersResponse | Pending[WriteTxnMarkersResponse]]:
    is_allowed = context.may_see_cluster(Operation.ALTER) or context.allows_cluster(Operation.CLUSTER_ACTION)
    writing = _Writing()
    if not is_allowed:
        for marker in request.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    writing.begin(marker.producer_id, (topic.name, index))(_DENIED)
                yield None
            yield None
        return writing.response()
    for marker in request.markers:
        control = TransactionMarker(marker.transaction_result, marker.coordinator_epoch)
        batch = bytes(
            build_marker_batch(
                control,
                timestamp_ms=services.clock.wall_ms(),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
            )
        )
        for topic in marker.topics:
            for index in topic.partition_indexes:
                on_error = writing.begin(marker.producer_id, (topic.name, index))
                _write(services, marker, (topic.name, index), control, batch, on_error)
                yield None
            yield None
        yield None
    if not writing.left:
        return writing.response()
    return writing.wait(services)


def _write(
    services: WriteMarkersServices,
    marker: Marker,
    place: Place,
    control: TransactionMarker,
    batch: bytes,
    on_error: OnError,
) -> None:
    topic, index = place
    if place not in services.replicas.by_name:
        on_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif topic != GROUP_TOPIC:
        services.coordinator_log.append_internal(
            topic, index, batch, partial(_appended, on_error), marker.transaction_version
        )
    else:
        producer = (marker.producer_id, marker.producer_epoch)
        ended = services.groups.end_transaction(index, producer, control, marker.transaction_version)
        then(ended, partial(_ended, on_error))


def _appended(on_error: OnError, outcome: AppendResult | AppendRefused) -> None:
    on_error(outcome.error_code if isinstance(outcome, AppendRefused) else ErrorCode.NONE)


def _ended(on_error: OnError, error: ErrorCode) -> None:
    """The group coordinator's errors are those of a partition here."""
    on_error(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _OF_THE_GROUP_COORDINATOR else error)


class _Writing:
    """The markers of one request. `left` is how many are not settled."""

    def __init__(self) -> None:
        self.left = 0
        self._errors: dict[int, dict[Place, ErrorCode | None]] = {}
        """The errors by producer id; None while a marker is not settled."""
        self._pending: Pending[WriteTxnMarkersResponse] | None = None
        self._timer: Timer | None = None

    def begin(self, producer_id: int, place: Place) -> OnError:
        of_producer = self._errors.setdefault(producer_id, {})
        of_producer[place] = None
        self.left += 1

        def settle(error: ErrorCode) -> None:
            of_producer[place] = error
            self.left -= 1
            if not self.left:
                self._answer()

        return settle

    def wait(self, services: WriteMarkersServices) -> Pending[WriteTxnMarkersResponse]:
        """All markers are on their way."""
        pending = self._pending = Pending()
        at_ms = services.clock.monotonic_ms() + services.config.integer("request.timeout.ms")
        timer = self._timer = services.timers.call_at(at_ms, self._answer)
        pending.on_cancel(timer.cancel)
        return pending

    def _answer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._pending is not None:
            self._pending.complete_by(self.response)

    def response(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            [_result(producer_id, errors) for producer_id, errors in self._errors.items()]
        )


def _result(
    producer_id: int, errors: dict[Place, ErrorCode | None]
) -> WriteTxnMarkersResponse.WritableTxnMarkerResult:
    topics: dict[str, list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), error in errors.items():
        code = ErrorCode.REQUEST_TIMED_OUT if error is None else error
        topics.setdefault(topic, []).append(
            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(index, code)
        )
    return WriteTxnMarkersResponse.WritableTxnMarkerResult(
        producer_id,
        [
            WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(topic, results)
            for topic, results in topics.items()
        ],
    )
