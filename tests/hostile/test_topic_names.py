"""Names that no topic may have, wherever a client can say one: refused, and nothing appears on the disk."""

from __future__ import annotations

from typing import Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.hostile.conftest import AnyBroker
from tests.support.clients.produced import fetch, list_offset, produce
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

INVALID, UNKNOWN = ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FORBIDDEN: Final = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "/absolute",
    "with space",
    "new\nline",
    "nul\0byte",
    "ünïcode",
    "日本",
    "x" * 250,
    "x" * 30_000,
    "a,b",
    "a:b",
    "a*",
    "%2e%2e",
    "a\\b",
)


def create(client: RawConnection, *names: str) -> list[tuple[int, bool]]:
    """Code and whether there is a sentence, of each topic in turn."""
    topics = [CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in names]
    answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest(topics, 60_000), 7)
    return [(topic.error_code, bool(topic.error_message)) for topic in answer.topics]


def metadata_code(client: RawConnection, name: str) -> int:
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)], True)
    return client.ask_for(MetadataResponse, request, 12).topics[0].error_code


@pytest.mark.parametrize("name", FORBIDDEN, ids=lambda name: ascii(name[:20]))
def test_a_name_that_no_topic_may_have(victim: AnyBroker, name: str) -> None:
    with RawConnection(victim.bootstrap_servers) as client:
        assert create(client, name) == [(INVALID, True)]
        assert metadata_code(client, name) == INVALID
        assert produce(client, name, bad.good()).error_code == UNKNOWN
        assert fetch(client, name).error_code == UNKNOWN
        assert list_offset(client, name, -1).error_code == UNKNOWN
        request = DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequest.TopicRequest(name)])
        described = client.ask_for(DescribeTopicPartitionsResponse, request, 0)
        # Kafka trips over the empty name and answers UNKNOWN_SERVER_ERROR; so do we.
        assert [topic.error_code for topic in described.topics] == [INVALID if name else -1]
    assert {path.name for path in victim.data.iterdir() if path.is_dir()} <= {"__cluster_metadata-0"}


def test_names_that_would_be_one_metric(victim: AnyBroker) -> None:
    """`a.b` and `a_b` are the same word where a dot becomes an underscore."""
    topics = Topics(victim.bootstrap_servers)
    topics.create("a.b")
    with RawConnection(victim.bootstrap_servers) as client:
        assert create(client, "a_b") == [(INVALID, True)]
        assert create(client, "a.b") == [(ErrorCode.TOPIC_ALREADY_EXISTS, True)]
        assert create(client, "twice", "twice") == [(ErrorCode.INVALID_REQUEST, True)]
    topics.delete("a.b")


@pytest.mark.parametrize("name", ["x" * 249, "-", "_", "a.", "...", "0", "__consumer_offsetz"])
def test_odd_names_that_are_allowed(victim: AnyBroker, name: str) -> None:
    topics = Topics(victim.bootstrap_servers)
    topics.create(name)
    topics.produce(name, ["a"])
    assert [record.value for record in topics.consume(name)] == [b"a"]
    topics.delete(name)


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 32767, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_numbers_that_no_topic_may_have(
    victim: AnyBroker, partitions: int, factor: int, code: ErrorCode
) -> None:
    topic = CreateTopicsRequest.CreatableTopic("numbers", partitions, factor)
    with RawConnection(victim.bootstrap_servers) as client:
        answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 60_000), 7)
        assert answer.topics[0].error_code == code
        assert metadata_code(client, "../never") == INVALID


@pytest.mark.parametrize("partitions", [10_001, 2**31 - 1])
def test_more_partitions_than_a_request_may_ask_for(victim: AnyBroker, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic("many", partitions, 1)
    with RawConnection(victim.bootstrap_servers) as client:
        answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 60_000), 7)
        assert answer.topics[0].error_code in (ErrorCode.POLICY_VIOLATION, ErrorCode.UNKNOWN_SERVER_ERROR)
