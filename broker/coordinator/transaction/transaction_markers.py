"""The sender of markers: every partition of an ended transaction gets its marker, however long that takes.

    EndedTransaction ──► waiting, by the broker that leads each partition ──► WriteTxnMarkers ──► answers
                           ▲                                                                         │
                           └─────────────── after a pause, to whoever leads then ◄── not yet ◄───────┘

One request at a time is under way to each broker, with all markers that wait for it then. What an answer
means for a partition:

    NONE                                                       it has its marker
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED     another coordinator has ended the transaction:
                                                               nothing more is sent for it, and its end is not
                                                               recorded here
    UNSUPPORTED_FOR_MESSAGE_FORMAT                             no transaction can be in such a log: done
    the errors of `RETRIABLE`, no answer at all                again after a pause
    anything else                                              a fault of ours or theirs: logged, and again

A partition of a deleted topic needs no marker. One without a leader waits for one.

Pure: who leads, how a request leaves, and time are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from broker.coordinator.transaction.transaction_metadata import TopicPartition
from broker.coordinator.transaction.transaction_operation import EndedTransaction
from broker.coordinator.transaction.transaction_records import partitions_by_topic
from config.ports import Clock, Timers
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

LOG: Final = logging.getLogger("barnabas.transactions")
RETRY_MS: Final = 100
"""The pause before a partition that did not take its marker is asked again."""
MARKERS_PER_REQUEST: Final = 5_000
"""The number of markers in a request. Others for the same broker wait for the next request."""
RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
OVERTAKEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
NO_LEADER: Final = -1


class PartitionLeaders(Protocol):
    """Knows the leaders of the cluster's partitions."""

    def leader(self, topic: str, index: int) -> int | None:
        """The broker that leads; -1 if there is none now, None for a partition that does not exist."""
        ...


class BrokerChannel(Protocol):
    """Sends requests to brokers, this one included."""

    def send(
        self,
        broker_id: int,
        request: Message,
        on_response: Callable[[Message | None], None],
    ) -> None:
        """`on_response` is called once, and not before this returns; with None if there is no answer."""
        ...


class _Ending(msgspec.Struct, eq=False):
    """A transaction whose markers are being written."""

    ended: EndedTransaction
    coordinator_partition: int
    coordinator_epoch: int
    left: set[TopicPartition]


class _Marker(NamedTuple):
    """The marker of a transaction for one partition."""

    ending: _Ending
    partition: TopicPartition


class TransactionMarkers:
    """The markers of all ended transactions of the partitions of `__transaction_state` that this broker
    leads.

    on_written: called with the coordinating partition and the transaction when every partition has its
    marker.
    """

    def __init__(
        self,
        *,
        leaders: PartitionLeaders,
        channel: BrokerChannel,
        clock: Clock,
        timers: Timers,
        on_written: Callable[[int, EndedTransaction], None],
    ) -> None:
        self._leaders = leaders
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._on_written = on_written
        self._endings: dict[tuple[int, str], _Ending] = {}
        """The ended transactions by coordinating partition and transactional id."""
        self._waiting: dict[int, dict[_Marker, None]] = {}
        """The markers by broker that wait for it."""
        self._later: dict[_Marker, None] = {}
        """The markers that are sent when the pause is over."""
        self._busy: set[int] = set()
        """The brokers to which a request is under way."""
        self._is_pausing = False
        self._is_dispatching = False

    def __len__(self) -> int:
        """The number of transactions that do not have all their markers yet."""
        return len(self._endings)

    def send(self, partition: int, leader_epoch: int, ended: EndedTransaction) -> None:
        """Sends markers to the partitions of the transaction. Markers that were sent for the id before are
        forgotten."""
        ending = _Ending(ended, partition, leader_epoch, set(ended.partitions))
        self._endings[partition, ended.transactional_id] = ending
        for each in sorted(ended.partitions):
            self._later[_Marker(ending, each)] = None
        self._dispatch_soon()

    def forget(self, partition: int) -> None:
        """Forgets all markers of a partition of `__transaction_state` that is coordinated elsewhere."""
        for key in [key for key in self._endings if key[0] == partition]:
            del self._endings[key]

    # Sending

    def _dispatch_soon(self) -> None:
        if not self._is_dispatching:
            self._is_dispatching = True
            self._timers.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Queues every marker for the leader of its partition, and sends requests to the brokers that are not
        busy."""
        self._is_dispatching = False
        markers, self._later = self._later, {}
        for marker in markers:
            if not self._is_wanted(marker):
                continue
            leader = self._leaders.leader(*marker.partition)
            if leader is None:
                self._done(marker)
            elif leader == NO_LEADER:
                self._again(marker)
            else:
                self._waiting.setdefault(leader, {})[marker] = None
        for broker_id in list(self._waiting):
            if broker_id not in self._busy:
                self._ask(broker_id)

    def _ask(self, broker_id: int) -> None:
        markers = [marker for marker in self._waiting.pop(broker_id, {}) if self._is_wanted(marker)]
        if not markers:
            return
        if len(markers) > MARKERS_PER_REQUEST:
            self._waiting[broker_id] = dict.fromkeys(markers[MARKERS_PER_REQUEST:])
            del markers[MARKERS_PER_REQUEST:]
        self._busy.add(broker_id)
        by_ending: dict[int, tuple[_Ending, list[TopicPartition]]] = {}
        for ending, partition in markers:
            by_ending.setdefault(id(ending), (ending, []))[1].append(partition)
        request = WriteTxnMarkersRequest(
            [_written(ending, partitions) for ending, partitions in by_ending.values()]
        )
        self._channel.send(broker_id, request, lambda response: self._answered(broker_id, markers, response))

    def _answered(self, broker_id: int, markers: list[_Marker], response: Message | None) -> None:
        self._busy.discard(broker_id)
        errors = _errors(response) if isinstance(response, WriteTxnMarkersResponse) else {}
        for marker in markers:
            if self._is_wanted(marker):
                key = (marker.ending.ended.producer_id, marker.partition)
                self._judge(marker, errors.get(key, ErrorCode.REQUEST_TIMED_OUT))
        if broker_id in self._waiting:
            self._ask(broker_id)

    def _judge(self, marker: _Marker, error: ErrorCode) -> None:
        if error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
            self._done(marker)
        elif error in OVERTAKEN:
            ending = marker.ending
            LOG.info("the markers of %s are left to its newer coordinator", ending.ended.transactional_id)
            del self._endings[ending.coordinator_partition, ending.ended.transactional_id]
        else:
            if error not in RETRIABLE:
                LOG.error("%s-%d refused a marker, again: %s", *marker.partition, error.name)
            self._again(marker)

    def _done(self, marker: _Marker) -> None:
        ending = marker.ending
        ending.left.discard(marker.partition)
        if not ending.left:
            del self._endings[ending.coordinator_partition, ending.ended.transactional_id]
            self._on_written(ending.coordinator_partition, ending.ended)

    def _again(self, marker: _Marker) -> None:
        self._later[marker] = None
        if not self._is_pausing:
            self._is_pausing = True
            self._timers.call_at(self._clock.monotonic_ms() + RETRY_MS, self._pause_is_over)

    def _pause_is_over(self) -> None:
        self._is_pausing = False
        self._dispatch()

    def _is_wanted(self, marker: _Marker) -> bool:
        ending = marker.ending
        key = (ending.coordinator_partition, ending.ended.transactional_id)
        return self._endings.get(key) is ending and marker.partition in ending.left


def _written(ending: _Ending, partitions: list[TopicPartition]) -> WriteTxnMarkersRequest.WritableTxnMarker:
    ended = ending.ended
    return WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=ended.producer_id,
        producer_epoch=ended.producer_epoch,
        transaction_result=ended.committed,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, indexes)
            for topic, indexes in partitions_by_topic(partitions).items()
        ],
        coordinator_epoch=ending.coordinator_epoch,
        transaction_version=ended.client_version,
    )


def _errors(response: WriteTxnMarkersResponse) -> Mapping[tuple[int, TopicPartition], ErrorCode]:
    """The errors in an answer by producer id and partition."""
    return {
        (marker.producer_id, (topic.name, partition.partition_index)): ErrorCode.of(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
