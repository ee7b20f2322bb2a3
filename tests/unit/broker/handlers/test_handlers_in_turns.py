"""Handlers that may be interrupted: where they yield, that nobody sees it in the answer, and what becomes of
changes that come between two turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller_channel.topic_creation import CREATED_AT_ONCE_MAX
from broker.dispatch.dispatcher import Dispatcher
from broker.handlers import (
    delete_records,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)
from broker.handlers.list_offsets import PARTITIONS_PER_STEP
from broker.handlers.table import broker_handlers
from broker.security.authorizer import AllowAll
from config.limits import LONG_TURN_MS, OFFSETS_PER_COMMIT
from protocol.codec.compiler import decoder
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.framing import encode_request_frame, encode_response_frame
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.metadata_log.cluster import FeatureLevelRecord
from protocol.metadata_log.topics import RemoveTopicRecord
from protocol.registry import ApiKey, api
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.handler_table import HandlerTable, ServedApi
from protocol.serving.pending import Pending
from protocol.serving.turns import with_elements
from tests.support.rigs.group_world import GroupWorld
from tests.support.rigs.handler_rig import HandlerRig, now, topic_id
from tests.support.rigs.sans_io import RecordingWire, Rig
from tests.support.rigs.transactional_broker import TransactionalBroker
from tests.support.samples.long_arrays import Distinct, Nothing, Path, Same, Words, array_paths, long_frame

FRAME_BYTES = 24_000
MOST_BETWEEN_TURNS = 500

TABLE: HandlerTable = broker_handlers()
IN_TURNS = [served for served in TABLE if served.turns is not None]

OF_A_MEMBER = {
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "topic_partitions"): "what a member owns, its coordinator takes as one",
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "partitions"): "what a member owns, its coordinator takes as one",
}
ONE_STEP = {
    **OF_A_MEMBER,
    (ApiKey.LIST_GROUPS, "states_filter"): "the groups are asked in turns, and not the filters",
    (ApiKey.LIST_GROUPS, "types_filter"): "the groups are asked in turns, and not the filters",
    (ApiKey.OFFSET_COMMIT, "partitions"): "those of a topic that is not there are refused together",
    (ApiKey.TXN_OFFSET_COMMIT, "partitions"): "those of a topic that is not there are refused together",
    (ApiKey.OFFSET_DELETE, "partitions"): "the offsets that are forgotten are one batch",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "components"): "the first that contradicts another one refuses all",
    (ApiKey.DESCRIBE_CONFIGS, "configuration_keys"): "one resource is described at a time",
}
"""Arrays that are looked at between two turns, by the name of their field."""


def cases() -> list[Any]:
    found = []
    for served in IN_TURNS:
        cls = api(served.api_key).request
        low = max(served.min_version, cls.declaration.versions.first)
        for version in dict.fromkeys((low, served.max_version)):
            for path in array_paths(cls, version):
                name = f"{served.api_key.name}-{version}-{'.'.join(path)}"
                found.append(pytest.param(served, version, path, id=name))
    return found


def test_there_are_as_many_as_there_should_be() -> None:
    assert len(IN_TURNS) >= 19


class Node:
    """A broker with a topic of twenty partitions, and its groups."""

    def __init__(self) -> None:
        self.rig = TransactionalBroker(partitions=20, auto_create_topics_enable="false")
        self.rig.apply(FeatureLevelRecord("group.version", 1))
        self.world = GroupWorld()
        self.world.cluster.topics["t"] = 20
        self.world.commit_error(5)
        self.rig.services.groups = self.world.groups
        no_logs: Any = SimpleNamespace(directories=[], failed_directories=[], logs={})
        self.rig.services.logs = no_logs
        self.services = self.rig.services


WORDS: dict[str, Words] = {
    "nothing": Nothing(),
    "distinct": Distinct(),
    "same": Same("t", topic_id(1), {"resource_type": 2, "timestamp": -1, "timeout_ms": 1000}),
}


def request_of(served: ServedApi[Any], version: int, path: Path, words: Words) -> tuple[Any, bytes, int]:
    """The request, its frame, and how many elements its wide array has."""
    cls = api(served.api_key).request
    sized = long_frame(cls, version, path, FRAME_BYTES, words)
    position = 4 + 10 + len("long") + cls.declaration.flexible.covers(version)
    return decoder(cls, version)(sized.frame, position)[0], sized.frame, sized.elements


@pytest.mark.parametrize(("served", "version", "path"), cases())
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_turn_may_end_often(served: ServedApi[Any], version: int, path: Path, words: Words) -> None:
    node = Node()
    request, _, elements = request_of(served, version, path, words)
    context = node.rig.context(served.api_key, version)
    assert served.turns is not None
    count = sum(1 for _ in served.turns(node.services, context, request))
    if (served.api_key, path[-1]) not in ONE_STEP:
        assert count >= elements // MOST_BETWEEN_TURNS


@pytest.mark.parametrize(("served", "version", "path"), cases())
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_the_answer_is_the_same_however_many_turns_it_takes(
    served: ServedApi[Any], version: int, path: Path, words: Words
) -> None:
    request, frame, _ = request_of(served, version, path, words)
    node = Node()
    context = node.rig.context(served.api_key, version)
    response = now(served.handler(node.services, context, request))
    pieces = encode_response_frame(response, version, 77)
    expected = b"".join(piece for piece in pieces if isinstance(piece, bytes))

    rig, wire = Rig(), RecordingWire()
    dispatcher = Dispatcher(TABLE, Node().services, clock=rig.clock, authorizer=AllowAll(), lane=rig.lane)
    read = rig.clock.monotonic_ns

    def hurried() -> int:
        rig.clock.move(0.9)
        return read()

    dispatcher.monotonic_ns = hurried
    rig.service = dispatcher  # type: ignore[assignment]
    assert rig.feed(frame, rig.another(wire)) == len(frame)
    turns = rig.timers.run_soon()
    assert wire.sent == expected
    assert turns > 3 or (served.api_key, path[-1]) in OF_A_MEMBER
    assert dispatcher.metrics.failures == 0
    assert rig.memory.used_bytes == 0


Offsets = OffsetFetchRequest
Topics = MetadataRequest.MetadataRequestTopic
NOT_PLAIN = {
    "groups": (DescribeGroupsRequest(["g"]), 5),
    "all groups": (ListGroupsRequest(), 5),
    "consumer groups": (ConsumerGroupDescribeRequest(["g"]), 1),
    "transactions": (DescribeTransactionsRequest(["x"]), 0),
    "all transactions": (ListTransactionsRequest(), 1),
    "producers": (DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", [0])]), 0),
    "configs": (DescribeConfigsRequest([DescribeConfigsRequest.DescribeConfigsResource(4, "1")]), 4),
    "all resources": (ListConfigResourcesRequest(), 1),
    "all logs": (DescribeLogDirsRequest(None), 4),
    "a page of topics": (DescribeTopicPartitionsRequest(), 0),
    "metadata of all topics": (MetadataRequest(None), 12),
    "metadata of all topics, first version": (MetadataRequest([]), 0),
    "metadata of many topics": (MetadataRequest([Topics(name=str(n)) for n in range(11)]), 12),
    "all offsets": (Offsets(group_id="g", topics=None), 7),
    "all offsets of a group": (Offsets(groups=[Offsets.OffsetFetchRequestGroup("g", topics=None)]), 8),
}
PLAIN = {
    "metadata of no topic": (MetadataRequest([]), 1),
    "metadata of a few topics": (MetadataRequest([Topics(name=str(n)) for n in range(10)]), 12),
    "offsets": (Offsets(group_id="g", topics=[Offsets.OffsetFetchRequestTopic("t", [0])]), 7),
    "offsets of a group": (
        Offsets(
            groups=[
                Offsets.OffsetFetchRequestGroup(
                    "g", topics=[Offsets.OffsetFetchRequestTopics("t", partition_indexes=[0, 1])]
                )
            ]
        ),
        8,
    ),
}


@pytest.mark.parametrize(
    ("request_", "version", "is_plain"),
    [(*asked, False) for asked in NOT_PLAIN.values()] + [(*asked, True) for asked in PLAIN.values()],
    ids=[*NOT_PLAIN, *PLAIN],
)
def test_what_a_short_name_may_stand_for_is_answered_in_turns(
    request_: Message, version: int, is_plain: bool
) -> None:
    """Each look at the clock says that the turn is over."""
    rig, wire = Rig(), RecordingWire()
    dispatcher = Dispatcher(TABLE, Node().services, clock=rig.clock, authorizer=AllowAll(), lane=rig.lane)
    read = rig.clock.monotonic_ns

    def hurried() -> int:
        rig.clock.move(LONG_TURN_MS + 1)
        return read()

    dispatcher.monotonic_ns = hurried
    rig.service = dispatcher  # type: ignore[assignment]
    rig.feed(encode_request_frame(request_, version, 7, "me"), rig.another(wire))
    assert bool(wire.sent) == is_plain
    rig.timers.run_soon()
    assert wire.sent
    assert dispatcher.metrics.failures == 0


def test_groups_are_listed_in_turns_to_who_sees_only_some() -> None:
    node = Node()
    for number in range(9):
        node.world.commit_error(1, group_id=f"g{number}")
    rig = node.rig
    rig.authorizer.denied |= {
        (Operation.DESCRIBE, ResourceType.CLUSTER, None),
        (Operation.DESCRIBE, ResourceType.GROUP, "g3"),
    }
    asked = rig.context(ApiKey.LIST_GROUPS, 5)
    turns = list(list_groups.handle.turns(node.services, asked, ListGroupsRequest()))  # type: ignore[attr-defined]
    shown = [each.group_id for each in turns if each is not None and each.group_id != "g"]
    assert shown == [f"g{number}" for number in range(9) if number != 3]
    assert len(turns) >= 9


def test_metadata_is_one_picture() -> None:
    """The topic goes and the brokers change between two turns: the answer is that of its beginning."""
    rig = HandlerRig()
    made = rig.topic("t", 2)
    request = MetadataRequest(
        [MetadataRequest.MetadataRequestTopic(name=name) for name in ("missing?", "t")], False
    )
    turns = metadata.handle.turns(rig.services, rig.context(ApiKey.METADATA, 12), request)  # type: ignore[attr-defined]
    elements = [element for element in (next(turns), next(turns), next(turns)) if element is not None]
    rig.apply(RemoveTopicRecord(made), rig.broker_record(2))
    while True:
        try:
            element = next(turns)
        except StopIteration as end:
            response = end.value
            break
        if element is not None:
            elements.append(element)
    with_elements(response, elements)
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        ("missing?", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("t", 0, 2),
    ]
    assert [broker.node_id for broker in response.brokers] == [1]


def test_each_partition_is_judged_at_its_own_moment() -> None:
    count = 2 * PARTITIONS_PER_STEP
    rig = HandlerRig()
    made = rig.topic("t", count)
    asked = [ListOffsetsRequest.ListOffsetsPartition(index, -1, -1) for index in range(count)]
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic("t", asked)])
    steps = list_offsets.answers_in_steps(rig.services, rig.context(ApiKey.LIST_OFFSETS, 7), request)
    for _ in range(2 + 1):  # two for the look at repeated ones, one for the first half
        next(steps)
    rig.remove_topic(made)
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    (topic,) = end.value.value.topics
    codes = [answer.error_code for answer in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [0] * PARTITIONS_PER_STEP + [unknown] * PARTITIONS_PER_STEP


def test_a_low_watermark_that_moves_between_two_turns_is_not_missed() -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2))
    rig.topic("t", 2, replicas=(1, 2))
    for index in range(2):
        rig.write("t", index, 5)
        rig.replicas.by_name["t", index].follower_fetched(2, 5, 0, now_ms=0)
    request = DeleteRecordsRequest(
        [
            DeleteRecordsRequest.DeleteRecordsTopic(
                "t", [DeleteRecordsRequest.DeleteRecordsPartition(index, 3) for index in range(2)]
            )
        ],
        5000,
    )
    turns = delete_records.handle.turns(rig.services, rig.context(ApiKey.DELETE_RECORDS, 2), request)  # type: ignore[attr-defined]
    for _ in range(4):  # a topic and two partitions are looked at, then the first is done
        next(turns)
    rig.replicas.by_name["t", 0].follower_fetched(2, 5, 3, now_ms=0)
    next(turns)
    with pytest.raises(StopIteration) as end:
        next(turns)
    pending: Pending[Any] = end.value.value
    assert not pending.done
    rig.replicas.by_name["t", 1].follower_fetched(2, 5, 3, now_ms=0)
    assert pending.response is not None
    answers = pending.response.topics[0].partitions
    assert [(answer.low_watermark, answer.error_code) for answer in answers] == [(3, 0), (3, 0)]


def test_missing_topics_are_made_some_at_a_time() -> None:
    rig = HandlerRig()
    names = [f"new-{number}" for number in range(3 * CREATED_AT_ONCE_MAX)]
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name) for name in names])
    response = now(metadata.handle(rig.services, rig.context(ApiKey.METADATA, 12), request))
    assert {topic.error_code for topic in response.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    (envelope,) = rig.peer.requests
    data = envelope.request_data  # type: ignore[attr-defined]
    made = decoder(CreateTopicsRequest, 7)(data, 8 + 2 + len("client") + 1)[0].topics
    assert [topic.name for topic in made] == names[:CREATED_AT_ONCE_MAX]
    metadata.handle(rig.services, rig.context(ApiKey.METADATA, 12), request)
    assert len(rig.peer.requests) == 2, "the next ones, since the first are on their way"


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.cluster.topics["t"] = 2_000_000
    return world


def offsets(world: GroupWorld, indexes: list[int], version: int, **options: Any) -> Any:
    if version < 8:
        request = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequest.OffsetFetchRequestTopic("t", indexes)], **options
        )
    else:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics("t", partition_indexes=indexes)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=[topic])], **options
        )
    return offset_fetch.handle.turns(  # type: ignore[attr-defined]
        SimpleNamespace(groups=world.groups), world.context(ApiKey.OFFSET_FETCH, version), request
    )


def run(turns: Any) -> Any:
    while True:
        try:
            next(turns)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("version", [1, 7, 8, 9])
@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1700])
def test_a_topic_that_is_looked_up_in_parts_is_one_topic(world: GroupWorld, version: int, count: int) -> None:
    world.commit_error(7, partition=3)
    world.commit_error(8, partition=1300)
    answer = run(offsets(world, list(range(count)), version))
    (topic,) = answer.topics if version < 8 else answer.groups[0].topics
    assert [entry.partition_index for entry in topic.partitions] == list(range(count))
    known = {e.partition_index: e.committed_offset for e in topic.partitions if e.committed_offset >= 0}
    assert known == {index: offset for index, offset in ((3, 7), (1300, 8)) if index < count}


def test_many_small_topics_are_looked_up_in_parts_too(world: GroupWorld) -> None:
    names = [f"n{number}" for number in range(1234)]
    Topic = OffsetFetchRequest.OffsetFetchRequestTopic  # noqa: N806
    topics = [Topic(name, [0, 1] * (n % 3)) for n, name in enumerate(names)]
    turns = offset_fetch.handle.turns(  # type: ignore[attr-defined]
        SimpleNamespace(groups=world.groups),
        world.context(ApiKey.OFFSET_FETCH, 7),
        OffsetFetchRequest(group_id="g", topics=topics),
    )
    answer = run(turns)
    assert [topic.name for topic in answer.topics] == names
    assert [len(topic.partitions) for topic in answer.topics] == [2 * (n % 3) for n in range(1234)]


@pytest.mark.parametrize("version", [1, 7, 8])
def test_a_coordinator_that_moves_between_two_turns_is_the_group_s_error(
    world: GroupWorld, version: int
) -> None:
    turns = offsets(world, list(range(1700)), version)
    for _ in range(4):
        next(turns)
    world.groups.close()
    answer = run(turns)
    if version == 1:
        errors = {entry.error_code for entry in answer.topics[0].partitions}
        assert errors == {ErrorCode.NOT_COORDINATOR}
        assert len(answer.topics[0].partitions) == 1700
    else:
        group = answer if version < 8 else answer.groups[0]
        assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])


def commit_of(count: int, generation: int, member_id: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partitions = [partition(index, index) for index in range(count)]
    return OffsetCommitRequest("g", generation, member_id, topics=[topic("t", partitions=partitions)])


def commit_in_turns(world: GroupWorld, request: OffsetCommitRequest) -> Any:
    return offset_commit.handle.turns(  # type: ignore[attr-defined]
        SimpleNamespace(groups=world.groups), world.context(ApiKey.OFFSET_COMMIT, 9), request
    )


def test_a_long_commit_is_made_in_turns_and_stored_as_one(world: GroupWorld) -> None:
    (member,) = world.stable_group(1)
    turns = commit_in_turns(world, commit_of(1000, 1, member))
    before = sum(map(len, world.log.batches.values()))
    for _ in range(8):
        next(turns)
    assert sum(map(len, world.log.batches.values())) == before, "nothing is stored before all is made"
    world.commit_error(7_777, member_id=member, generation=1, partition=3)
    answer = run(turns)
    assert {entry.error_code for entry in answer.topics[0].partitions} == {0}
    assert sum(map(len, world.log.batches.values())) == before + 2
    assert [world.committed(partition=index).offset for index in (0, 3, 999)] == [0, 3, 999]


def test_a_member_that_goes_while_its_commit_is_made_commits_nothing(world: GroupWorld) -> None:
    (member,) = world.stable_group(1)
    turns = commit_in_turns(world, commit_of(1000, 1, member))
    for _ in range(8):
        next(turns)
    world.leave(member)
    answer = run(turns)
    assert {entry.error_code for entry in answer.topics[0].partitions} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(answer.topics[0].partitions) == 1000
    assert world.committed(partition=0).offset == -1


@pytest.mark.parametrize("version", [1, 7, 8])
def test_what_is_not_committed_yet_is_waited_for(world: GroupWorld, version: int) -> None:
    world.log.held = []
    world.commit(9, partition=600)
    answer = run(offsets(world, list(range(1700)), version))
    assert isinstance(answer, Pending)
    world.log.decide()
    assert answer.response is not None
    (topic,) = answer.response.topics if version < 8 else answer.response.groups[0].topics
    assert [entry.partition_index for entry in topic.partitions] == list(range(1700))
    assert topic.partitions[600].committed_offset == 9


def test_all_offsets_of_a_group_are_there_once_however_often_it_is_named(world: GroupWorld) -> None:
    world.commit_error(9, partition=3)
    again = [OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None) for _ in range(1000)]
    turns = offset_fetch.handle.turns(  # type: ignore[attr-defined]
        SimpleNamespace(groups=world.groups),
        world.context(ApiKey.OFFSET_FETCH, 8),
        OffsetFetchRequest(groups=again),
    )
    answer = run(turns)
    assert len(answer.groups) == 1000
    assert len({id(group) for group in answer.groups}) == 1


def test_a_commit_that_no_batch_can_hold_is_refused_before_the_work(world: GroupWorld) -> None:
    world.authorizer.denied.add((Operation.READ, ResourceType.TOPIC, "hidden"))
    Topic, Partition = (  # noqa: N806
        OffsetCommitRequest.OffsetCommitRequestTopic,
        OffsetCommitRequest.OffsetCommitRequestPartition,
    )

    def commit(count: int) -> Any:
        topics = [
            Topic("hidden", partitions=[Partition(0, 1)]),
            Topic("t", partitions=[Partition(index, 1) for index in range(count)]),
        ]
        request = OffsetCommitRequest(group_id="g", topics=topics)
        services = SimpleNamespace(groups=world.groups)
        return now(offset_commit.handle(services, world.context(ApiKey.OFFSET_COMMIT, 9), request))

    refused = commit(OFFSETS_PER_COMMIT + 1)
    codes = {topic.name: {entry.error_code for entry in topic.partitions} for topic in refused.topics}
    assert codes == {
        "hidden": {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        "t": {ErrorCode.UNKNOWN_SERVER_ERROR},
    }
    assert world.committed().offset == -1
    done = commit(100)
    assert {entry.error_code for entry in done.topics[1].partitions} == {0}
