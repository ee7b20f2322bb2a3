"""The APIs of transactions beside Produce: who may, what each version is told, markers, pending offsets."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.handlers import write_txn_markers
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import GroupWorld
from tests.support.rigs.handler_rig import topic_id
from tests.support.rigs.transactional_broker import TransactionalBroker

DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
AddTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


@pytest.fixture
def broker() -> TransactionalBroker:
    return TransactionalBroker()


# FindCoordinator, InitProducerId, EndTxn


def test_the_coordinator_of_a_transactional_id(broker: TransactionalBroker) -> None:
    broker.deny(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "secret")
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx", "secret"])
    good, bad = broker.answered(ApiKey.FIND_COORDINATOR, request).coordinators
    assert (good.key, good.node_id, good.error_code) == ("tx", 1, 0)
    assert (bad.key, bad.node_id, bad.error_code) == ("secret", -1, DENIED)


def test_a_transactional_id_belongs_to_whoever_may_write_with_it(broker: TransactionalBroker) -> None:
    producer = broker.begin("open")
    broker.deny(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx")
    assert broker.answered(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("tx", 1)).error_code == DENIED
    assert broker.end(producer).error_code == DENIED
    answer = broker.answered(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest("tx", *producer, "g"))
    assert answer.error_code == DENIED
    topics = [AddTopic("t", [0, 1])]
    added = broker.answered(
        ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest([], "tx", *producer, topics), 3
    )
    assert told(added.results_by_topic_v3_and_below) == {("t", 0): DENIED, ("t", 1): DENIED}
    committed = broker.commit_offset(producer, 5)
    assert committed.topics[0].partitions[0].error_code == DENIED


def told(topics: list[Any]) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode.of(each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    }


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 3)])
def test_id_and_epoch_come_together(broker: TransactionalBroker, producer_id: int, epoch: int) -> None:
    request = InitProducerIdRequest("tx", 60_000, producer_id, epoch)
    assert broker.answered(ApiKey.INIT_PRODUCER_ID, request).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "version", "error"),
    [
        (ApiKey.INIT_PRODUCER_ID, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.INIT_PRODUCER_ID, 4, ErrorCode.PRODUCER_FENCED),
        (ApiKey.END_TXN, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.END_TXN, 2, ErrorCode.PRODUCER_FENCED),
        (ApiKey.ADD_OFFSETS_TO_TXN, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.ADD_OFFSETS_TO_TXN, 2, ErrorCode.PRODUCER_FENCED),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 2, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_a_zombie_hears_the_error_that_it_knows(
    broker: TransactionalBroker, key: ApiKey, version: int, error: ErrorCode
) -> None:
    old = broker.begin()
    for _ in range(3):
        broker.begin()
    requests = {
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest("tx", 60_000, *old),
        ApiKey.END_TXN: EndTxnRequest("tx", *old, True),
        ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest("tx", *old, "g"),
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest([], "tx", *old, [AddTopic("t", [0])]),
    }
    answer = broker.answered(key, requests[key], version)
    if key is ApiKey.ADD_PARTITIONS_TO_TXN:
        assert told(answer.results_by_topic_v3_and_below) == {("t", 0): error}
    else:
        assert answer.error_code == error


# AddPartitionsToTxn, AddOffsetsToTxn


def test_one_partition_that_cannot_be_added_and_none_is(broker: TransactionalBroker) -> None:
    broker.deny(Operation.WRITE, ResourceType.TOPIC, "hidden")
    producer = broker.begin()
    topics = [AddTopic("t", [0, 9]), AddTopic("hidden", [0]), AddTopic(GROUP_TOPIC, [1])]
    request = AddPartitionsToTxnRequest([], "tx", *producer, topics)
    answer = broker.answered(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)
    assert told(answer.results_by_topic_v3_and_below) == {
        ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("hidden", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        (GROUP_TOPIC, 1): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert broker.state() == "Empty"


def test_a_broker_asks_for_several_transactions_at_once(broker: TransactionalBroker) -> None:
    one, two = broker.begin("one"), broker.begin("two")
    entry = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    request = AddPartitionsToTxnRequest(
        [
            entry("one", *one, False, [AddTopic("t", [0, 1])]),
            entry("two", *two, True, [AddTopic("t", [0])]),
            entry("nobody", 7, 0, False, [AddTopic("t", [2])]),
            entry("one", *one, True, [AddTopic("t", [1, 2])]),
        ]
    )
    answer = broker.answered(ApiKey.ADD_PARTITIONS_TO_TXN, request, 5)
    assert [(each.transactional_id, told(each.topic_results)) for each in answer.results_by_transaction] == [
        ("one", {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}),
        ("two", {("t", 0): ErrorCode.TRANSACTION_ABORTABLE}),
        ("nobody", {("t", 2): ErrorCode.INVALID_PRODUCER_ID_MAPPING}),
        ("one", {("t", 1): ErrorCode.NONE, ("t", 2): ErrorCode.TRANSACTION_ABORTABLE}),
    ]


def test_only_a_broker_may_ask_for_others(broker: TransactionalBroker) -> None:
    broker.deny(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    answer = broker.answered(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(), 4)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_offsets_enter_as_the_partition_of_their_group(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    request = AddOffsetsToTxnRequest("tx", *producer, "g")
    assert broker.answered(ApiKey.ADD_OFFSETS_TO_TXN, request).error_code == 0
    described = broker.services.transactions.describe("tx")
    index = broker.services.groups.partition_for("g")
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [(GROUP_TOPIC, [index])]
    broker.deny(Operation.READ, ResourceType.GROUP, "g")
    answer = broker.answered(ApiKey.ADD_OFFSETS_TO_TXN, request)
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


# TxnOffsetCommit


def offset(broker: TransactionalBroker, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
    """Error and offset of partition 0 of `t`."""
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics("t", partition_indexes=[0])]
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=topics)]
    answer = broker.answered(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=groups, require_stable=stable), 9)
    (found,) = answer.groups[0].topics[0].partitions
    return found.error_code, found.committed_offset


def settled(broker: TransactionalBroker, answer: Any) -> list[int]:
    """The error codes of an answer to TxnOffsetCommit."""
    broker.timers.run_soon()
    response = answer.response if isinstance(answer, Pending) else answer
    assert response is not None, "the answer is still pending"
    return [each.error_code for topic in response.topics for each in topic.partitions]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [3, 5])
def test_offsets_count_with_the_marker(broker: TransactionalBroker, version: int, commit: bool) -> None:
    producer = broker.begin()
    if version < 5:
        broker.answered(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest("tx", *producer, "g"))
    assert settled(broker, broker.commit_offset(producer, 5, version=version)) == [0]
    assert broker.state() == "Ongoing"
    assert offset(broker) == (0, -1)
    assert offset(broker, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert broker.end(producer, commit=commit, version=version).error_code == 0
    assert offset(broker, stable=True) == (0, 5 if commit else -1)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_offsets_of_a_group_that_was_not_added_are_refused(
    broker: TransactionalBroker, version: int, error: ErrorCode
) -> None:
    producer = broker.begin()
    assert settled(broker, broker.commit_offset(producer, 5, version=version)) == [error]
    index = broker.services.groups.partition_for("g")
    assert broker.log(GROUP_TOPIC, index).log_end_offset == 0


def test_an_unreachable_coordinator_is_asked_again_soon(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    broker.send = lambda broker_id, request, on_response: on_response(None)  # type: ignore[method-assign]
    answer = broker.commit_offset(producer, 5)
    assert settled(broker, answer) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    answer = broker.commit_offset(producer, 5, version=1)
    assert settled(broker, answer) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_some_topics_of_a_commit_are_refused_and_the_others_taken(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    answer = broker.commit_offset(producer, 5, indexes=[0, 9])
    assert settled(broker, answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    broker.deny(Operation.READ, ResourceType.TOPIC, "t")
    assert settled(broker, broker.commit_offset(producer, 6)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    broker.deny(Operation.READ, ResourceType.GROUP, "g")
    assert settled(broker, broker.commit_offset(producer, 7)) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    broker.end(producer)
    assert broker.services.transactions.describe("tx").transaction_state == "CompleteCommit"


@pytest.mark.parametrize("replicas", [[1, 2], [2]], ids=["not led", "not hosted"])
def test_offsets_that_wait_behind_a_batch_do_not_wait_for_a_leader(
    broker: TransactionalBroker, replicas: list[int]
) -> None:
    """Who becomes the coordinator meanwhile has asked nobody whether the group belongs to the transaction."""
    index = broker.services.groups.partition_for("g")
    broker.apply(broker.broker_record(2))

    def lead(broker_id: int, replicas: list[int]) -> None:
        broker.apply(
            PartitionChangeRecord(
                partition_id=index, topic_id=topic_id(90), replicas=replicas, isr=replicas, leader=broker_id
            )
        )

    lead(2, replicas)
    broker.services.groups.resigned(index)
    producer = broker.begin()
    broker.produce(producer)
    answer = broker.commit_offset(producer, 5)
    if replicas == [1, 2]:
        broker.timers.run_soon()
    lead(1, [1])
    broker.elect(2)
    assert settled(broker, answer) == [ErrorCode.NOT_COORDINATOR]
    assert broker.log(GROUP_TOPIC, index).log_end_offset == 0


def test_no_group_no_offsets(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    assert settled(broker, broker.commit_offset(producer, 5, group="")) == [ErrorCode.INVALID_GROUP_ID]


def test_a_member_commits_in_its_generation() -> None:
    """In a classic group, also while it rebalances; whoever names no member is not asked."""
    broker, world = TransactionalBroker(), GroupWorld()
    world.cluster.topics["t"] = 3
    broker.services.groups = world.groups
    (member,) = world.stable_group(1)
    producer = broker.begin()

    def commit(**fields: Any) -> list[int]:
        return settled(broker, broker.commit_offset(producer, 5, **fields))

    assert commit(generation_id=1, member_id=member) == [0]
    assert commit(generation_id=2, member_id=member) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(generation_id=1, member_id="stranger") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit() == [0]
    assert commit(group="new", generation_id=1, member_id=member) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(group="new") == [0]


def test_a_member_of_a_consumer_group_commits_in_its_epoch(broker: TransactionalBroker) -> None:
    """A group of KIP-848. A member that is behind commits what it has had since; nobody else does."""

    def beat(epoch: int, **fields: Any) -> int:
        request = ConsumerGroupHeartbeatRequest("g", "a", epoch, **fields)
        context = broker.context(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
        answer = broker.services.groups.consumer_heartbeat(request, context)
        response = answer.response if isinstance(answer, Pending) else answer
        assert response is not None
        return response.member_epoch

    epoch = beat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[])
    producer = broker.begin()

    def commit(**fields: Any) -> list[int]:
        return settled(broker, broker.commit_offset(producer, 5, **fields))

    assert commit(generation_id=epoch, member_id="a") == [0]
    assert commit(generation_id=epoch + 1, member_id="a") == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(generation_id=epoch, member_id="x") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(generation_id=-1, member_id="a") == [ErrorCode.ILLEGAL_GENERATION]
    assert commit() == [0], "an older producer names nobody"
    assert broker.end(producer).error_code == 0
    answer = broker.answered(
        ApiKey.OFFSET_FETCH,
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    "g", "a", epoch, [OffsetFetchRequest.OffsetFetchRequestTopics("t", partition_indexes=[0])]
                )
            ],
            require_stable=True,
        ),
        9,
    )
    (found,) = answer.groups[0].topics[0].partitions
    assert (found.error_code, found.committed_offset) == (0, 5)


# WriteTxnMarkers


def marker(topics: dict[str, list[int]], producer: tuple[int, int], **fields: Any) -> Any:
    return WriteTxnMarkersRequest.WritableTxnMarker(
        *producer,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()
        ],
        **fields,
    )


def written(answer: Any) -> dict[int, dict[tuple[str, int], int]]:
    return {
        each.producer_id: {
            (topic.name, partition.partition_index): partition.error_code
            for topic in each.topics
            for partition in topic.partitions
        }
        for each in answer.markers
    }


def test_markers_of_several_transactions(broker: TransactionalBroker) -> None:
    markers = [
        marker({"t": [0, 1], "gone": [0]}, (7, 0), transaction_result=True, coordinator_epoch=3),
        marker({"t": [1], GROUP_TOPIC: [2]}, (8, 4), coordinator_epoch=3),
    ]
    answer = broker.answered(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert written(answer) == {
        7: {("t", 0): 0, ("t", 1): 0, ("gone", 0): unknown},
        8: {("t", 1): 0, (GROUP_TOPIC, 2): 0},
    }
    assert [broker.log("t", index).log_end_offset for index in range(3)] == [1, 2, 0]


def test_a_marker_of_an_older_coordinator_or_epoch_is_fenced(broker: TransactionalBroker) -> None:
    def write(epoch: int, coordinator_epoch: int, version: int = 0) -> int:
        asked = marker(
            {"t": [0]}, (7, epoch), coordinator_epoch=coordinator_epoch, transaction_version=version
        )
        answer = broker.answered(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest([asked]))
        return written(answer)[7]["t", 0]

    assert write(1, 5) == 0
    assert write(1, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write(0, 5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(1, 5, 2) == 0, "a repetition"


def test_markers_are_for_brokers_and_administrators(broker: TransactionalBroker) -> None:
    request = WriteTxnMarkersRequest([marker({"t": [0]}, (7, 0))])
    broker.deny(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    assert written(broker.answered(ApiKey.WRITE_TXN_MARKERS, request)) == {7: {("t", 0): 0}}
    broker.deny(Operation.ALTER, ResourceType.CLUSTER)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert written(broker.answered(ApiKey.WRITE_TXN_MARKERS, request)) == {7: {("t", 0): denied}}


def test_no_marker_is_made_for_who_may_not_write_it(
    broker: TransactionalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(write_txn_markers, "build_marker_batch", lambda *made_of, **_: made.extend(made_of))
    broker.deny(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    broker.deny(Operation.ALTER, ResourceType.CLUSTER)
    request = WriteTxnMarkersRequest([marker({"t": [0, 1]}, (7, 0)), marker({}, (8, 0))])
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert written(broker.answered(ApiKey.WRITE_TXN_MARKERS, request)) == {
        7: {("t", 0): denied, ("t", 1): denied}
    }
    assert made == []


def test_a_marker_waits_for_its_replicas_for_as_long_as_a_request_may(broker: TransactionalBroker) -> None:
    broker.apply(broker.broker_record(2))
    broker.topic("r", 2, replicas=(1, 2), number=2)
    request = WriteTxnMarkersRequest([marker({"r": [0, 1], "t": [0]}, (7, 0))])
    answer = broker.ask(ApiKey.WRITE_TXN_MARKERS, request)
    broker.replicas.by_name["r", 1].follower_fetched(2, 1, 0, now_ms=0)
    broker.timers.advance(29_000)
    assert not answer.done
    broker.timers.advance(1_000)
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert written(answer.response) == {7: {("r", 0): timed_out, ("r", 1): 0, ("t", 0): 0}}
    again = broker.ask(ApiKey.WRITE_TXN_MARKERS, request)
    for index in range(2):
        broker.replicas.by_name["r", index].follower_fetched(2, 2, 0, now_ms=0)
    assert written(again.response) == {7: {("r", 0): 0, ("r", 1): 0, ("t", 0): 0}}


def test_a_group_coordinator_that_is_not_ready_is_tried_again(broker: TransactionalBroker) -> None:
    broker.services.groups.close()
    request = WriteTxnMarkersRequest([marker({GROUP_TOPIC: [1]}, (7, 0))])
    answer = broker.answered(ApiKey.WRITE_TXN_MARKERS, request)
    assert written(answer) == {7: {(GROUP_TOPIC, 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}}


# DescribeTransactions, ListTransactions


def test_descriptions_leave_out_what_one_may_not_see(broker: TransactionalBroker) -> None:
    broker.topic("hidden", number=2)
    producer = broker.begin()
    topics = [AddTopic("t", [1, 0]), AddTopic("hidden", [0])]
    request = AddPartitionsToTxnRequest([], "tx", *producer, topics)
    broker.answered(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)
    broker.deny(Operation.DESCRIBE, ResourceType.TOPIC, "hidden")
    broker.deny(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "secret")
    names = ["tx", "secret", "nobody", ""]
    answer = broker.answered(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(names))
    known, *refused = answer.transaction_states
    assert (known.transaction_state, known.producer_id, known.producer_epoch) == ("Ongoing", *producer)
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", [0, 1])]
    assert [(each.transactional_id, each.error_code) for each in refused] == [
        ("secret", DENIED),
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]


def listed(broker: TransactionalBroker, **filters: Any) -> tuple[int, list[str], list[str]]:
    answer = broker.answered(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(**filters))
    names = [each.transactional_id for each in answer.transaction_states]
    return answer.error_code, sorted(names), answer.unknown_state_filters


def test_lists_pass_all_filters(broker: TransactionalBroker) -> None:
    producers = {name: broker.begin(name) for name in ("a-1", "a-2", "b-1", "secret")}
    broker.produced(producers["a-2"], name="a-2")
    broker.clock.move(5_000)
    broker.deny(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "secret")
    assert listed(broker) == (0, ["a-1", "a-2", "b-1"], [])
    assert listed(broker, state_filters=["Ongoing", "Odd"]) == (0, ["a-2"], ["Odd"])
    assert listed(broker, producer_id_filters=[producers["b-1"][0]]) == (0, ["b-1"], [])
    assert listed(broker, duration_filter=6_000, state_filters=["Ongoing"]) == (0, [], [])
    assert listed(broker, duration_filter=4_000, state_filters=["Ongoing"]) == (0, ["a-2"], [])
    assert listed(broker, transactional_id_pattern="a-.") == (0, ["a-1", "a-2"], [])
    assert listed(broker, transactional_id_pattern="a-") == (0, [], []), "all of the name must match"
    assert listed(broker, transactional_id_pattern="") == (0, ["a-1", "a-2", "b-1"], [])
    assert listed(broker, transactional_id_pattern="a(") == (ErrorCode.INVALID_REGULAR_EXPRESSION, [], [])


def test_while_it_loads_it_lists_nothing(broker: TransactionalBroker) -> None:
    broker.services.transactions = broker.new_coordinator()
    broker.services.transactions.elected(0, 1)
    assert listed(broker) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [], [])


# From the first to the last


def test_the_next_transaction_waits_for_the_markers_of_the_last(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    broker.produced(producer, 0)
    broker.holds_markers = True
    answer = broker.end(producer)
    assert (answer.error_code, broker.state()) == (0, "PrepareCommit")
    following = (answer.producer_id, answer.producer_epoch)
    waiting = broker.produce(following, 0)
    broker.timers.run_soon()
    assert not waiting.done
    broker.write_markers()
    broker.timers.advance(20)
    (entry,) = waiting.response.responses[0].partition_responses
    assert (entry.error_code, entry.base_offset) == (0, 2)
    assert broker.state() == "Ongoing"


def test_a_coordinator_that_comes_later_ends_what_was_decided(broker: TransactionalBroker) -> None:
    producer = broker.begin()
    broker.produced(producer, 0)
    broker.commit_offset(producer, 5)
    broker.timers.run_soon()
    broker.holds_markers = True
    broker.end(producer)
    assert broker.log("t").last_stable_offset == 0
    broker.services.transactions.close()
    broker.services.transactions = broker.new_coordinator()
    broker.elect(1)
    broker.write_markers()
    broker.timers.advance(1_000)
    assert broker.state() == "CompleteCommit"
    assert broker.log("t").last_stable_offset == broker.log("t").log_end_offset
    assert offset(broker, stable=True) == (0, 5)


def test_an_overdue_transaction_is_aborted_and_its_producer_fenced(broker: TransactionalBroker) -> None:
    producer = broker.begin(timeout_ms=5_000)
    broker.produced(producer, 0)
    broker.timers.advance(20_000)
    assert broker.state() == "CompleteAbort"
    log = broker.log("t")
    assert log.last_stable_offset == log.log_end_offset == 2
    assert broker.produced(producer, 1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert broker.end(producer, version=4).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.end(producer).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_topics_of_an_open_transaction_may_be_deleted(broker: TransactionalBroker) -> None:
    made = broker.topic("short", number=3)
    producer = broker.begin()
    broker.answered(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        AddPartitionsToTxnRequest([], "tx", *producer, [AddTopic("short", [0]), AddTopic("t", [0])]),
        3,
    )
    broker.remove_topic(made)
    assert broker.end(producer, version=4).error_code == 0
    assert broker.state() == "CompleteCommit"
