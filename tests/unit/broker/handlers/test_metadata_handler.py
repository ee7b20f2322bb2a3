"""Metadata and DescribeTopicPartitions: what a client is told of topics, and which topics come into being
by it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers import describe_topic_partitions, metadata
from protocol.codec.compiler import decode, encode
from protocol.errors import ErrorCode
from protocol.headers import decode_request_header
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.envelope import EnvelopeRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.metadata_log.registrations import FenceBrokerRecord
from protocol.metadata_log.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from protocol.serving.authorization import Operation, ResourceType
from protocol.values import ZERO_UUID
from tests.support.rigs.handler_rig import CLUSTER_ID, HandlerRig, topic_id

Entry = MetadataRequest.MetadataRequestTopic
NOT_ASKED = -(2**31)


@pytest.fixture
def rig() -> HandlerRig:
    made = HandlerRig()
    made.topic("a", 2, number=1)
    made.topic("b", 1, number=2)
    return made


def ask(
    rig: HandlerRig, *names: str, version: int = 13, ids: tuple[bytes, ...] = (), **options: Any
) -> MetadataResponse:
    entries = [Entry(name=name) for name in names] + [Entry(made, None) for made in ids]
    return metadata.handle(rig.services, rig.context(3, version), MetadataRequest(entries, **options))


def codes(response: MetadataResponse) -> dict[str | None, ErrorCode]:
    return {topic.name: ErrorCode(topic.error_code) for topic in response.topics}


def test_all_topics(rig: HandlerRig) -> None:
    response = metadata.handle(rig.services, rig.context(3, 13), MetadataRequest(None))
    assert codes(response) == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
    assert [len(topic.partitions) for topic in response.topics] == [2, 1]
    assert response.topics[0].topic_id == topic_id(1)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert response.brokers == [MetadataResponse.MetadataResponseBroker(1, "host1", 9001)]
    assert response.topics[0].partitions[1] == MetadataResponse.MetadataResponsePartition(
        0, 1, 1, 0, [1], [1]
    )


@pytest.mark.parametrize(("version", "count"), [(0, 2), (1, 0), (13, 0)])
def test_an_empty_list_means_all_in_version_0_only(rig: HandlerRig, version: int, count: int) -> None:
    assert len(ask(rig, version=version).topics) == count


@pytest.mark.parametrize("version", range(14))
def test_every_version_can_be_sent_and_read(rig: HandlerRig, version: int) -> None:
    request = MetadataRequest([Entry(name="a"), Entry(name="nobody")])
    received = decode(MetadataRequest, version, encode(request, version))
    response = metadata.handle(rig.services, rig.context(3, version), received)
    told = decode(MetadataResponse, version, encode(response, version))
    assert codes(told) == {"a": ErrorCode.NONE, "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert told.topics[0].topic_id == (topic_id(1) if version >= 10 else ZERO_UUID)


def test_kept_parts_are_the_same_objects_until_the_topic_changes(rig: HandlerRig) -> None:
    first, second = ask(rig, "a").topics[0], ask(rig, "a").topics[0]
    assert first is second
    other = ask(rig, "b").topics[0]
    rig.remove_topic(topic_id(1))
    rig.topic("a", 3, number=3)
    changed = ask(rig, "a").topics[0]
    assert (changed.topic_id, len(changed.partitions)) == (topic_id(3), 3)
    assert ask(rig, "b").topics[0] is other
    rig.apply(rig.broker_record(2))
    assert ask(rig, "b").topics[0] is not other


def test_of_a_changed_topic_what_has_not_changed_is_kept(rig: HandlerRig) -> None:
    """A topic may have ten thousand partitions, and each change of an ISR is a change of the topic."""
    before = ask(rig, "a").topics[0].partitions
    rig.apply(PartitionChangeRecord(partition_id=1, topic_id=topic_id(1), leader=1))
    after = ask(rig, "a").topics[0].partitions
    assert after[0] is before[0]
    assert (before[1].leader_epoch, after[1].leader_epoch) == (0, 1)


def test_the_rights_to_see(rig: HandlerRig) -> None:
    rig.deny(Operation.DESCRIBE, ResourceType.TOPIC, "a")
    everything = metadata.handle(rig.services, rig.context(3, 13), MetadataRequest(None))
    assert codes(everything) == {"b": ErrorCode.NONE}
    named = ask(rig, "a", "b")
    assert codes(named) == {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "b": ErrorCode.NONE}
    assert (named.topics[0].topic_id, named.topics[0].partitions) == (ZERO_UUID, [])
    (by_id,) = ask(rig, ids=(topic_id(1),)).topics
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        None,
        topic_id(1),
    )


def test_topics_by_id(rig: HandlerRig) -> None:
    response = ask(rig, ids=(topic_id(2), topic_id(9)), version=12)
    assert [(t.error_code, t.name, t.topic_id) for t in response.topics] == [
        (0, "b", topic_id(2)),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id(9)),
    ]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(rig: HandlerRig, version: int) -> None:
    response = ask(
        rig,
        "a",
        ids=(topic_id(2), ZERO_UUID),
        version=version,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    told = decode(MetadataResponse, version, encode(response, version))
    refused = MetadataResponse.MetadataResponseTopic
    assert told == MetadataResponse(
        topics=[
            refused(ErrorCode.INVALID_REQUEST, "a"),
            refused(ErrorCode.INVALID_REQUEST, "", topic_id(2)),
            refused(ErrorCode.INVALID_REQUEST, ""),
        ]
    )
    assert (told.brokers, told.cluster_id, told.controller_id) == ([], None, -1)
    assert codes(ask(rig, "a", version=version)) == {"a": ErrorCode.NONE}


def test_operations_are_told_when_asked_for(rig: HandlerRig) -> None:
    plain = ask(rig, "a", version=8)
    assert (plain.topics[0].topic_authorized_operations, plain.cluster_authorized_operations) == (
        NOT_ASKED,
        NOT_ASKED,
    )
    rig.deny(Operation.WRITE, ResourceType.TOPIC, "a")
    options: Any = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    told = ask(rig, "a", version=10, **options)
    readable = sum(1 << code for code in (3, 5, 6, 7, 8, 10, 11))
    assert told.topics[0].topic_authorized_operations == readable
    assert told.cluster_authorized_operations == sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
    assert ask(rig, "a", version=8).topics[0].topic_authorized_operations == NOT_ASKED
    assert ask(rig, "a", version=11, **options).cluster_authorized_operations == NOT_ASKED
    rig.deny(Operation.DESCRIBE, ResourceType.CLUSTER)
    assert ask(rig, "a", version=10, **options).cluster_authorized_operations == 0


@pytest.mark.parametrize(
    ("directory", "online", "offline"),
    [
        (b"a" * 16, [b"a" * 16, b"b" * 16], False),
        (b"a" * 16, [b"b" * 16], True),
        (b"a" * 16, [], False),
        (bytes(16), [b"b" * 16], False),
        (bytes(15) + b"\1", [b"b" * 16], False),
        (bytes(15) + b"\2", [b"b" * 16], True),
        (bytes(15) + b"\2", [], True),
    ],
)
def test_a_replica_in_a_directory_that_failed_is_offline(
    directory: bytes, online: list[bytes], offline: bool
) -> None:
    """As DirectoryId.isOnline of Apache Kafka 4.3: migrating and unassigned are online, lost is not."""
    rig = HandlerRig()
    registration = rig.broker_record(1)
    registration.log_dirs = online
    made = topic_id(1)
    rig.apply(
        registration,
        TopicRecord("t", made),
        PartitionRecord(partition_id=0, topic_id=made, replicas=[1], isr=[1], directories=[directory]),
    )
    expected = [1] if offline else []
    assert ask(rig, "t", version=12).topics[0].partitions[0].offline_replicas == expected
    page = DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequest.TopicRequest("t")])
    answer = describe_topic_partitions.handle(rig.services, rig.context(75, 0), page)
    assert answer.topics[0].partitions[0].offline_replicas == expected


def test_unreachable_brokers_in_the_words_of_each_version() -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2, listener="OTHER"), rig.broker_record(3))
    rig.topic("elsewhere", number=1, replicas=(2, 1), leader=2)
    rig.topic("nobody", number=2, replicas=(4, 1), isr=(4,), leader=-1)
    rig.topic("fenced", number=3, replicas=(1, 3), isr=(1,))
    rig.apply(FenceBrokerRecord(3, 5))

    def told(topic: str, version: int) -> MetadataResponse.MetadataResponsePartition:
        return ask(rig, topic, version=version).topics[0].partitions[0]

    assert told("elsewhere", 6).error_code == ErrorCode.LISTENER_NOT_FOUND
    assert told("elsewhere", 5).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (told("elsewhere", 6).leader_id, told("elsewhere", 6).replica_nodes) == (-1, [2, 1])
    assert told("elsewhere", 0).replica_nodes == [1]
    assert told("nobody", 13).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert told("nobody", 13).offline_replicas == [4]
    assert (told("fenced", 13).error_code, told("fenced", 13).offline_replicas) == (0, [3])
    assert (told("fenced", 0).error_code, told("fenced", 0).leader_id) == (ErrorCode.REPLICA_NOT_AVAILABLE, 1)
    assert (told("fenced", 0).replica_nodes, told("fenced", 0).isr_nodes) == ([1], [1])
    response = ask(rig, version=13)
    assert [broker.node_id for broker in response.brokers] == [1]
    assert {ask(rig, version=13).controller_id for _ in range(4)} == {1, 2}


def test_no_answer_names_no_broker() -> None:
    """The last one is fenced before it goes: a client that is told of none would forget where to ask."""
    rig = HandlerRig()
    rig.apply(rig.broker_record(2), rig.broker_record(3, listener="OTHER"))
    rig.topic("left", number=1)
    rig.apply(FenceBrokerRecord(2, 5))
    assert [broker.node_id for broker in ask(rig, "left").brokers] == [1]
    rig.apply(FenceBrokerRecord(1, 5))
    response = ask(rig, "left")
    assert [broker.node_id for broker in response.brokers] == [1, 2]
    assert codes(response) == {"left": ErrorCode.NONE}


# Topics on first use.


def created(rig: HandlerRig) -> list[CreateTopicsRequest.CreatableTopic]:
    """What the controller was asked for, out of the envelope."""
    topics = []
    for request in rig.peer.requests:
        if isinstance(request, CreateTopicsRequest):
            topics += request.topics
            continue
        assert isinstance(request, EnvelopeRequest)
        header, position = decode_request_header(request.request_data, 0)
        inner = decode(
            CreateTopicsRequest, header.request_api_version, memoryview(request.request_data)[position:]
        )
        topics += inner.topics
    return topics


def test_an_unknown_topic_is_created_once_and_told_as_unknown(rig: HandlerRig) -> None:
    unknown = {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(ask(rig, "new")) == unknown
    assert codes(ask(rig, "new")) == unknown
    (topic,) = created(rig)
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("new", -1, -1)
    rig.topic("new", number=5)
    assert codes(ask(rig, "new")) == {"new": ErrorCode.NONE}


def test_the_brokers_own_defaults_count_where_they_are_set() -> None:
    rig = HandlerRig(num_partitions="6", default_replication_factor="2")
    ask(rig, "new")
    (topic,) = created(rig)
    assert (topic.num_partitions, topic.replication_factor) == (6, 2)


def test_the_coordinators_topics_have_configs_of_their_own() -> None:
    rig = HandlerRig(offsets_topic_num_partitions="7", offsets_topic_replication_factor="1")
    response = ask(rig, "__consumer_offsets")
    assert response.topics[0].is_internal
    (topic,) = created(rig)
    assert (topic.num_partitions, topic.replication_factor) == (7, 1)
    assert {config.name: config.value for config in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_who_does_not_create(rig: HandlerRig) -> None:
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    options: Any = {"allow_auto_topic_creation": False}
    assert codes(ask(rig, "new", "bad name", **options)) == {"new": unknown, "bad name": invalid}
    assert codes(ask(rig, "bad name", "")) == {"bad name": invalid, "": invalid}
    rig.deny(Operation.CREATE, ResourceType.CLUSTER)
    rig.deny(Operation.CREATE, ResourceType.TOPIC, "secret")
    assert codes(ask(rig, "secret")) == {"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert created(rig) == []
    assert codes(ask(rig, "open")) == {"open": unknown}
    assert [topic.name for topic in created(rig)] == ["open"]
    off = HandlerRig(auto_create_topics_enable="false")
    assert codes(ask(off, "new")) == {"new": unknown}
    assert created(off) == []


def test_a_coordinator_makes_sure_of_its_topic() -> None:
    rig = HandlerRig(offsets_topic_replication_factor="1")
    topics = rig.services.topics
    assert not topics.ensure("__consumer_offsets")
    assert not topics.ensure("__consumer_offsets")
    assert len(rig.peer.requests) == 1
    assert isinstance(rig.peer.requests[0], CreateTopicsRequest), "in the broker's own name, without envelope"
    failed = CreateTopicsResponse.CreatableTopicResult(
        "__consumer_offsets", error_code=38, error_message="few"
    )
    rig.peer.open[0](CreateTopicsResponse(topics=[failed]))
    assert not topics.ensure("__consumer_offsets")
    assert len(rig.peer.requests) == 2
    rig.topic("__consumer_offsets", 50, number=9)
    assert topics.ensure("__consumer_offsets")


# Pages.


def page(
    rig: HandlerRig, *names: str, limit: int = 2000, cursor: Any = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        [DescribeTopicPartitionsRequest.TopicRequest(name) for name in names], limit, cursor
    )
    received = decode(DescribeTopicPartitionsRequest, 0, encode(request, 0))
    response = describe_topic_partitions.handle(rig.services, rig.context(75, 0), received)
    return decode(DescribeTopicPartitionsResponse, 0, encode(response, 0))


def shown(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int, list[int]]]:
    return [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in response.topics]


def test_topics_come_in_pages(rig: HandlerRig) -> None:
    rig.topic("c", 5, number=3)
    pages, cursor = [], None
    for _ in range(9):
        response = page(rig, limit=2, cursor=cursor)
        pages.append(shown(response))
        if response.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequest.Cursor(
            response.next_cursor.topic_name, response.next_cursor.partition_index
        )
    assert pages == [
        [("a", 0, [0, 1])],
        [("b", 0, [0]), ("c", 0, [0])],
        [("c", 0, [1, 2])],
        [("c", 0, [3, 4])],
    ]


def test_a_page_of_named_topics(rig: HandlerRig) -> None:
    rig.deny(Operation.DESCRIBE, ResourceType.TOPIC, "b")
    response = page(rig, "nobody", "b", "a", "a")
    assert shown(response) == [
        ("a", 0, [0, 1]),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("b", ErrorCode.TOPIC_AUTHORIZATION_FAILED, []),
    ]
    first = response.topics[0].partitions[0]
    assert (first.leader_id, first.eligible_leader_replicas, first.last_known_elr) == (1, [], [])
    assert response.topics[0].topic_authorized_operations > 0
    assert [name for name, _, _ in shown(page(rig))] == ["a"]
    assert rig.peer.requests == []


def test_a_partition_of_a_page_without_a_leader_has_no_error() -> None:
    rig = HandlerRig()
    rig.apply(rig.broker_record(2, listener="OTHER"))
    rig.topic("elsewhere", number=1, replicas=(2, 1), leader=2, leader_epoch=7)
    rig.topic("nobody", number=2, replicas=(4, 1), isr=(4,), leader=-1)
    partitions = [topic.partitions[0] for topic in page(rig).topics]
    assert [(part.error_code, part.leader_id, part.leader_epoch) for part in partitions] == [
        (0, -1, 7),
        (0, -1, 0),
    ]
    assert [part.offline_replicas for part in partitions] == [[2], [4]]


def test_the_broker_bounds_a_page() -> None:
    rig = HandlerRig(max_request_partition_size_limit="3")
    rig.topic("a", 5)
    assert shown(page(rig, limit=100)) == [("a", 0, [0, 1, 2])]
    assert shown(page(rig, limit=0)) == [("a", 0, [0])]


def test_a_cursor_that_points_nowhere(rig: HandlerRig) -> None:
    response = page(rig, "a", cursor=DescribeTopicPartitionsRequest.Cursor("a", -1))
    assert shown(response) == [("a", ErrorCode.INVALID_REQUEST, [])]
