"""The transaction coordinator with brokers that write markers: from the first epoch to the last marker, and
through a change of leadership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.coordinator.ports import CoordinatorEndpoint
from broker.coordinator.transaction.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from broker.coordinator.transaction.transaction_descriptions import TransactionFilter
from broker.coordinator.transaction.transaction_operation import TransactionSettings
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.support.rigs.group_world import MemoryLog, now
from tests.support.rigs.hand_clock import HandClock, HandTimers

PARTITIONS = [("a", 0), ("b", 1)]


class Cluster:
    """One broker that leads everything, and writes every marker unless it is told not to."""

    def __init__(self) -> None:
        self.clock = HandClock(wall_ms=0)
        self.timers = HandTimers(self.clock)
        self.log = MemoryLog()
        self.markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = []
        self.takes_markers = True
        self.has_topic = False
        self.partitions = 4
        self.grants: list[Callable[[int, ErrorCode], None]] = []
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            TransactionSettings(transaction_state_log_num_partitions=4),
            writer=self.log,
            reader=self.log,
            cluster=self,
            topics=self,
            clock=self.clock,
            timers=self.timers,
            producer_ids=self,
            server_version=lambda: 2,
            leaders=self,
            channel=self,
        )

    def elect(self, leader_epoch: int) -> None:
        for index in range(4):
            self.coordinator.elected(index, leader_epoch)
        self.timers.run_soon()

    # What the coordinator asks of the cluster

    def partition_count(self, name: str) -> int | None:
        return self.partitions if name == TRANSACTION_TOPIC and self.has_topic else None

    def topic_id(self, name: str) -> None:
        return None

    def topic_name(self, topic_id: bytes) -> None:
        return None

    def leader_endpoint(self, topic: str, index: int, listener: str) -> CoordinatorEndpoint | None:
        return CoordinatorEndpoint(1, listener, 9092)

    def ensure(self, topic: str) -> bool:
        existed, self.has_topic = self.has_topic, True
        return existed

    def allocate(self, grant: Callable[[int, ErrorCode], None]) -> None:
        self.grants.append(grant)

    def leader(self, topic: str, index: int) -> int | None:
        return 1

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message | None], None]) -> None:
        assert isinstance(request, WriteTxnMarkersRequest)

        def answer() -> None:
            if not self.takes_markers:
                on_response(None)
                return
            self.markers += request.markers
            on_response(_taken(request))

        self.timers.call_soon(answer)


def _taken(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse
    return response(
        [
            response.WritableTxnMarkerResult(
                marker.producer_id,
                [
                    response.WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            response.WritableTxnMarkerPartitionResult(index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def init(cluster: Cluster) -> Any:
    return now(cluster.coordinator.init_producer_id("t", InitProducerIdRequest("t", 60_000)))


def begun() -> Cluster:
    """A producer has epoch 0 of producer id 77, and partitions in its transaction."""
    cluster = Cluster()
    cluster.elect(5)
    assert init(cluster).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.grants.pop()(77, ErrorCode.NONE)
    assert init(cluster).producer_id == 77
    assert now(cluster.coordinator.add_partitions("t", (77, 0), PARTITIONS, 2)) is ErrorCode.NONE
    return cluster


def test_a_transaction_from_the_first_epoch_to_the_last_marker() -> None:
    cluster = begun()
    coordinator = cluster.coordinator
    verified = now(coordinator.verify_partitions("t", (77, 0), [*PARTITIONS, ("c", 0)]))
    assert verified == {
        ("a", 0): ErrorCode.NONE,
        ("b", 1): ErrorCode.NONE,
        ("c", 0): ErrorCode.TRANSACTION_ABORTABLE,
    }
    ended = now(coordinator.end_transaction(EndTxnRequest("t", 77, 0, True), 2))
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, 77, 1)
    assert coordinator.describe("t").transaction_state == "PrepareCommit"
    cluster.timers.run_soon()
    (marker,) = cluster.markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (1, True, 5)
    assert marker.transaction_version == 2
    assert coordinator.describe("t").transaction_state == "CompleteCommit"
    listed = coordinator.list_transactions(TransactionFilter(states=["CompleteCommit", "nonsense"]))
    assert listed is not None
    assert [each and each.transactional_id for each in listed] == ["t"]


def test_the_next_coordinator_writes_the_markers_in_its_own_epoch() -> None:
    cluster = begun()
    cluster.takes_markers = False
    now(cluster.coordinator.end_transaction(EndTxnRequest("t", 77, 0, False), 2))
    cluster.timers.advance(3_000)
    cluster.coordinator.close()
    refused = now(cluster.coordinator.end_transaction(EndTxnRequest("t", 77, 0, False), 2))
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    cluster.takes_markers = True
    cluster.timers.advance(3_000)
    assert not cluster.markers
    cluster.coordinator = cluster.new_coordinator()
    cluster.elect(6)
    cluster.timers.advance(1_000)
    (marker,) = cluster.markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (1, False, 6)
    assert cluster.coordinator.describe("t").transaction_state == "CompleteAbort"


def test_the_topic_is_made_when_the_first_coordinator_is_looked_for() -> None:
    cluster = Cluster()
    assert cluster.coordinator.locate("t", "EXTERNAL") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.coordinator.locate("t", "EXTERNAL") == (1, "EXTERNAL", 9092)


def test_while_a_partition_loads_nothing_is_listed() -> None:
    cluster = Cluster()
    cluster.coordinator.elected(0, 1)
    assert cluster.coordinator.list_transactions(TransactionFilter()) is None


def test_news_of_an_older_leadership_changes_nothing() -> None:
    cluster = begun()
    for index in range(4):
        cluster.coordinator.resigned(index, 4)
    assert cluster.coordinator.describe("t").transaction_state == "Ongoing"
    for index in range(4):
        cluster.coordinator.resigned(index, 5)
    assert cluster.coordinator.describe("t").error_code == ErrorCode.NOT_COORDINATOR


def test_more_partitions_leave_running_brokers_with_what_they_coordinate() -> None:
    """As in Kafka, where a broker knows the partition count of its start."""
    cluster = Cluster()
    cluster.has_topic = True
    cluster.elect(5)
    init(cluster)
    cluster.grants.pop()(77, ErrorCode.NONE)
    first = init(cluster)
    cluster.partitions = 7
    cluster.coordinator.topics_changed({}, frozenset({TRANSACTION_TOPIC}))
    second = init(cluster)
    assert (second.producer_id, second.producer_epoch) == (77, first.producer_epoch + 1)
