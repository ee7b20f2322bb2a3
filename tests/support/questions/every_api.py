"""Requests of every API that a one-node broker serves: what clients ask, and what they had better not ask.

A case is one request in each version of its API. The topics ``one`` (one partition, three records), ``two``
(two partitions, compacted) and ``small`` (batches of 70 bytes at most) are there; what a case makes bears a
name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from protocol.codec.message import Message
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.registry import ApiKey
from tests.support.questions import (
    of_acls,
    of_configs,
    of_credentials,
    of_features,
    of_quotas,
    of_replicas,
    of_topics,
    of_transactions,
    of_voters,
)
from tests.support.questions.question import NOBODY, Case, World

MOMENT: Final = 1_700_000_000_000


def _produce(
    topic: str, *, acks: int = -1, partition: int = 0, **batch: Any
) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        records = [SimpleRecord(b"k", b"v", MOMENT), SimpleRecord(None, b"w", MOMENT + 1)]
        data = ProduceRequest.PartitionProduceData(partition, build_batch(records, **batch))
        named = ProduceRequest.TopicProduceData(topic, world.id_of(topic), [data])
        return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[named])

    return request


def _produce_twice(*batches: bytes | None) -> Callable[[World, int], Message]:
    """The same partition, named once for each batch."""

    def request(world: World, version: int) -> Message:
        entries = [ProduceRequest.PartitionProduceData(0, batch) for batch in batches]
        named = ProduceRequest.TopicProduceData("one", world.id_of("one"), entries)
        return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[named])

    return request


def _batch(*values: bytes, **options: Any) -> bytes:
    return bytes(build_batch([SimpleRecord(b"k", value, MOMENT) for value in values], **options))


def _produce_of_a_transaction(world: World, version: int) -> Message:
    """One batch of a transaction among others, in a request without a transactional id."""
    batch = _batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    entry = ProduceRequest.PartitionProduceData
    topics = [
        ProduceRequest.TopicProduceData("two", world.id_of("two"), [entry(0, _batch(b"v"))]),
        ProduceRequest.TopicProduceData("one", world.id_of("one"), [entry(0, batch)]),
    ]
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)


def _broken() -> bytes:
    batch = build_batch([SimpleRecord(b"k", b"v", MOMENT)])
    batch[-1] ^= 1
    return bytes(batch)


def _produce_broken(world: World, version: int) -> Message:
    data = ProduceRequest.PartitionProduceData(0, _broken())
    named = ProduceRequest.TopicProduceData("two", world.id_of("two"), [data])
    return ProduceRequest(acks=1, timeout_ms=5000, topic_data=[named])


def _fetch(
    topic: str, offset: int, *, partition: int = 0, epoch: int = -1, isolation: int = 0, session: bool = False
) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        wanted = FetchRequest.FetchPartition(
            partition=partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        named = FetchRequest.FetchTopic(topic, world.id_of(topic), [wanted])
        return FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation,
            session_epoch=0 if session else -1, topics=[named],
        )  # fmt: skip

    return request


def _fetch_unknown_session(world: World, version: int) -> Message:
    return FetchRequest(max_wait_ms=0, session_id=4711, session_epoch=3)


def _list_offsets(topic: str, *timestamps: int, epoch: int = -1) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        named = ListOffsetsRequest.ListOffsetsTopic(topic)
        for partition, timestamp in enumerate(timestamps):
            asked = ListOffsetsRequest.ListOffsetsPartition(partition, timestamp=timestamp)
            asked.current_leader_epoch = epoch if version >= 4 else -1
            named.partitions.append(asked)
        return ListOffsetsRequest(replica_id=-1, topics=[named])

    return request


def _metadata(*names: str, create: bool = False) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=create or version < 4)

    return request


def _metadata_by_id(name: str) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        topic = MetadataRequest.MetadataRequestTopic(topic_id=world.id_of(name), name=None)
        return MetadataRequest(
            topics=[topic], allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )

    return request


def _create(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: Mapping[int, list[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
    validate_only: bool = False,
    twice: bool = False,
) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        numbered = name.replace("#", str(version))
        topic = CreateTopicsRequest.CreatableTopic(numbered, partitions, replicas)
        for index, brokers in (assignments or {}).items():
            topic.assignments.append(CreateTopicsRequest.CreatableReplicaAssignment(index, brokers))
        for key, value in (configs or {}).items():
            topic.configs.append(CreateTopicsRequest.CreatableTopicConfig(key, value))
        return CreateTopicsRequest(
            topics=[topic, topic] if twice else [topic], timeout_ms=30_000, validate_only=validate_only
        )

    return request


def _delete(name: str) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        numbered = name.replace("#", str(version))
        if version < 6:
            return DeleteTopicsRequest(topic_names=[numbered], timeout_ms=30_000)
        states = [
            DeleteTopicsRequest.DeleteTopicState(name=numbered),
            DeleteTopicsRequest.DeleteTopicState(topic_id=NOBODY),
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=30_000)

    return request


def _commit(
    group: str,
    topic: str,
    *,
    partition: int = 0,
    generation: int = -1,
    member: str = "",
    metadata: str = "wo",
) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        entry = OffsetCommitRequest.OffsetCommitRequestPartition(partition, 2, 0, metadata)
        named = OffsetCommitRequest.OffsetCommitRequestTopic(topic, world.id_of(topic), [entry])
        return OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=[named]
        )

    return request


def _fetch_offsets(group: str, *, all_topics: bool = False) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        if version < 8:
            old = [OffsetFetchRequest.OffsetFetchRequestTopic("one", [0, 7])]
            return OffsetFetchRequest(group_id=group, topics=None if all_topics else old)
        new = [OffsetFetchRequest.OffsetFetchRequestTopics("one", world.id_of("one"), [0, 7])]
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None if all_topics else new)
        return OffsetFetchRequest(groups=[asked])

    return request


def _find(kind: int, *keys: str) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        if version < 4:
            return FindCoordinatorRequest(key=keys[0], key_type=kind if version else 0)
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))

    return request


def _join(
    group: str, *, member: str = "", session_timeout_ms: int = 60_000, protocols: tuple[str, ...] = ("range",)
) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        offered = [JoinGroupRequest.JoinGroupRequestProtocol(name, b"\0\1\0\0\0\0") for name in protocols]
        return JoinGroupRequest(
            group_id=group.replace("#", str(version)),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id=member,
            protocol_type="consumer",
            protocols=offered,
        )

    return request


def _leave(group: str) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        if version < 3:
            return LeaveGroupRequest(group_id=group, member_id="m")
        return LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity("m")])

    return request


def _delete_groups(*names: str) -> Callable[[World, int], Message]:
    return lambda world, version: DeleteGroupsRequest([name.replace("#", str(version)) for name in names])


def _delete_offsets(group: str, *topics: str) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        places = [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in (0, 7)]
        named = [OffsetDeleteRequest.OffsetDeleteRequestTopic(name, places) for name in topics]
        return OffsetDeleteRequest(group, named)

    return request


def _configs(kind: int, name: str, *keys: str, synonyms: bool = False) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        wanted = DescribeConfigsRequest.DescribeConfigsResource(kind, name, list(keys) or None)
        return DescribeConfigsRequest(resources=[wanted], include_synonyms=synonyms)

    return request


def _configs_of_two(world: World, version: int) -> Message:
    kinds = ((2, "one"), (3, "x"))
    return DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(*kind) for kind in kinds])


def _epochs(topic: str, epoch: int, *, current: int = -1) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, current, epoch)
        named = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic, [wanted])
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=[named])

    return request


def _quorum(topic: str, partition: int = 0) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        wanted = DescribeQuorumRequest.PartitionData(partition)
        return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic, [wanted])])

    return request


def _pages(*names: str, limit: int = 2000) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        topics = [DescribeTopicPartitionsRequest.TopicRequest(name) for name in names]
        return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit)

    return request


def _page_after(topic: str, partition: int) -> Callable[[World, int], Message]:
    def request(world: World, version: int) -> Message:
        topics = [DescribeTopicPartitionsRequest.TopicRequest(name) for name in ("two", "one")]
        cursor = DescribeTopicPartitionsRequest.Cursor(topic, partition)
        return DescribeTopicPartitionsRequest(topics=topics, cursor=cursor)

    return request


K: Final = ApiKey
COORDINATOR: Final = "ein-leser"

CASES: Final = (
    Case("api versions", K.API_VERSIONS, lambda w, v: ApiVersionsRequest("wire", "1.0")),
    Case("api versions, a bad name", K.API_VERSIONS, lambda w, v: ApiVersionsRequest("-wire-", "1.0"), 3),
    Case("metadata, one topic", K.METADATA, _metadata("one", "two")),
    Case("metadata, no topic", K.METADATA, _metadata(), 1),
    Case("metadata, unknown topic", K.METADATA, _metadata("none-such"), 4),
    Case("metadata, forbidden names", K.METADATA, _metadata("a/b", "..", "x" * 250), 4),
    Case("metadata, by id", K.METADATA, _metadata_by_id("one"), 12),
    Case("metadata, by unknown id", K.METADATA, _metadata_by_id("none-such"), 12),
    Case("describe cluster", K.DESCRIBE_CLUSTER, lambda w, v: DescribeClusterRequest(True)),
    Case(
        "describe cluster, the controllers' side",
        K.DESCRIBE_CLUSTER,
        lambda w, v: DescribeClusterRequest(endpoint_type=2),
        1,
    ),
    Case("describe quorum", K.DESCRIBE_QUORUM, _quorum("__cluster_metadata")),
    Case("describe quorum, of another topic", K.DESCRIBE_QUORUM, _quorum("one")),
    Case("describe topic partitions", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", "none-such", "one")),
    Case("describe topic partitions, a page", K.DESCRIBE_TOPIC_PARTITIONS, _pages("two", "one", limit=2)),
    Case("describe topic partitions, the next page", K.DESCRIBE_TOPIC_PARTITIONS, _page_after("two", 1)),
    Case("produce", K.PRODUCE, _produce("one")),
    Case("produce, one acknowledgement", K.PRODUCE, _produce("one", acks=1)),
    Case("produce, two acknowledgements", K.PRODUCE, _produce("one", acks=2)),
    Case("produce, unknown topic", K.PRODUCE, _produce("none-such")),
    Case("produce, unknown partition", K.PRODUCE, _produce("one", partition=5)),
    Case("produce, no key for a compacted topic", K.PRODUCE, _produce("two")),
    Case("produce, a wrong checksum", K.PRODUCE, _produce_broken),
    Case("produce, too large", K.PRODUCE, _produce("small")),
    Case("produce, an offset of its own", K.PRODUCE, _produce("one", base_offset=9)),
    Case("produce, a control batch", K.PRODUCE, _produce("one", control=True)),
    Case("produce, a producer without sequence", K.PRODUCE, _produce("one", producer_id=5, producer_epoch=0)),
    Case("fetch", K.FETCH, _fetch("one", 0)),
    Case("fetch, from the middle of a batch, committed only", K.FETCH, _fetch("one", 1, isolation=1)),
    Case("fetch, in a session", K.FETCH, _fetch("one", 0, session=True)),
    Case("fetch, an empty partition", K.FETCH, _fetch("two", 0, partition=1)),
    Case("fetch, behind the end", K.FETCH, _fetch("two", 5, partition=1)),
    Case("fetch, before the beginning", K.FETCH, _fetch("one", -5)),
    Case("fetch, unknown topic", K.FETCH, _fetch("none-such", 0)),
    Case("fetch, unknown partition", K.FETCH, _fetch("one", 0, partition=9)),
    Case("fetch, an old leader epoch", K.FETCH, _fetch("one", 0, epoch=77), 9),
    Case("fetch, a session that is not there", K.FETCH, _fetch_unknown_session, 7),
    Case("list offsets, latest and earliest", K.LIST_OFFSETS, _list_offsets("two", -1, -2)),
    Case("list offsets, special", K.LIST_OFFSETS, _list_offsets("two", -3, -4)),
    Case("list offsets, tiered", K.LIST_OFFSETS, _list_offsets("two", -5, -6)),
    Case("list offsets, times", K.LIST_OFFSETS, _list_offsets("one", MOMENT + 2)),
    Case("list offsets, before all", K.LIST_OFFSETS, _list_offsets("one", 0)),
    Case("list offsets, after all", K.LIST_OFFSETS, _list_offsets("one", MOMENT + 10**12)),
    Case("list offsets, the latest moment", K.LIST_OFFSETS, _list_offsets("one", -3)),
    Case("list offsets, no such meaning", K.LIST_OFFSETS, _list_offsets("one", -9)),
    Case("list offsets, unknown topic", K.LIST_OFFSETS, _list_offsets("none-such", -1)),
    Case("list offsets, a wrong epoch", K.LIST_OFFSETS, _list_offsets("one", -1, epoch=9), 4),
    Case("epochs, the current", K.OFFSET_FOR_LEADER_EPOCH, _epochs("one", 0)),
    Case("epochs, a future one", K.OFFSET_FOR_LEADER_EPOCH, _epochs("one", 5)),
    Case("epochs, fenced", K.OFFSET_FOR_LEADER_EPOCH, _epochs("one", 0, current=5)),
    Case("epochs, unknown topic", K.OFFSET_FOR_LEADER_EPOCH, _epochs("none-such", 0)),
    Case("create", K.CREATE_TOPICS, _create("made-#", 3)),
    Case("create, the broker's defaults", K.CREATE_TOPICS, _create("plain-#", -1, -1), 4),
    Case("create, with configs", K.CREATE_TOPICS, _create("tuned-#", configs={"retention.ms": "1000"})),
    Case("create, assigned", K.CREATE_TOPICS, _create("given-#", -1, -1, assignments={0: [1], 1: [1]})),
    Case("create, only to see", K.CREATE_TOPICS, _create("seen-#", 2, validate_only=True)),
    Case("create, what is there", K.CREATE_TOPICS, _create("one")),
    Case("create, a name too near", K.CREATE_TOPICS, _create("made_#")),
    Case("create, a forbidden name", K.CREATE_TOPICS, _create("größe")),
    Case("create, an empty name", K.CREATE_TOPICS, _create("")),
    Case("create, a dot", K.CREATE_TOPICS, _create(".")),
    Case("create, a long name", K.CREATE_TOPICS, _create("x" * 250)),
    Case("create, no partitions", K.CREATE_TOPICS, _create("bad", 0)),
    Case("create, -2 partitions", K.CREATE_TOPICS, _create("bad", -2)),
    Case("create, no replicas", K.CREATE_TOPICS, _create("bad", 1, 0)),
    Case("create, three replicas", K.CREATE_TOPICS, _create("bad", 1, 3)),
    Case("create, an unknown config", K.CREATE_TOPICS, _create("bad", configs={"nonsense": "1"})),
    Case("create, a bad value", K.CREATE_TOPICS, _create("bad", configs={"retention.ms": "long"})),
    Case("create, a value out of range", K.CREATE_TOPICS, _create("bad", configs={"segment.bytes": "3"})),
    Case("create, a bad policy", K.CREATE_TOPICS, _create("bad", configs={"cleanup.policy": "burn"})),
    Case("create, a null config", K.CREATE_TOPICS, _create("bad", configs={"retention.ms": None})),
    Case("create, assigned to nobody", K.CREATE_TOPICS, _create("bad", -1, -1, assignments={0: [99]})),
    Case("create, assigned with a gap", K.CREATE_TOPICS, _create("bad", -1, -1, assignments={1: [1]})),
    Case("create, assigned twice", K.CREATE_TOPICS, _create("bad", -1, -1, assignments={0: [1, 1]})),
    Case("create, assigned and counted", K.CREATE_TOPICS, _create("bad", 1, 1, assignments={0: [1]})),
    Case("create, the same twice", K.CREATE_TOPICS, _create("bad", twice=True)),
    Case("delete, what a case made", K.DELETE_TOPICS, _delete("made-#")),
    Case("delete, unknown", K.DELETE_TOPICS, _delete("none-such")),
    Case("find coordinator, of a group", K.FIND_COORDINATOR, _find(0, COORDINATOR)),
    Case("find coordinator, of two", K.FIND_COORDINATOR, _find(0, COORDINATOR, "zweiter"), 4),
    Case("find coordinator, of nothing", K.FIND_COORDINATOR, _find(9, "x"), 1),
    Case("commit by a reader without a group", K.OFFSET_COMMIT, _commit(COORDINATOR, "one")),
    Case("commit, unknown topic", K.OFFSET_COMMIT, _commit(COORDINATOR, "none-such")),
    Case("commit, unknown partition", K.OFFSET_COMMIT, _commit(COORDINATOR, "one", partition=9)),
    Case("commit, long metadata", K.OFFSET_COMMIT, _commit(COORDINATOR, "one", metadata="x" * 4097)),
    Case("commit, a stranger", K.OFFSET_COMMIT, _commit(COORDINATOR, "one", generation=3, member="who")),
    Case("commit, no such group", K.OFFSET_COMMIT, _commit("no-group", "one", generation=3, member="who")),
    Case("fetch offsets", K.OFFSET_FETCH, _fetch_offsets(COORDINATOR)),
    Case("fetch offsets, all", K.OFFSET_FETCH, _fetch_offsets(COORDINATOR, all_topics=True), 2),
    Case("fetch offsets, unknown group", K.OFFSET_FETCH, _fetch_offsets("no-group")),
    Case("join", K.JOIN_GROUP, _join("gruppe-#")),
    Case("join, an unknown member", K.JOIN_GROUP, _join("gruppe-b#", member="nobody")),
    Case("join, impatient", K.JOIN_GROUP, _join("gruppe-c#", session_timeout_ms=10)),
    Case("join, without a group id", K.JOIN_GROUP, _join("")),
    Case("join, without a protocol", K.JOIN_GROUP, _join("gruppe-d#", protocols=())),
    Case("sync, no such group", K.SYNC_GROUP, lambda w, v: SyncGroupRequest("no-group", 1, "m")),
    Case("sync, without a group id", K.SYNC_GROUP, lambda w, v: SyncGroupRequest("", 1, "m")),
    Case("heartbeat, no such group", K.HEARTBEAT, lambda w, v: HeartbeatRequest("no-group", 1, "m")),
    Case("heartbeat, a stranger", K.HEARTBEAT, lambda w, v: HeartbeatRequest(COORDINATOR, 1, "m")),
    Case("leave, no such group", K.LEAVE_GROUP, _leave("no-group")),
    Case("leave, a stranger", K.LEAVE_GROUP, _leave(COORDINATOR)),
    Case("describe group", K.DESCRIBE_GROUPS, lambda w, v: DescribeGroupsRequest([COORDINATOR])),
    Case("describe unknown group", K.DESCRIBE_GROUPS, lambda w, v: DescribeGroupsRequest(["no-group", ""])),
    Case("list groups, of a state", K.LIST_GROUPS, lambda w, v: ListGroupsRequest(["empty"]), 4),
    Case("list groups, no such state", K.LIST_GROUPS, lambda w, v: ListGroupsRequest(["weary"]), 4),
    Case("list groups, of a kind", K.LIST_GROUPS, lambda w, v: ListGroupsRequest([], ["Consumer"]), 5),
    Case("delete offsets, unknown group", K.OFFSET_DELETE, _delete_offsets("no-group", "one")),
    Case("delete offsets, without a group id", K.OFFSET_DELETE, _delete_offsets("", "one")),
    Case("delete offsets, of topics there are and are not", K.OFFSET_DELETE,
         _delete_offsets(COORDINATOR, "one", "none-such", "two")),
    Case("delete offsets, of no topic", K.OFFSET_DELETE, _delete_offsets(COORDINATOR, "none-such")),
    Case("fetch offsets, deleted", K.OFFSET_FETCH, _fetch_offsets(COORDINATOR)),
    Case("commit what is deleted with its group", K.OFFSET_COMMIT, _commit("dies", "one")),
    Case("delete groups", K.DELETE_GROUPS, _delete_groups("dies", "no-group", "dies", "")),
    Case("delete groups, none", K.DELETE_GROUPS, _delete_groups()),
    Case("fetch offsets, of a deleted group", K.OFFSET_FETCH, _fetch_offsets("dies", all_topics=True), 2),
    Case("describe a deleted group", K.DESCRIBE_GROUPS, lambda w, v: DescribeGroupsRequest(["dies"])),
    Case("producer id", K.INIT_PRODUCER_ID, lambda w, v: InitProducerIdRequest(None, 1000)),
    Case("producer id, an empty name", K.INIT_PRODUCER_ID, lambda w, v: InitProducerIdRequest("", 1000)),
    Case("configs of a topic", K.DESCRIBE_CONFIGS, _configs(2, "two")),
    Case("configs of a topic, with synonyms", K.DESCRIBE_CONFIGS, _configs(2, "two", synonyms=True)),
    Case("configs, one of an unknown kind", K.DESCRIBE_CONFIGS, _configs_of_two),
    Case("two configs of a topic", K.DESCRIBE_CONFIGS, _configs(2, "one", "retention.ms", "nonsense")),
    Case("configs of no topic", K.DESCRIBE_CONFIGS, _configs(2, "none-such")),
    Case("configs of a forbidden topic", K.DESCRIBE_CONFIGS, _configs(2, "a/b")),
    Case(
        "configs of a broker",
        K.DESCRIBE_CONFIGS,
        _configs(4, "1", "num.partitions", "log.retention.ms", "ssl.key.password", "node.id", synonyms=True),
    ),
    Case("configs of another broker", K.DESCRIBE_CONFIGS, _configs(4, "7")),
    Case("configs of a broker with a name", K.DESCRIBE_CONFIGS, _configs(4, "one")),
    Case("configs of all brokers", K.DESCRIBE_CONFIGS, _configs(4, "")),
    Case("configs of a group", K.DESCRIBE_CONFIGS, _configs(32, COORDINATOR)),
    Case("configs of an unknown kind", K.DESCRIBE_CONFIGS, _configs(77, "x")),
    Case("the newer protocol", K.CONSUMER_GROUP_HEARTBEAT, lambda w, v: ConsumerGroupHeartbeatRequest("g")),
    Case(
        "the newer protocol, groups of which none is",
        K.CONSUMER_GROUP_DESCRIBE,
        lambda w, v: ConsumerGroupDescribeRequest(["none-such", ""], include_authorized_operations=True),
    ),
    Case("produce, a partition named twice", K.PRODUCE, _produce_twice(_batch(b"1", b"2"), _batch(b"3"))),
    Case("produce, named twice, the last one broken", K.PRODUCE, _produce_twice(_batch(b"1"), _broken())),
    Case("produce, a transactional batch without an id", K.PRODUCE, _produce_of_a_transaction),
    *of_acls.CASES,
    *of_configs.CASES,
    *of_credentials.CASES,
    *of_features.CASES,
    *of_quotas.CASES,
    *of_voters.CASES,
    *of_replicas.CASES,
    *of_topics.CASES,
    *of_transactions.CASES,
)  # fmt: skip
