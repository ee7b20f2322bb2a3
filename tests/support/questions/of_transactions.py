"""Questions about transactions: of producers that play by the rules, and of those that do not.

Each version of an API has a producer of its own, ``booked-0`` to ``booked-5``, so that a whole transaction is
asked for in every version: begun, partitions and a group added, described, and ended. Produce goes to one
transaction that stays open, version after version. The topic ``ledger`` belongs to these questions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from protocol.codec.message import Message
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.registry import ApiKey
from tests.support.questions.question import Case, World

K: Final = ApiKey
Question = Callable[[World, int], Message]
TOPIC: Final = "ledger"
ONE_PRODUCER: Final = "booked-#"
"""The transactional id of each version's own producer."""
OPEN: Final = "open"
"""The one whose transaction the questions of Produce belong to."""
ITS_GROUP: Final = "audit-#"
BY_A_BROKER_SINCE: Final = 4
"""From this version on AddPartitionsToTxn is asked by brokers, for many transactions at once."""
FIRST_PRODUCE: Final = 3
MOMENT: Final = 1_700_000_000_000


def _init(transactional_id: str, timeout_ms: int = 900_000, *, epoch: int | None = None) -> Question:
    """epoch: that which a producer says that it has; None for one that has no id yet."""

    def request(world: World, version: int) -> Message:
        name = transactional_id.replace("#", str(version))
        wanted = InitProducerIdRequest(name, timeout_ms)
        if epoch is not None:
            wanted.producer_id = world.producer(name)[0]
            wanted.producer_epoch = epoch
        return wanted

    return request


def _add(
    topics: Mapping[str, Sequence[int]],
    *,
    by: str = ONE_PRODUCER,
    epoch: int | None = None,
    producer_id: int | None = None,
    verify_only: bool = False,
) -> Question:
    def request(world: World, version: int) -> Message:
        name = by.replace("#", str(version))
        known_id, known_epoch = world.producer(name)
        its_id = known_id if producer_id is None else producer_id
        its_epoch = known_epoch if epoch is None else epoch
        named = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, list(partitions))
            for topic, partitions in topics.items()
        ]
        if version < BY_A_BROKER_SINCE:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=its_id,
                v3_and_below_producer_epoch=its_epoch,
                v3_and_below_topics=named,
            )
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            name, its_id, its_epoch, verify_only, named
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    return request


def _add_of_two(world: World, version: int) -> Message:
    """The partitions of two transactions at once, one of them of a stranger."""
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    named = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TOPIC, [0, 1])]
    name = ONE_PRODUCER.replace("#", str(version))
    return AddPartitionsToTxnRequest(
        transactions=[
            transaction(name, *world.producer(name), True, named),
            transaction("nobody", 4711, 0, True, named),
        ]
    )


def _add_offsets(group: str = ITS_GROUP, *, by: str = ONE_PRODUCER, epoch: int | None = None) -> Question:
    def request(world: World, version: int) -> Message:
        name = by.replace("#", str(version))
        producer_id, its_epoch = world.producer(name)
        return AddOffsetsToTxnRequest(
            name, producer_id, its_epoch if epoch is None else epoch, group.replace("#", str(version))
        )

    return request


def _commit_offsets(
    topic: str = TOPIC,
    *,
    partition: int = 0,
    group: str = ITS_GROUP,
    by: str = ONE_PRODUCER,
    epoch: int | None = None,
    generation: int = -1,
    member: str = "",
    metadata: str = "there",
) -> Question:
    def request(world: World, version: int) -> Message:
        name = by.replace("#", str(version))
        producer_id, its_epoch = world.producer(name)
        entry = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition, 2, 0, metadata)
        wanted = TxnOffsetCommitRequest(
            name,
            group.replace("#", str(version)),
            producer_id,
            its_epoch if epoch is None else epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(topic, [entry])],
        )
        wanted.generation_id, wanted.member_id = generation, member
        return wanted

    return request


def _offsets_of_the_group(group: str, *, stable: bool) -> Question:
    def request(world: World, version: int) -> Message:
        if version < 8:
            old = OffsetFetchRequest.OffsetFetchRequestTopic(TOPIC, [0])
            return OffsetFetchRequest(group_id=group, topics=[old], require_stable=stable)
        new = OffsetFetchRequest.OffsetFetchRequestTopics(TOPIC, world.id_of(TOPIC), [0])
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=[new])
        return OffsetFetchRequest(groups=[asked], require_stable=stable)

    return request


def _end(*, committed: bool | None = None, by: str = ONE_PRODUCER, epoch: int | None = None) -> Question:
    """committed: None for what the even versions commit and the odd ones abort."""

    def request(world: World, version: int) -> Message:
        name = by.replace("#", str(version))
        producer_id, its_epoch = world.producer(name)
        decided = version % 2 == 0 if committed is None else committed
        return EndTxnRequest(name, producer_id, its_epoch if epoch is None else epoch, decided)

    return request


def _produce(
    partition: int = 0,
    *,
    by: str = OPEN,
    sequence: int | None = None,
    transactional: bool = True,
    named: bool = True,
    **producer: int,
) -> Question:
    """One record of a transaction; its sequence grows from version to version. named: with the transactional
    id in the request."""

    def request(world: World, version: int) -> Message:
        producer_id, epoch = world.producer(by)
        batch: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch, **producer}
        batch["base_sequence"] = version - FIRST_PRODUCE if sequence is None else sequence
        batch["transactional"] = transactional
        record = SimpleRecord(b"k", b"v", MOMENT)
        entry = ProduceRequest.PartitionProduceData(partition, build_batch([record], **batch))
        topic = ProduceRequest.TopicProduceData(TOPIC, world.id_of(TOPIC), [entry])
        return ProduceRequest(by if named else None, acks=-1, timeout_ms=5000, topic_data=[topic])

    return request


def _committed_only(timestamp: int, partition: int = 0) -> Question:
    def request(world: World, version: int) -> Message:
        wanted = ListOffsetsRequest.ListOffsetsPartition(partition, timestamp=timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(TOPIC, [wanted])
        return ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic])

    return request


def _mark(
    topics: Mapping[str, Sequence[int]], *, by: str = OPEN, coordinator_epoch: int = 0, **changes: int
) -> Question:
    def request(world: World, version: int) -> Message:
        producer_id, epoch = world.producer(by)
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            changes.get("producer_id", producer_id), changes.get("epoch", epoch), False
        )
        marker.coordinator_epoch = coordinator_epoch
        marker.transaction_version = changes.get("transaction_version", 2) if version >= 2 else 0
        marker.topics = [
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, list(partitions))
            for topic, partitions in topics.items()
        ]
        return WriteTxnMarkersRequest([marker])

    return request


def _describe(*transactional_ids: str) -> Question:
    return lambda world, version: DescribeTransactionsRequest(list(transactional_ids))


def _list(
    *,
    states: Sequence[str] = (),
    of: Sequence[str] = (),
    longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> Question:
    """of: the producers whose ids are named."""

    def request(world: World, version: int) -> Message:
        wanted = ListTransactionsRequest(list(states), [world.producer(name)[0] for name in of])
        if longer_than_ms is not None:
            wanted.duration_filter = longer_than_ms
        if pattern is not None:
            wanted.transactional_id_pattern = pattern
        return wanted

    return request


def _producers(topic: str, *partitions: int) -> Question:
    wanted = DescribeProducersRequest.TopicRequest(topic, list(partitions))
    return lambda world, version: DescribeProducersRequest([wanted])


def _find(*keys: str) -> Question:
    def request(world: World, version: int) -> Message:
        if version < 4:
            return FindCoordinatorRequest(key=keys[0], key_type=1)
        return FindCoordinatorRequest(key_type=1, coordinator_keys=list(keys))

    return request


BOTH: Final = {TOPIC: (0, 1)}
FIRST: Final = {TOPIC: (0,)}
ALL_OF_THEM: Final = tuple(f"booked-{version}" for version in range(6))

BEGUN: Final = (
    Case("find coordinator, of transactions", K.FIND_COORDINATOR, _find("booked-0", "booked-1"), 1),
    Case("transactions, a producer comes", K.INIT_PRODUCER_ID, _init(ONE_PRODUCER)),
    Case("transactions, no time", K.INIT_PRODUCER_ID, _init("hasty", 0)),
    Case("transactions, too much time", K.INIT_PRODUCER_ID, _init("slow", 900_001)),
    Case("transactions, an epoch to come", K.INIT_PRODUCER_ID, _init(ONE_PRODUCER, epoch=7), 3),
    Case("transactions, none begun", K.END_TXN, _end(committed=True)),
    Case("transactions, none begun, aborted", K.END_TXN, _end(committed=False), 0, 4),
    Case("transactions, described before", K.DESCRIBE_TRANSACTIONS, _describe("booked-0", "nobody", "")),
    Case("add partitions", K.ADD_PARTITIONS_TO_TXN, _add(FIRST)),
    Case("add partitions again, and one more", K.ADD_PARTITIONS_TO_TXN, _add(BOTH)),
    Case(
        "add partitions, unknown ones", K.ADD_PARTITIONS_TO_TXN, _add({TOPIC: (0, 9), "none-such": (0,)})
    ),
    Case("add partitions, none", K.ADD_PARTITIONS_TO_TXN, _add({})),
    Case("add partitions, of internal topics", K.ADD_PARTITIONS_TO_TXN, _add({"__consumer_offsets": (0,)})),
    Case("add partitions, an old epoch", K.ADD_PARTITIONS_TO_TXN, _add(FIRST, epoch=-1)),
    Case("add partitions, an epoch to come", K.ADD_PARTITIONS_TO_TXN, _add(FIRST, epoch=9)),
    Case("add partitions, another's id", K.ADD_PARTITIONS_TO_TXN, _add(FIRST, producer_id=4711)),
    Case("add partitions, nobody's", K.ADD_PARTITIONS_TO_TXN, _add(FIRST, by="nobody")),
    Case("add partitions, without a name", K.ADD_PARTITIONS_TO_TXN, _add(FIRST, by="")),
    Case("verify partitions", K.ADD_PARTITIONS_TO_TXN, _add(BOTH, verify_only=True), 4),
    Case(
        "verify partitions, one is not in it", K.ADD_PARTITIONS_TO_TXN,
        _add({TOPIC: (0,), "one": (0,)}, verify_only=True), 4,
    ),
    Case("verify partitions, of two transactions", K.ADD_PARTITIONS_TO_TXN, _add_of_two, 4),
    Case("add offsets", K.ADD_OFFSETS_TO_TXN, _add_offsets()),
    Case("add offsets, without a group id", K.ADD_OFFSETS_TO_TXN, _add_offsets("")),
    Case("add offsets, an old epoch", K.ADD_OFFSETS_TO_TXN, _add_offsets(epoch=-1)),
    Case("add offsets, nobody's", K.ADD_OFFSETS_TO_TXN, _add_offsets(by="nobody")),
    Case("commit in a transaction", K.TXN_OFFSET_COMMIT, _commit_offsets()),
    Case("commit in a transaction, unknown topic", K.TXN_OFFSET_COMMIT, _commit_offsets("none-such")),
    Case("commit in a transaction, unknown partition", K.TXN_OFFSET_COMMIT, _commit_offsets(partition=9)),
    Case(
        "commit in a transaction, long metadata", K.TXN_OFFSET_COMMIT, _commit_offsets(metadata="x" * 4097)
    ),
    Case("commit in a transaction, without a group id", K.TXN_OFFSET_COMMIT, _commit_offsets(group="")),
    Case("commit in a transaction, nobody's", K.TXN_OFFSET_COMMIT, _commit_offsets(by="nobody")),
    Case("commit in a transaction, an old epoch", K.TXN_OFFSET_COMMIT, _commit_offsets(epoch=-1)),
    Case(
        "commit in a transaction, a stranger", K.TXN_OFFSET_COMMIT,
        _commit_offsets(generation=3, member="who"), 3,
    ),
    Case("fetch offsets, stable ones only", K.OFFSET_FETCH, _offsets_of_the_group("audit-0", stable=True), 7),
    Case("fetch offsets, unstable ones", K.OFFSET_FETCH, _offsets_of_the_group("audit-0", stable=False)),
)  # fmt: skip

WRITTEN: Final = (
    Case("produce in a transaction", K.PRODUCE, _produce()),
    Case("produce in a transaction, the same again", K.PRODUCE, _produce()),
    Case("produce in a transaction, a gap", K.PRODUCE, _produce(sequence=99)),
    Case("produce in a transaction, an old epoch", K.PRODUCE, _produce(producer_epoch=-1)),
    Case("produce in a transaction, an epoch to come", K.PRODUCE, _produce(sequence=0, producer_epoch=5)),
    Case("produce in a transaction, another's id", K.PRODUCE, _produce(sequence=0, producer_id=4711)),
    Case("produce in a transaction, plain records", K.PRODUCE, _produce(sequence=0, transactional=False)),
    Case("produce in a transaction, of nobody", K.PRODUCE, _produce(1, by="nobody", sequence=0)),
    Case("list offsets, committed only", K.LIST_OFFSETS, _committed_only(-1), 2),
    Case("list offsets, committed only, by time", K.LIST_OFFSETS, _committed_only(MOMENT), 2),
    Case("producers", K.DESCRIBE_PRODUCERS, _producers(TOPIC, 0, 1)),
    Case("producers of unknown ones", K.DESCRIBE_PRODUCERS, _producers(TOPIC, 0, 9)),
    Case("producers of no topic", K.DESCRIBE_PRODUCERS, _producers("none-such", 0)),
    Case("producers of an empty name", K.DESCRIBE_PRODUCERS, _producers("", 0)),
    Case("transactions, described", K.DESCRIBE_TRANSACTIONS, _describe(*ALL_OF_THEM, OPEN, "nobody")),
    Case("transactions, listed", K.LIST_TRANSACTIONS, _list()),
    Case("transactions of a state", K.LIST_TRANSACTIONS, _list(states=("Ongoing",))),
    Case("transactions of a state that nobody knows", K.LIST_TRANSACTIONS, _list(states=("Weary", "Empty"))),
    Case("transactions of some producers", K.LIST_TRANSACTIONS, _list(of=(OPEN, "booked-1"))),
    Case("transactions that take long", K.LIST_TRANSACTIONS, _list(longer_than_ms=3_600_000), 1),
    Case("transactions of any length", K.LIST_TRANSACTIONS, _list(longer_than_ms=-5), 1),
    Case("transactions by a pattern", K.LIST_TRANSACTIONS, _list(pattern="booked-[0-2]"), 2),
    Case("transactions by a part of a name", K.LIST_TRANSACTIONS, _list(pattern="booked"), 2),
    Case("transactions by an empty pattern", K.LIST_TRANSACTIONS, _list(pattern=""), 2),
    Case("transactions by a bad pattern", K.LIST_TRANSACTIONS, _list(pattern="booked-["), 2),
)  # fmt: skip

ENDED: Final = (
    Case("end, an old epoch", K.END_TXN, _end(epoch=-1)),
    Case("end, an epoch to come", K.END_TXN, _end(epoch=9)),
    Case("end, nobody's", K.END_TXN, _end(by="nobody")),
    Case("end, without a name", K.END_TXN, _end(by="")),
    Case("end", K.END_TXN, _end()),
    Case("end, said twice", K.END_TXN, _end()),
    Case("end, the other way", K.END_TXN, _end(committed=False), 0, 0),
    Case("transactions, described at the end", K.DESCRIBE_TRANSACTIONS, _describe(*ALL_OF_THEM)),
    Case("fetch offsets, committed ones", K.OFFSET_FETCH, _offsets_of_the_group("audit-0", stable=True), 7),
    Case("fetch offsets, aborted ones", K.OFFSET_FETCH, _offsets_of_the_group("audit-1", stable=True), 7),
    Case("transactions, a producer comes again", K.INIT_PRODUCER_ID, _init(ONE_PRODUCER)),
    Case("markers, of unknown partitions", K.WRITE_TXN_MARKERS, _mark({"none-such": (0,), TOPIC: (9,)})),
    Case("markers, none", K.WRITE_TXN_MARKERS, lambda world, version: WriteTxnMarkersRequest([])),
    Case("markers, an old epoch", K.WRITE_TXN_MARKERS, _mark(FIRST, epoch=0)),
    Case("markers, a coordinator of old", K.WRITE_TXN_MARKERS, _mark(FIRST, coordinator_epoch=-1)),
    Case("markers, of a producer nobody saw", K.WRITE_TXN_MARKERS, _mark({TOPIC: (1,)}, producer_id=4711)),
    Case("markers, an open transaction ends", K.WRITE_TXN_MARKERS, _mark(FIRST, epoch=1)),
    Case("markers, it has ended", K.WRITE_TXN_MARKERS, _mark(FIRST, epoch=1)),
    Case("producers after a marker", K.DESCRIBE_PRODUCERS, _producers(TOPIC, 0)),
    Case("list offsets, committed only, at the end", K.LIST_OFFSETS, _committed_only(-1), 2),
    Case("list offsets, committed only, markers alone", K.LIST_OFFSETS, _committed_only(-1, 1), 2),
)  # fmt: skip

CASES: Final = (*BEGUN, *WRITTEN, *ENDED)
