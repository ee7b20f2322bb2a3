"""Questions about topics and their partitions: made, grown, cut, moved, led by another, and gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocol.codec.message import Message
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.registry import ApiKey
from tests.support.questions.question import NOBODY, Case, World

Question = Callable[[World, int], Message]

K: Final = ApiKey
MANY: Final = 10_001
MOVES_NOTHING: Final[Mapping[int, list[int] | None]] = {0: None}


def _create(
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
    assigned: tuple[tuple[int, list[int]], ...] = (),
    timeout_ms: int = 30_000,
    **configs: str,
) -> Question:
    def request(world: World, version: int) -> Message:
        wanted = CreateTopicsRequest(timeout_ms=timeout_ms)
        for name in names:
            topic = CreateTopicsRequest.CreatableTopic(name.replace("#", str(version)), partitions, replicas)
            if assigned:
                topic.num_partitions = topic.replication_factor = -1
            for index, brokers in assigned:
                topic.assignments.append(CreateTopicsRequest.CreatableReplicaAssignment(index, brokers))
            for key, value in configs.items():
                topic.configs.append(CreateTopicsRequest.CreatableTopicConfig(key.replace("_", "."), value))
            wanted.topics.append(topic)
        return wanted

    return request


def _delete_by(*states: tuple[str | None, str | None]) -> Question:
    """By name, or by the id of a topic, or both, or neither."""

    def request(world: World, version: int) -> Message:
        wanted = DeleteTopicsRequest(timeout_ms=30_000)
        for name, of in states:
            topic_id = bytes(16) if of is None else NOBODY if of == "nobody" else world.id_of(of)
            wanted.topics.append(DeleteTopicsRequest.DeleteTopicState(name, topic_id))
        return wanted

    return request


def _delete(*names: str, timeout_ms: int = 30_000) -> Question:
    def request(world: World, version: int) -> Message:
        numbered = [name.replace("#", str(version)) for name in names]
        if version < 6:
            return DeleteTopicsRequest(topic_names=numbered, timeout_ms=timeout_ms)
        states = [DeleteTopicsRequest.DeleteTopicState(name) for name in numbered]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

    return request


def _grow(
    *topics: tuple[str, int],
    assigned: list[list[int]] | None = None,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> Question:
    def request(world: World, version: int) -> Message:
        asked = CreatePartitionsRequest(timeout_ms=timeout_ms, validate_only=validate_only)
        for name, count in topics:
            topic = CreatePartitionsRequest.CreatePartitionsTopic(
                name.replace("#", str(version)), count, None
            )
            if assigned is not None:
                chosen = [CreatePartitionsRequest.CreatePartitionsAssignment(brokers) for brokers in assigned]
                topic.assignments = chosen
            asked.topics.append(topic)
        return asked

    return request


def _cut(topic: str, *places: tuple[int, int], timeout_ms: int = 5000) -> Question:
    def request(world: World, version: int) -> Message:
        wanted = [DeleteRecordsRequest.DeleteRecordsPartition(*place) for place in places]
        return DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, wanted)], timeout_ms)

    return request


def _elect(kind: int, topics: Mapping[str, list[int]] | None, *, timeout_ms: int = 30_000) -> Question:
    def request(world: World, version: int) -> Message:
        asked = ElectLeadersRequest(kind if version else 0, None, timeout_ms)
        if topics is not None:
            asked.topic_partitions = [ElectLeadersRequest.TopicPartitions(*item) for item in topics.items()]
        return asked

    return request


def _move(
    topics: Mapping[str, Mapping[int, list[int] | None]],
    *,
    allow_factor_change: bool = True,
    timeout_ms: int = 30_000,
) -> Question:
    def request(world: World, version: int) -> Message:
        cls = AlterPartitionReassignmentsRequest
        named = [
            cls.ReassignableTopic(name, [cls.ReassignablePartition(*item) for item in partitions.items()])
            for name, partitions in topics.items()
        ]
        return cls(timeout_ms, allow_factor_change or version < 1, named)

    return request


def _moving(topics: Mapping[str, list[int]] | None, *, timeout_ms: int = 30_000) -> Question:
    def request(world: World, version: int) -> Message:
        cls = ListPartitionReassignmentsRequest
        if topics is None:
            return cls(timeout_ms)
        return cls(timeout_ms, [cls.ListPartitionReassignmentsTopics(*item) for item in topics.items()])

    return request


def _pages(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Question:
    def request(world: World, version: int) -> Message:
        cls = DescribeTopicPartitionsRequest
        place = None if cursor is None else cls.Cursor(*cursor)
        return cls([cls.TopicRequest(name) for name in names], limit, place)

    return request


CASES: Final = (
    Case("create, without patience", K.CREATE_TOPICS, _create("hasty-#", timeout_ms=0)),
    Case("create, with less than none", K.CREATE_TOPICS, _create("hastier-#", timeout_ms=-1)),
    Case("create, nothing", K.CREATE_TOPICS, _create()),
    Case("create, the metadata log", K.CREATE_TOPICS, _create("__cluster_metadata")),
    Case("create, a group topic", K.CREATE_TOPICS, _create("__consumer_offsets")),
    Case("create, an internal name", K.CREATE_TOPICS, _create("__transaction_state")),
    Case("create, with a dot", K.CREATE_TOPICS, _create("a.topic-#")),
    Case("create, with a line where a dot is", K.CREATE_TOPICS, _create("a_topic-#")),
    Case("create, two that are too near", K.CREATE_TOPICS, _create("near.#", "near_#")),
    Case("create, by the thousands", K.CREATE_TOPICS, _create("big", partitions=MANY)),
    Case("create, too many together", K.CREATE_TOPICS, _create("big", "large", partitions=5_001)),
    Case("create, as many as a batch holds", K.CREATE_TOPICS, _create("big", partitions=10_000)),
    Case("create, -2 replicas", K.CREATE_TOPICS, _create("bad", replicas=-2)),
    Case("create, 32767 replicas", K.CREATE_TOPICS, _create("bad", replicas=32_767)),
    Case("create, no partitions and no replicas", K.CREATE_TOPICS, _create("bad", partitions=0, replicas=0)),
    Case("create, assigned to none", K.CREATE_TOPICS, _create("bad", assigned=((0, []),))),
    Case("create, one assigned twice", K.CREATE_TOPICS, _create("bad", assigned=((0, [1]), (0, [1])))),
    Case("create, -1 assigned", K.CREATE_TOPICS, _create("bad", assigned=((-1, [1]),))),
    Case("create, assigned unevenly", K.CREATE_TOPICS, _create("bad", assigned=((0, [1]), (1, [1, 2])))),
    Case("create, two faults", K.CREATE_TOPICS, _create("bad", partitions=0, nonsense="1")),
    Case("create, a bad name and more", K.CREATE_TOPICS, _create("a b", partitions=0, nonsense="1")),
    Case("create, what is there, badly", K.CREATE_TOPICS, _create("one", partitions=0)),
    Case("create, min.insync.replicas 0", K.CREATE_TOPICS, _create("bad", min_insync_replicas="0")),
    Case("create, a tiered one", K.CREATE_TOPICS, _create("bad", remote_storage_enable="true")),
    Case("delete, nothing", K.DELETE_TOPICS, _delete()),
    Case("delete, one name twice", K.DELETE_TOPICS, _delete("tuned-#", "tuned-#")),
    Case("delete, without patience", K.DELETE_TOPICS, _delete("given-#", timeout_ms=0)),
    Case("delete, a forbidden name", K.DELETE_TOPICS, _delete("a/b")),
    Case("delete, an empty name", K.DELETE_TOPICS, _delete("")),
    Case("delete, the metadata log", K.DELETE_TOPICS, _delete("__cluster_metadata")),
    Case("delete, name and id", K.DELETE_TOPICS, _delete_by(("one", "one")), 6),
    Case("delete, neither", K.DELETE_TOPICS, _delete_by((None, None)), 6),
    Case("delete, one id twice", K.DELETE_TOPICS, _delete_by((None, "one"), (None, "one")), 6),
    Case("delete, a name and its id", K.DELETE_TOPICS, _delete_by(("one", None), (None, "one")), 6),
    Case("delete, unknown ids twice", K.DELETE_TOPICS, _delete_by((None, "nobody"), (None, "nobody")), 6),
    Case("grow", K.CREATE_PARTITIONS, _grow(("near.2", 2))),
    Case("grow, without patience", K.CREATE_PARTITIONS, _grow(("two", 5), timeout_ms=0)),
    Case("grow, not at all", K.CREATE_PARTITIONS, _grow(("two", 2))),
    Case("grow, smaller", K.CREATE_PARTITIONS, _grow(("two", 1))),
    Case("grow, to nothing", K.CREATE_PARTITIONS, _grow(("two", 0))),
    Case("grow, only to see", K.CREATE_PARTITIONS, _grow(("two", 5), validate_only=True)),
    Case("grow, only to see what is bad", K.CREATE_PARTITIONS, _grow(("two", 1), validate_only=True)),
    Case("grow, unknown", K.CREATE_PARTITIONS, _grow(("none-such", 5))),
    Case("grow, a forbidden name", K.CREATE_PARTITIONS, _grow(("a/b", 5))),
    Case("grow, one twice", K.CREATE_PARTITIONS, _grow(("two", 5), ("two", 6))),
    Case("grow, nothing", K.CREATE_PARTITIONS, _grow()),
    Case("grow, by the thousands", K.CREATE_PARTITIONS, _grow(("two", 20_000), validate_only=True)),
    Case("grow, too few assigned", K.CREATE_PARTITIONS, _grow(("two", 4), assigned=[[1]])),
    Case("grow, too many assigned", K.CREATE_PARTITIONS, _grow(("two", 3), assigned=[[1], [1]])),
    Case("grow, assigned to none", K.CREATE_PARTITIONS, _grow(("two", 3), assigned=[[]])),
    Case("grow, assigned to nobody", K.CREATE_PARTITIONS, _grow(("two", 3), assigned=[[9]])),
    Case("grow, assigned to one twice", K.CREATE_PARTITIONS, _grow(("two", 3), assigned=[[1, 1]])),
    Case("cut, below 2", K.DELETE_RECORDS, _cut("one", (0, 2))),
    Case("cut, below the beginning", K.DELETE_RECORDS, _cut("one", (0, 1))),
    Case("cut, behind the end", K.DELETE_RECORDS, _cut("one", (0, 1_000_000))),
    Case("cut, below -2", K.DELETE_RECORDS, _cut("one", (0, -2))),
    Case("cut, an empty one", K.DELETE_RECORDS, _cut("small", (0, -1))),
    Case("cut, one twice", K.DELETE_RECORDS, _cut("one", (0, 2), (0, 1_000_000))),
    Case("cut, without patience", K.DELETE_RECORDS, _cut("one", (0, 2), timeout_ms=0)),
    Case("cut, compacted", K.DELETE_RECORDS, _cut("two", (0, 0))),
    Case("cut, a group topic", K.DELETE_RECORDS, _cut("__consumer_offsets", (0, 0))),
    Case("cut, unknown topic", K.DELETE_RECORDS, _cut("none-such", (0, 0))),
    Case("cut, unknown partition", K.DELETE_RECORDS, _cut("one", (9, 0))),
    Case("cut, no partition", K.DELETE_RECORDS, _cut("one")),
    Case("elect, preferred", K.ELECT_LEADERS, _elect(0, {"two": [0, 1, 9], "none-such": [0]})),
    Case("elect, unclean", K.ELECT_LEADERS, _elect(1, {"two": [0, 9], "none-such": [0]}), 1),
    Case("elect, of a third kind", K.ELECT_LEADERS, _elect(7, {"two": [0]}), 1),
    Case("elect, of a third kind, all", K.ELECT_LEADERS, _elect(7, None), 1),
    Case("elect, without patience", K.ELECT_LEADERS, _elect(0, {"two": [0]}, timeout_ms=0)),
    Case("elect, all, without patience", K.ELECT_LEADERS, _elect(0, None, timeout_ms=0)),
    Case("elect, nothing", K.ELECT_LEADERS, _elect(0, {})),
    Case("elect, nothing of a topic", K.ELECT_LEADERS, _elect(0, {"two": []})),
    Case("move, to where it is", K.ALTER_PARTITION_REASSIGNMENTS, _move({"two": {0: [1], 1: [1]}})),
    Case("move, to nobody", K.ALTER_PARTITION_REASSIGNMENTS, _move({"two": {0: [9], 1: [-1]}})),
    Case("move, to one twice", K.ALTER_PARTITION_REASSIGNMENTS, _move({"two": {0: [1, 1]}})),
    Case("move, to nowhere", K.ALTER_PARTITION_REASSIGNMENTS, _move({"two": {0: []}})),
    Case("move, back", K.ALTER_PARTITION_REASSIGNMENTS, _move({"two": MOVES_NOTHING})),
    Case("move, unknown", K.ALTER_PARTITION_REASSIGNMENTS, _move({"none-such": {0: [1]}, "two": {9: [1]}})),
    Case("move, back, unknown", K.ALTER_PARTITION_REASSIGNMENTS, _move({"none-such": MOVES_NOTHING})),
    Case(
        "move, without patience",
        K.ALTER_PARTITION_REASSIGNMENTS,
        _move({"two": {0: [1]}}, timeout_ms=0),
    ),
    Case("move, nothing", K.ALTER_PARTITION_REASSIGNMENTS, _move({})),
    Case("move, nothing of a topic", K.ALTER_PARTITION_REASSIGNMENTS, _move({"two": {}})),
    Case(
        "move, without another factor",
        K.ALTER_PARTITION_REASSIGNMENTS,
        _move({"two": {0: [1]}}, allow_factor_change=False),
    ),
    Case("moving", K.LIST_PARTITION_REASSIGNMENTS, _moving(None)),
    Case("moving, of some", K.LIST_PARTITION_REASSIGNMENTS, _moving({"two": [0, 9], "none-such": [0]})),
    Case("moving, without patience", K.LIST_PARTITION_REASSIGNMENTS, _moving({"two": [0]}, timeout_ms=0)),
    Case("moving, of none", K.LIST_PARTITION_REASSIGNMENTS, _moving({})),
    Case("topic pages, without a limit", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", limit=0)),
    Case("topic pages, a limit below nothing", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", limit=-5)),
    Case("topic pages, one twice", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", "two")),
    Case("topic pages, a forbidden name", K.DESCRIBE_TOPIC_PARTITIONS, _pages("a/b", ".", "two")),
    Case("topic pages, an empty name", K.DESCRIBE_TOPIC_PARTITIONS, _pages("", "two")),
    Case("topic pages, from partition -1", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", cursor=("two", -1))),
    Case("topic pages, from behind", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", cursor=("two", 9))),
    Case("topic pages, from another", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", cursor=("one", 0))),
    Case("topic pages, from nowhere", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", cursor=("zwei", 1))),
    Case(
        "topic pages, from one that is not there",
        K.DESCRIBE_TOPIC_PARTITIONS,
        _pages("none-such", "one", "two", cursor=("none-such", 1)),
    ),
    Case("topic pages, all from the last", K.DESCRIBE_TOPIC_PARTITIONS, _pages(cursor=("zzz", 0))),
)  # fmt: skip
