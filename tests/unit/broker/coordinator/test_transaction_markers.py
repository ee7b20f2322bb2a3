"""Markers reach every partition of an ended transaction, whoever leads it by then and whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.coordinator.transaction.transaction_markers import RETRIABLE, RETRY_MS, TransactionMarkers
from broker.coordinator.transaction.transaction_operation import EndedTransaction
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.support.rigs.hand_clock import HandClock, HandTimers

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
Asked = tuple[int, WriteTxnMarkersRequest, Callable[[Message | None], None]]


class Brokers:
    """Who leads, and the requests on their way."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.leaders: dict[tuple[str, int], int | None] = {A0: 1, A1: 2, B0: 1}
        self.asked: list[Asked] = []
        self.written: list[tuple[int, EndedTransaction]] = []
        self.markers = TransactionMarkers(
            leaders=self,
            channel=self,
            clock=self.clock,
            timers=self.timers,
            on_written=lambda index, ended: self.written.append((index, ended)),
        )

    def leader(self, topic: str, index: int) -> int | None:
        return self.leaders.get((topic, index))

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message | None], None]) -> None:
        assert isinstance(request, WriteTxnMarkersRequest)
        self.asked.append((broker_id, request, on_response))

    def end(
        self, transactional_id: str = "t", *partitions: tuple[str, int], epoch: int = 1
    ) -> EndedTransaction:
        ended = EndedTransaction(transactional_id, 1000, epoch, True, frozenset(partitions), 2)
        self.markers.send(7, 3, ended)
        self.timers.run_soon()
        return ended

    def waiting(self) -> list[tuple[int, list[tuple[str, int]]]]:
        """By broker the partitions that it is asked about."""
        return [(broker_id, _partitions(request)) for broker_id, request, _ in self.asked]

    def answer(self, error: ErrorCode = ErrorCode.NONE, **of_topic: ErrorCode) -> None:
        """The oldest request."""
        _, request, on_response = self.asked.pop(0)
        marker = request.markers[0]
        on_response(
            WriteTxnMarkersResponse(
                [
                    WriteTxnMarkersResponse.WritableTxnMarkerResult(
                        marker.producer_id,
                        [
                            WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                                topic.name,
                                [
                                    WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                                        index, of_topic.get(topic.name, error)
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in request.markers
                ]
            )
        )
        assert marker.coordinator_epoch == 3
        self.timers.run_soon()


def _partitions(request: WriteTxnMarkersRequest) -> list[tuple[str, int]]:
    return [
        (topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    brokers = Brokers()
    ended = brokers.end("t", A0, A1, B0)
    assert brokers.waiting() == [(1, [A0, B0]), (2, [A1])]
    brokers.answer()
    assert not brokers.written
    brokers.answer()
    assert brokers.written == [(7, ended)]
    assert len(brokers.markers) == 0


@pytest.mark.parametrize("error", [*sorted(RETRIABLE), ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_partition_is_asked_again_until_it_has_its_marker(error: ErrorCode) -> None:
    brokers = Brokers()
    ended = brokers.end("t", A0, B0)
    for _ in range(3):
        brokers.answer(b=error)
        assert not brokers.asked
        brokers.timers.advance(RETRY_MS)
        assert brokers.waiting() == [(1, [B0])]
    brokers.answer()
    assert brokers.written == [(7, ended)]


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    brokers = Brokers()
    ended = brokers.end("t", A1)
    brokers.asked.pop()[2](None)
    brokers.leaders[A1] = 1
    brokers.timers.advance(RETRY_MS)
    assert brokers.waiting() == [(1, [A1])]
    brokers.answer()
    assert brokers.written == [(7, ended)]


def test_without_a_leader_a_marker_waits_for_one() -> None:
    brokers = Brokers()
    brokers.leaders[A0] = -1
    ended = brokers.end("t", A0)
    brokers.timers.advance(10 * RETRY_MS)
    assert not brokers.asked
    brokers.leaders[A0] = 5
    brokers.timers.advance(RETRY_MS)
    assert brokers.waiting() == [(5, [A0])]
    brokers.answer()
    assert brokers.written == [(7, ended)]


def test_a_partition_that_is_deleted_needs_no_marker() -> None:
    brokers = Brokers()
    del brokers.leaders[B0]
    ended = brokers.end("t", B0)
    assert brokers.written == [(7, ended)]
    ended = brokers.end("u", A0)
    del brokers.leaders[A0]
    brokers.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    brokers.timers.advance(RETRY_MS)
    assert brokers.written[1:] == [(7, ended)]


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_what_another_coordinator_has_ended_is_not_recorded_here(error: ErrorCode) -> None:
    brokers = Brokers()
    brokers.end("t", A0, A1)
    brokers.answer(error)
    brokers.answer()
    brokers.timers.advance(10 * RETRY_MS)
    assert (brokers.written, brokers.asked, len(brokers.markers)) == ([], [], 0)


def test_what_comes_while_a_broker_is_busy_goes_in_one_request() -> None:
    brokers = Brokers()
    first = brokers.end("t", A0)
    others = [brokers.end(name, A0, B0) for name in "uvw"]
    assert brokers.waiting() == [(1, [A0])]
    brokers.answer()
    assert brokers.waiting() == [(1, [A0, B0] * 3)]
    brokers.answer()
    assert [ended for _, ended in brokers.written] == [first, *others]


def test_a_coordinator_that_resigns_sends_nothing_more() -> None:
    brokers = Brokers()
    brokers.end("t", A0, B0)
    brokers.markers.forget(7)
    brokers.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    brokers.timers.advance(10 * RETRY_MS)
    assert (brokers.written, brokers.asked) == ([], [])


def test_what_is_sent_for_an_id_again_takes_the_place_of_what_was_sent() -> None:
    brokers = Brokers()
    brokers.end("t", A0)
    again = brokers.end("t", A0)
    brokers.answer()
    assert not brokers.written
    brokers.answer()
    assert brokers.written == [(7, again)]
