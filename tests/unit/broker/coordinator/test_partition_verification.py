"""What a leader asks transaction coordinators before it takes the first batch of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from broker.coordinator.transaction.partition_verification import (
    PartitionVerification,
    Producer,
    Support,
    VerificationSettings,
)
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.support.rigs.hand_clock import HandClock, HandTimers

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
ONE, TWO = Producer("one", 1000, 0), Producer("two", 2000, 3)
Errors = Mapping[tuple[str, int], ErrorCode]


class Brokers:
    """Who coordinates, the requests on their way, and what was told in the end."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.coordinators: dict[str, int | None] = {"one": 1, "two": 1}
        self.asked: list[tuple[int, AddPartitionsToTxnRequest, Callable[[Message | None], None]]] = []
        self.told: list[tuple[str, Errors]] = []
        self.markers: dict[str, int] = {}
        """Whose transaction has ended while its next one was asked for."""
        self.verification = PartitionVerification(
            VerificationSettings(), coordinators=self, channel=self, clock=self.clock, timers=self.timers
        )

    def coordinator(self, transactional_id: str) -> int | None:
        return self.coordinators[transactional_id]

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message | None], None]) -> None:
        assert isinstance(request, AddPartitionsToTxnRequest)
        self.asked.append((broker_id, request, on_response))

    def ask(
        self, producer: Producer, *partitions: tuple[str, int], support: Support = Support.ADDS_PARTITIONS
    ) -> None:
        name = producer.transactional_id
        self.verification.ask(
            producer,
            lambda: partitions,
            support,
            lambda errors: bool(self.markers.pop(name, 0)),
            lambda errors: self.told.append((name, dict(errors))),
        )
        self.timers.run_soon()

    def waiting(self) -> list[tuple[int, list[str]]]:
        """By broker the transactions that it is asked about."""
        return [
            (broker_id, [each.transactional_id for each in request.transactions])
            for broker_id, request, _ in self.asked
        ]

    def answer(self, error: ErrorCode = ErrorCode.NONE, **of_topic: ErrorCode) -> None:
        """The oldest request."""
        response = AddPartitionsToTxnResponse
        _, request, on_response = self.asked.pop(0)
        on_response(
            response(
                results_by_transaction=[
                    response.AddPartitionsToTxnResult(
                        each.transactional_id,
                        [
                            response.AddPartitionsToTxnTopicResult(
                                topic.name,
                                [
                                    response.AddPartitionsToTxnPartitionResult(
                                        index, of_topic.get(topic.name, error)
                                    )
                                    for index in topic.partitions
                                ],
                            )
                            for topic in each.topics
                        ],
                    )
                    for each in request.transactions
                ]
            )
        )
        self.timers.run_soon()


@pytest.mark.parametrize(
    ("support", "verify_only"),
    [(Support.OLD_ERRORS, True), (Support.ABORTABLE, True), (Support.ADDS_PARTITIONS, False)],
)
def test_partitions_are_added_for_newer_producers_and_verified_for_older(
    support: Support, verify_only: bool
) -> None:
    brokers = Brokers()
    brokers.ask(TWO, A0, A1, B0, support=support)
    _, request, _ = brokers.asked[0]
    (asked,) = request.transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("two", 2000, 3)
    assert asked.verify_only is verify_only
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("a", [0, 1]), ("b", [0])]
    brokers.answer(b=ErrorCode.INVALID_TXN_STATE)
    assert brokers.told == [("two", {B0: ErrorCode.INVALID_TXN_STATE})]


def test_one_request_is_under_way_to_a_broker_and_takes_all_that_waits() -> None:
    brokers = Brokers()
    brokers.coordinators["three"] = 2
    brokers.ask(ONE, A0)
    brokers.ask(TWO, A0)
    brokers.ask(Producer("three", 3000, 0), A0)
    assert brokers.waiting() == [(1, ["one"]), (2, ["three"])]
    brokers.answer()
    assert brokers.told == [("one", {})]
    assert brokers.waiting() == [(2, ["three"]), (1, ["two"])]


def test_two_producers_of_one_transactional_id_share_no_request() -> None:
    """The answer names the transactional id alone."""
    brokers = Brokers()
    zombie = Producer("two", 2001, 0)
    for producer in (ONE, TWO, zombie):
        brokers.ask(producer, A0)
    brokers.ask(Producer("one", 1001, 0), A0)
    brokers.answer()
    assert brokers.waiting() == [(1, ["two", "one"])]
    brokers.answer()
    assert brokers.waiting() == [(1, ["two"])]
    assert brokers.asked[0][1].transactions[0].producer_id == zombie.producer_id
    brokers.answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    refused = {A0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert brokers.told == [("one", {}), ("two", {}), ("one", {}), ("two", refused)]


def test_what_one_producer_asks_is_asked_in_its_order_and_one_by_one() -> None:
    brokers = Brokers()
    brokers.ask(ONE, A0)
    brokers.ask(ONE, B0)
    brokers.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not brokers.asked
    assert not brokers.told, "the second may not overtake the first, which is asked again"
    brokers.timers.advance(20)
    brokers.answer()
    brokers.answer(ErrorCode.INVALID_TXN_STATE)
    assert brokers.told == [("one", {}), ("one", {B0: ErrorCode.INVALID_TXN_STATE})]


def test_a_transaction_that_is_still_ending_is_waited_out_for_a_moment() -> None:
    brokers = Brokers()
    brokers.ask(ONE, A0)
    for _ in range(5):
        brokers.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        brokers.timers.advance(20)
    assert not brokers.told
    brokers.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert brokers.told == [("one", {A0: ErrorCode.CONCURRENT_TRANSACTIONS})]
    brokers.ask(ONE, A0, support=Support.ABORTABLE)
    brokers.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert len(brokers.told) == 2, "older producers try again themselves"


def test_a_marker_that_comes_meanwhile_is_a_reason_to_ask_again() -> None:
    brokers = Brokers()
    brokers.ask(ONE, A0)
    brokers.ask(ONE, B0)
    brokers.markers["one"] = 1
    brokers.answer()
    assert (brokers.waiting(), brokers.told) == ([(1, ["one"])], [])
    brokers.answer()
    brokers.timers.run_soon()
    brokers.answer()
    assert brokers.told == [("one", {})] * 2


@pytest.mark.parametrize("coordinator", [None, -1])
def test_without_a_coordinator_nobody_is_asked(coordinator: int | None) -> None:
    brokers = Brokers()
    brokers.coordinators["one"] = coordinator
    brokers.ask(ONE, A0, B0)
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (brokers.asked, brokers.told) == ([], [("one", {A0: error, B0: error})])


def test_no_answer_and_an_answer_that_lacks_the_partition_are_told_alike() -> None:
    brokers = Brokers()
    brokers.ask(ONE, A0)
    _, _, on_response = brokers.asked.pop(0)
    on_response(None)
    brokers.ask(ONE, A0)
    _, _, on_response = brokers.asked.pop(0)
    on_response(AddPartitionsToTxnResponse())
    assert brokers.told == [("one", {A0: ErrorCode.NETWORK_EXCEPTION})] * 2


@pytest.mark.parametrize(
    ("error", "support", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, Support.ADDS_PARTITIONS, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, Support.OLD_ERRORS, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, Support.ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Support.OLD_ERRORS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_errors_are_those_that_the_producer_knows(
    error: ErrorCode, support: Support, told: ErrorCode
) -> None:
    brokers = Brokers()
    brokers.ask(ONE, A0, support=support)
    brokers.answer(error)
    assert brokers.told == [("one", {A0: told})]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_of_the_whole_request_is_that_of_each_partition(error: ErrorCode, told: ErrorCode) -> None:
    brokers = Brokers()
    brokers.ask(ONE, A0, B0)
    _, _, on_response = brokers.asked.pop(0)
    on_response(AddPartitionsToTxnResponse(error_code=error))
    assert brokers.told == [("one", {A0: told, B0: told})]
