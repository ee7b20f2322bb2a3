"""Numbers that no decent client sends, answered as Apache Kafka does: the same tests run against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from protocol.records.builder import SimpleRecord, build_batch
from protocol.values import METADATA_TOPIC_ID
from tests.hostile.conftest import AnyBroker
from tests.support.clients.produced import produce
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

LEAST = -(1 << 31)
UNKNOWN = int(ErrorCode.UNKNOWN_SERVER_ERROR)
FETCHES = (4, 11, 12)


@pytest.fixture(scope="module")
def filled(broker: AnyBroker) -> AnyBroker:
    """Two topics, one batch of one record each."""
    topics = Topics(broker.bootstrap_servers)
    with RawConnection(broker.bootstrap_servers) as client:
        for name in ("one", "two"):
            topics.create(name)
            assert produce(client, name, bad.good(1)).error_code == 0
    topics.create("idempotent")
    return broker


@pytest.fixture
def client(filled: AnyBroker, victim: AnyBroker) -> Iterator[RawConnection]:
    with RawConnection(filled.bootstrap_servers) as connection:
        yield connection


def fetched(
    client: RawConnection, version: int, *limits: int, offset: int = 0, epoch: int = -1, **how: Any
) -> list[tuple[int, bool]]:
    """Of each of the topics, with its own limit: the error, and whether there are records."""
    topics = [
        FetchRequest.FetchTopic(
            name,
            partitions=[
                FetchRequest.FetchPartition(
                    0, epoch, fetch_offset=offset if name == "one" else 0, partition_max_bytes=limit
                )
            ],
        )
        for name, limit in zip(("one", "two"), limits, strict=False)
    ]
    options = {"max_wait_ms": 100, "max_bytes": 1 << 20, "session_epoch": -1} | how
    response = client.ask_for(FetchResponse, FetchRequest(topics=topics, **options), version)
    parts = [part for topic in response.responses for part in topic.partitions]
    return [(part.error_code, bool(part.records)) for part in parts]


@pytest.mark.parametrize("version", FETCHES)
@pytest.mark.parametrize("limit", [-1, LEAST])
def test_negative_limits_of_a_fetch(client: RawConnection, version: int, limit: int) -> None:
    much, given, refused = 1 << 20, (0, True), (UNKNOWN, False)
    assert fetched(client, version, much, much, max_bytes=limit) == [refused, given]
    assert fetched(client, version, much, much, offset=1, max_bytes=limit) == [(0, False), given]
    assert fetched(client, version, limit, much) == [refused, given]
    assert fetched(client, version, much, limit) == [given, refused]
    assert fetched(client, version, much, much, min_bytes=limit) == [given, given]
    assert fetched(client, version, much, offset=1, max_wait_ms=limit) == [(0, False)]
    assert fetched(client, version, 0, 0, max_bytes=0) == [given, (0, False)]


@pytest.mark.parametrize("version", FETCHES)
def test_isolation_levels_that_do_not_exist(client: RawConnection, version: int) -> None:
    for level in (-1, 2, 127):
        assert fetched(client, version, 9, isolation_level=level) == [(UNKNOWN, False)]
        assert listed(client, isolation_level=level) == UNKNOWN


def listed(client: RawConnection, epoch: int = -1, isolation_level: int = 0) -> int:
    partition = ListOffsetsRequest.ListOffsetsPartition(0, epoch, -1)
    topics = [ListOffsetsRequest.ListOffsetsTopic("one", [partition])]
    request = ListOffsetsRequest(-1, isolation_level, topics)
    return client.ask_for(ListOffsetsResponse, request, 6).topics[0].partitions[0].error_code


def epoch_end(client: RawConnection, epoch: int) -> int:
    partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, epoch, 0)
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic("one", [partition])]
    response = client.ask_for(OffsetForLeaderEpochResponse, OffsetForLeaderEpochRequest(topics=topics), 4)
    return response.topics[0].partitions[0].error_code


def test_current_leader_epochs(client: RawConnection) -> None:
    """Only -1 is none, but to a fetch every negative number is."""
    newer, fenced = ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH
    for epoch, code in ((-1, 0), (0, 0), (9, newer), (-2, fenced), (LEAST, fenced)):
        assert (listed(client, epoch), epoch_end(client, epoch)) == (code, code), epoch
        in_a_fetch = code if epoch >= 0 else 0
        assert fetched(client, 12, 1 << 20, epoch=epoch)[0][0] == in_a_fetch, epoch


def test_sequences_of_producers_without_an_epoch(client: RawConnection) -> None:
    out_of_order, fenced = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH
    steps = (
        (7, -1, 0, 0), (7, -1, 5, 0), (7, -1, 5, 0), (7, -1, 9, 0), (7, 2, 7, 0), (7, 2, 8, 0),
        (7, 2, 12, out_of_order), (7, 3, 4, out_of_order), (7, -1, 10, fenced), (8, -2, 0, fenced),
        (9, 0, 0, 0), (9, -1, 1, fenced), (10, -1, -1, ErrorCode.INVALID_RECORD),
    )  # fmt: skip
    for producer_id, epoch, sequence, code in steps:
        batch = build_batch(
            [SimpleRecord(None, b"v", bad.now_ms())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        answer = produce(client, "idempotent", batch)
        assert answer.error_code == code, (producer_id, epoch, sequence)


def test_fetches_of_the_metadata_log(filled: AnyBroker) -> None:
    """A topic that has no name there: versions that cannot give its id are refused."""
    with RawConnection(filled.bootstrap_controllers) as client:
        for version in (4, 7, 12):
            topic = FetchRequest.FetchTopic("__cluster_metadata", partitions=[FetchRequest.FetchPartition(0)])
            response = client.ask_for(FetchResponse, FetchRequest(topics=[topic]), version)
            expected = ErrorCode.INVALID_REQUEST if version >= 7 else 0
            assert (response.error_code, response.responses) == (expected, [])
        for max_bytes, limit, code in ((1 << 20, -1, 0), (0, 0, 0), (-1, 1 << 20, UNKNOWN)):
            partition = FetchRequest.FetchPartition(0, 1, 0, 0, partition_max_bytes=limit)
            topic = FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
            request = FetchRequest(max_wait_ms=100, max_bytes=max_bytes, topics=[topic])
            (answered,) = client.ask_for(FetchResponse, request, 17).responses
            part = answered.partitions[0]
            assert (part.error_code, bool(part.records)) == (code, code == 0)
