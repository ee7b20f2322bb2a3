"""The requests of a fetcher to a leader: Fetch, and ListOffsets for the first and the last offset of a log.

In Kafka this is `RemoteLeaderEndPoint`. A fetch names the follower's broker id and its broker epoch
(KIP-903), so that a leader can tell it from a fetch that the broker sent before it was started anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.replication.fetcher.fetcher_surroundings import FetcherSettings
from broker.replication.fetcher.partition_fetch import PartitionFetch
from broker.replication.fetcher.session import SessionRequest
from broker.replication.partition_state import TopicIdPartition
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

__all__ = [
    "EARLIEST",
    "LATEST",
    "answers_by_partition",
    "fetch_request",
    "list_offsets_request",
    "offsets_by_partition",
]

LATEST: Final = -1
EARLIEST: Final = -2

OffsetAnswer = ListOffsetsResponse.ListOffsetsPartitionResponse


def fetch_request(
    node_id: int,
    broker_epoch: int | None,
    settings: FetcherSettings,
    built: SessionRequest,
    *,
    may_wait: bool,
) -> FetchRequest:
    """A Fetch request. broker_epoch: None for a leader without version 15 of Fetch, which is told the broker
    id alone. may_wait: the leader may wait for records before it answers."""
    topics: dict[bytes, FetchRequest.FetchTopic] = {}
    for (topic_id, _), asked in built.asked:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[])
        topic.partitions.append(asked)
    forgotten: dict[bytes, FetchRequest.ForgottenTopic] = {}
    for topic_id, index in built.forgotten:
        gone = forgotten.get(topic_id)
        if gone is None:
            gone = forgotten[topic_id] = FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[])
        gone.partitions.append(index)
    return FetchRequest(
        replica_id=node_id if broker_epoch is None else -1,
        replica_state=None if broker_epoch is None else FetchRequest.ReplicaState(node_id, broker_epoch),
        max_wait_ms=settings.wait_max_ms if may_wait else 0,
        min_bytes=settings.min_bytes,
        max_bytes=settings.response_max_bytes,
        session_id=built.session_id,
        session_epoch=built.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )


def answers_by_partition(response: FetchResponse) -> dict[TopicIdPartition, FetchResponse.PartitionData]:
    return {
        (topic.topic_id, answer.partition_index): answer
        for topic in response.responses
        for answer in topic.partitions
    }


def list_offsets_request(
    node_id: int, fetches: Iterable[PartitionFetch], timestamp: int
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for fetch in fetches:
        topic = topics.get(fetch.topic)
        if topic is None:
            topic = topics[fetch.topic] = ListOffsetsRequest.ListOffsetsTopic(fetch.topic, [])
        topic.partitions.append(
            ListOffsetsRequest.ListOffsetsPartition(fetch.index, fetch.leader_epoch, timestamp)
        )
    return ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))


def offsets_by_partition(
    response: ListOffsetsResponse,
) -> dict[tuple[str, int], ListOffsetsResponse.ListOffsetsPartitionResponse]:
    return {
        (topic.name, answer.partition_index): answer
        for topic in response.topics
        for answer in topic.partitions
    }
