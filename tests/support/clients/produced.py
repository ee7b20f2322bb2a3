"""Produce and look up over a `WireClient`, byte for byte."""

from __future__ import annotations

from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.support.clients.wire_client import WireClient

PRODUCE_VERSION = 12
FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 10


def produce_request(topic: str, records: bytes | bytearray, acks: int = -1, index: int = 0) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index, records)
    return ProduceRequest(
        None, acks, 5000, [ProduceRequest.TopicProduceData(topic, partition_data=[partition])]
    )


def produce(
    client: WireClient, topic: str, records: bytes | bytearray, index: int = 0
) -> ProduceResponse.PartitionProduceResponse:
    """The answer for the one partition."""
    request = produce_request(topic, records, index=index)
    response = client.ask_for(ProduceResponse, request, PRODUCE_VERSION)
    return response.responses[0].partition_responses[0]


def fetch(
    client: WireClient, topic: str, offset: int = 0, *, max_bytes: int = 64 << 20, index: int = 0
) -> FetchResponse.PartitionData:
    """The answer for the one partition, at once, whatever there is."""
    partition = FetchRequest.FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic, partitions=[partition])],
    )
    return client.ask_for(FetchResponse, request, FETCH_VERSION).responses[0].partitions[0]


def fetched_bytes(client: WireClient, topic: str, offset: int = 0) -> bytes:
    """The batches from an offset on, as they are stored."""
    records = fetch(client, topic, offset).records
    if not isinstance(records, bytes | bytearray | memoryview):
        raise AssertionError(f"no records but {records!r}")
    return bytes(records)


def list_offset(
    client: WireClient, topic: str, timestamp: int, index: int = 0
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    """-1 latest, -2 earliest, -3 greatest timestamp, or milliseconds."""
    partition = ListOffsetsRequest.ListOffsetsPartition(index, timestamp=timestamp)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])])
    return client.ask_for(ListOffsetsResponse, request, LIST_OFFSETS_VERSION).topics[0].partitions[0]
