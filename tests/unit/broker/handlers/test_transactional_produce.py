"""Produce with transactional batches: who may, what the first write of a transaction waits for, and what read
committed sees."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import list_offsets
from broker.replication.reading import READ_COMMITTED
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.produce import ProduceRequest
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import NO_ANSWER, CloseConnection, Pending
from storage.errors import AppendRefused
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.support.rigs.transactional_broker import TransactionalBroker, errors_of

Topic = ProduceRequest.TopicProduceData
Entry = ProduceRequest.PartitionProduceData


@pytest.fixture
def broker() -> TransactionalBroker:
    return TransactionalBroker()


def stable_end(broker: HandlerRig, index: int = 0) -> int:
    """The latest offset that a reader of committed records is told."""
    asked = ListOffsetsRequest.ListOffsetsTopic("t", [ListOffsetsRequest.ListOffsetsPartition(index, -1, -1)])
    request = ListOffsetsRequest(-1, READ_COMMITTED, [asked])
    answer: Any = list_offsets.handle(broker.services, broker.context(ApiKey.LIST_OFFSETS, 7), request)
    return int(answer.topics[0].partitions[0].offset)


def test_a_partition_enters_a_transaction_by_being_written_to(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    assert broker.produced(producer, {0: 0, 2: 0}) == [0, 0]
    assert broker.state() == "Ongoing"
    assert [broker.log("t", index).log_end_offset for index in range(3)] == [1, 0, 1]
    assert stable_end(broker) == 0
    answer = broker.end(producer)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer[0], 1)
    assert broker.state() == "CompleteCommit"
    assert [stable_end(broker, index) for index in range(3)] == [2, 0, 2]


def test_only_the_first_write_on_a_partition_asks_the_coordinator(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    assert broker.produced(producer, 0) == [0]
    assert len(broker.sent) == 1
    answer = broker.produce(producer, 1)
    assert errors_of(answer) == [0], "the second one is answered at once"
    assert len(broker.sent) == 1
    broker.end(producer)
    assert broker.produced((producer[0], 1), 0) == [0]
    asked = [each for each in broker.sent if isinstance(each, AddPartitionsToTxnRequest)]
    assert len(asked) == 2, "each transaction is asked for anew"


def test_a_late_write_of_an_ended_transaction_is_fenced(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    broker.produced(producer, 0)
    broker.end(producer, commit=False)
    assert broker.produced(producer, 1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert broker.produced(producer, {1: 0}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert stable_end(broker) == broker.log("t").log_end_offset == 2


@pytest.mark.parametrize(
    ("version", "error"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_an_older_producer_must_have_added_the_partition(
    broker: TransactionalBroker, version: int, error: ErrorCode
) -> None:
    producer = broker.begin()
    add_partitions(broker, producer, 1)
    answer = broker.produce(producer, {0: 0, 1: 0}, version=version)
    broker.timers.run_soon()
    assert errors_of(answer) == [error, 0]
    assert [broker.log("t", index).log_end_offset for index in range(2)] == [0, 1]
    (refused, _) = answer.response.responses[0].partition_responses
    told = "Partition was not added to the transaction" if version == 10 else None
    assert refused.error_message == told
    add_partitions(broker, producer, 0)
    assert broker.produced(producer, 0, version=version) == [0]


def add_partitions(broker: TransactionalBroker, producer: tuple[int, int], *indexes: int) -> None:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("t", list(indexes))
    request = AddPartitionsToTxnRequest([], "tx", *producer, [topic])
    answer = broker.answered(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)
    (results,) = answer.results_by_topic_v3_and_below
    assert [each.partition_error_code for each in results.results_by_partition] == [0] * len(indexes)


# Waiting for the coordinator


class Asked:
    """A producer whose coordinator answers when it is told to."""

    def __init__(self) -> None:
        self.rig = HandlerRig()
        self.rig.topic("t", 3)
        self.coordinator = self.rig.asked_coordinator
        self.coordinator.holds = True

    def batch(self, sequence: int, producer_id: int = 7) -> memoryview:
        return memoryview(
            self.rig.batch(
                producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
            )
        )

    def send(self, *parts: tuple[int, memoryview], version: int = 12, acks: int = -1) -> Any:
        topic = Topic("t", topic_id(1), [Entry(*part) for part in parts])
        request = ProduceRequest("tx", acks, 1000, [topic])
        return TransactionalBroker.ask(self.rig, ApiKey.PRODUCE, request, version)  # type: ignore[arg-type]

    def write_marker(self) -> None:
        """Of the transaction before, to partition 0."""
        marker = build_marker_batch(
            TransactionMarker(True, 1),
            timestamp_ms=1,
            producer_id=7,
            producer_epoch=0,
        )
        self.rig.log("t").append_internal(marker, leader_epoch=0, now_ms=1)

    def end_offset(self, index: int = 0) -> int:
        return self.rig.log("t", index).log_end_offset


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_the_batch_is_the_one_that_came_though_its_bytes_are_gone(asked: Asked) -> None:
    batch = asked.batch(0)
    kept = bytes(batch)
    answer = asked.send((0, batch))
    asked.rig.timers.run_soon()
    batch[:] = b"\xdd" * len(batch)
    assert asked.end_offset() == 0
    asked.coordinator.answer_held()
    assert errors_of(answer) == [0]
    found = asked.rig.log("t").read(0, max_bytes=1000, up_to_offset=1)
    assert found is not None
    assert found.read()[16:] == kept[16:]


def test_what_a_producer_sends_meanwhile_waits_behind_and_others_go_on(asked: Asked) -> None:
    first = asked.send((0, asked.batch(0)))
    second, elsewhere = asked.send((0, asked.batch(1))), asked.send((1, asked.batch(0)))
    asked.rig.timers.run_soon()
    plain = TransactionalBroker.ask(
        asked.rig,  # type: ignore[arg-type]
        ApiKey.PRODUCE,
        ProduceRequest(None, -1, 1000, [Topic("t", topic_id(1), [Entry(0, memoryview(asked.rig.batch()))])]),
        12,
    )
    assert errors_of(plain) == [0]
    assert [each.done for each in (first, second, elsewhere)] == [False] * 3
    asked.coordinator.answer_held()
    assert errors_of(first) == errors_of(second) == [0]
    assert not elsewhere.done
    asked.coordinator.answer_held()
    assert errors_of(elsewhere) == [0]
    places = [place for _, place, _ in asked.coordinator.asked]
    assert places == [("t", 0), ("t", 1)], "the second batch found the transaction open"


def test_a_batch_behind_a_refused_one_may_not_overtake_it(asked: Asked) -> None:
    first, second = asked.send((0, asked.batch(0))), asked.send((0, asked.batch(1)))
    asked.rig.timers.run_soon()
    asked.coordinator.errors["t", 0] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    asked.coordinator.answer_held()
    assert errors_of(first) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    asked.coordinator.errors.clear()
    asked.coordinator.answer_held()
    assert errors_of(second) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    again = asked.send((0, asked.batch(0)))
    asked.rig.timers.run_soon()
    asked.coordinator.answer_held()
    assert errors_of(again) == [0]


@pytest.mark.parametrize(
    ("told", "version", "becomes"),
    [
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_what_a_producer_is_told_of_the_coordinator_s_errors(
    asked: Asked, told: ErrorCode, version: int, becomes: ErrorCode
) -> None:
    asked.coordinator.errors["t", 1] = told
    answer = asked.send((1, asked.batch(0)), (0, asked.batch(0)), version=version)
    asked.rig.timers.run_soon()
    asked.coordinator.answer_held()
    assert errors_of(answer) == [becomes, 0]
    assert (asked.end_offset(1), asked.end_offset(0)) == (0, 1)
    refused = answer.response.responses[0].partition_responses[0]
    if becomes is ErrorCode.NOT_ENOUGH_REPLICAS:
        assert refused.error_message == (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {told.name}"
        )


def test_an_end_that_is_under_way_is_waited_out_for_a_moment(asked: Asked) -> None:
    asked.coordinator.errors["t", 0] = ErrorCode.CONCURRENT_TRANSACTIONS
    asked.coordinator.holds = False
    patient = asked.send((0, asked.batch(0)))
    asked.rig.timers.advance(50)
    assert not patient.done
    asked.coordinator.errors.clear()
    asked.rig.timers.advance(20)
    assert errors_of(patient) == [0]
    asked.coordinator.errors["t", 1] = ErrorCode.CONCURRENT_TRANSACTIONS
    late = asked.send((1, asked.batch(0)))
    asked.rig.timers.advance(200)
    assert errors_of(late) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_a_marker_that_comes_while_the_coordinator_is_asked(asked: Asked) -> None:
    """The answer may be about the transaction that the marker has ended, so it is asked once more."""
    asked.coordinator.errors["t", 1] = ErrorCode.TRANSACTION_ABORTABLE
    answer = asked.send((0, asked.batch(0)), (1, asked.batch(0)))
    asked.rig.timers.run_soon()
    asked.write_marker()
    asked.coordinator.answer_held()
    assert not answer.done
    asked.coordinator.answer_held()
    assert errors_of(answer) == [0, ErrorCode.TRANSACTION_ABORTABLE]
    places = [place for _, place, _ in asked.coordinator.asked]
    assert places == [("t", 0), ("t", 1)] * 2
    assert asked.end_offset() == 2


def test_a_marker_that_comes_while_the_coordinator_says_no(asked: Asked) -> None:
    asked.coordinator.errors["t", 0] = ErrorCode.TRANSACTION_ABORTABLE
    answer = asked.send((0, asked.batch(0)))
    asked.rig.timers.run_soon()
    asked.write_marker()
    asked.coordinator.answer_held()
    assert errors_of(answer) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("replicas", [(1, 2), (2,)], ids=["not led yet", "not hosted yet"])
def test_a_partition_that_comes_while_the_coordinator_is_asked_for_others(
    asked: Asked, replicas: tuple[int, ...]
) -> None:
    """Nobody has asked for it, so its batch would begin a transaction that no marker ends."""
    rig = asked.rig
    rig.apply(rig.broker_record(2))
    made = rig.topic("r", number=2, replicas=replicas, leader=2)
    request = ProduceRequest(
        "tx",
        1,
        1000,
        [
            Topic("t", topic_id(1), [Entry(0, asked.batch(0))]),
            Topic("r", topic_id(2), [Entry(0, asked.batch(0))]),
        ],
    )

    def send() -> Any:
        return TransactionalBroker.ask(rig, ApiKey.PRODUCE, request, 12)  # type: ignore[arg-type]

    answer = send()
    rig.timers.run_soon()
    rig.apply(PartitionChangeRecord(partition_id=0, topic_id=made, replicas=[1, 2], isr=[1, 2], leader=1))
    asked.coordinator.answer_held()
    assert errors_of(answer) == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert rig.log("r").log_end_offset == 0
    again = send()
    rig.timers.run_soon()
    asked.coordinator.answer_held()
    assert errors_of(again) == [0, 0]
    assert [place for _, place, _ in asked.coordinator.asked] == [("t", 0), ("r", 0)]


def test_nobody_coordinates_the_transaction(asked: Asked) -> None:
    asked.coordinator.is_there = False
    answer = asked.send((0, asked.batch(0)))
    asked.rig.timers.run_soon()
    assert errors_of(answer) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_client_that_has_gone_has_written_all_the_same(asked: Asked) -> None:
    answer = asked.send((0, asked.batch(0)))
    asked.rig.timers.run_soon()
    answer.cancel()
    asked.coordinator.answer_held()
    assert asked.end_offset() == 1


def test_a_producer_that_wants_no_answer_is_verified_too(asked: Asked) -> None:
    answer = asked.send((0, asked.batch(0)), acks=0)
    asked.rig.timers.run_soon()
    asked.coordinator.answer_held()
    assert answer.response is NO_ANSWER
    assert asked.end_offset() == 1
    asked.coordinator.errors["t", 1] = ErrorCode.PRODUCER_FENCED
    refused = asked.send((1, asked.batch(0)), acks=0)
    asked.rig.timers.run_soon()
    asked.coordinator.answer_held()
    assert isinstance(refused.response, CloseConnection)


def test_with_replicas_the_answer_waits_for_them_too() -> None:
    asked = Asked()
    asked.rig.apply(asked.rig.broker_record(2))
    asked.rig.topic("r", replicas=(1, 2), number=2)
    topic = Topic("r", topic_id(2), [Entry(0, asked.batch(0))])
    answer = TransactionalBroker.ask(
        asked.rig,  # type: ignore[arg-type]
        ApiKey.PRODUCE,
        ProduceRequest("tx", -1, 1000, [topic]),
        12,
    )
    asked.rig.timers.run_soon()
    asked.coordinator.answer_held()
    assert not answer.done
    asked.rig.replicas.by_name["r", 0].follower_fetched(2, 1, 0, now_ms=0)
    assert errors_of(answer) == [0]


def test_verification_can_be_switched_off_for_producers_that_add_their_partitions(asked: Asked) -> None:
    asked.coordinator.first_writes.is_enabled = False
    assert errors_of(asked.send((0, asked.batch(0)), version=11)) == [0]
    assert asked.coordinator.asked == []
    answer = asked.send((1, asked.batch(0)), version=12)
    asked.rig.timers.run_soon()
    assert isinstance(answer, Pending)
    assert [verify for _, _, verify in asked.coordinator.asked] == [False]


# Who may


def test_a_transactional_batch_needs_the_right_to_its_transactional_id(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    denied = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert broker.produced(producer, name=None) == denied
    broker.deny(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx")
    assert broker.produced(producer) == denied
    with pytest.raises(CloseConnection):
        broker.produce(producer, acks=0)
    assert broker.log("t").log_end_offset == 0


def test_a_topic_that_may_not_be_written_is_not_added(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    broker.deny(Operation.WRITE, ResourceType.TOPIC, "t")
    assert broker.produced(producer) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert not broker.sent
    assert broker.state() == "Empty"


def test_one_request_is_of_one_producer(asked: Asked) -> None:
    answer = asked.send((0, asked.batch(0)), (1, asked.batch(0, producer_id=8)))
    assert errors_of(answer) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    told = answer.responses[0].partition_responses[0].error_message
    assert told == "Transactional records contained more than one producer ID"


def test_a_header_that_is_cut_off_is_the_log_s_business(asked: Asked) -> None:
    answer = asked.send((0, asked.batch(0)[:40]))
    assert errors_of(answer)[0] not in (0, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_log_of_a_broker_takes_no_transaction_for_which_nobody_was_asked(asked: Asked) -> None:
    """Not even as its very first one, as in a log that was made while the coordinator was asked."""
    with pytest.raises(AppendRefused) as caught:
        asked.rig.write("t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert caught.value.error_code == ErrorCode.INVALID_TXN_STATE
    assert asked.end_offset() == 0
