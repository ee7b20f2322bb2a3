"""Brokers, topics and leaders as a client knows them: from Metadata, and from answers that name a new leader.

As in Kafka's clients, what is said with an older leader epoch of the same topic is not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.values import ZERO_UUID

__all__ = ["Address", "ClientMetadata", "PartitionLeader"]

NOBODY: Final = -1

Address = tuple[str, int]
"""Host and port."""


class PartitionLeader(NamedTuple):
    """Who leads a partition, as far as the client knows."""

    node_id: int
    leader_epoch: int
    topic_id: bytes


class ClientMetadata:
    """topics: those that the client wants to know, in the order in which it began to."""

    def __init__(self, bootstrap: Sequence[Address], topics: Iterable[str] = ()) -> None:
        self.bootstrap = tuple(bootstrap)
        self.topics: dict[str, None] = dict.fromkeys(topics)
        self.brokers: dict[int, Address] = {}
        self.partition_counts: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.taken_ms: int | None = None
        """When it was last taken from an answer; None when it is known to be old."""
        self._leaders: dict[tuple[str, int], PartitionLeader] = {}

    def addresses(self) -> tuple[Address, ...]:
        """Everybody who may be asked."""
        known = tuple(self.brokers.values())
        return known + tuple(each for each in self.bootstrap if each not in known)

    def leader(self, topic: str, partition: int) -> PartitionLeader | None:
        """None if nobody is known to lead it."""
        leader = self._leaders.get((topic, partition))
        if leader is None or leader.node_id == NOBODY or leader.node_id not in self.brokers:
            return None
        return leader

    def epoch(self, topic: str, partition: int) -> int:
        """The newest leader epoch that was heard of; -1 if none was."""
        leader = self._leaders.get((topic, partition))
        return -1 if leader is None else leader.leader_epoch

    def name(self, topic_id: bytes) -> str:
        """Of a topic that is known; empty if it is not."""
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "")

    def expire(self) -> None:
        """Something said that it is old."""
        self.taken_ms = None

    def request(self, *, by_id: bool = False) -> MetadataRequest:
        """by_id: whether topics whose ids are known are asked for by them."""
        topics = []
        for name in self.topics:
            topic_id = self.topic_ids.get(name) if by_id else None
            if topic_id is None:
                topics.append(MetadataRequest.MetadataRequestTopic(name=name))
            else:
                topics.append(MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None))
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def take(self, answer: MetadataResponse, now_ms: int) -> None:
        """What a broker has said. A topic that it does not know any more is forgotten."""
        if answer.error_code != ErrorCode.NONE or not answer.brokers:
            return
        self.taken_ms = now_ms
        self.brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            name = topic.name or self.name(topic.topic_id)
            if topic.error_code == ErrorCode.NONE:
                self._take_topic(name, topic)
            elif topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                self._forget(name)

    def _take_topic(self, name: str, topic: MetadataResponse.MetadataResponseTopic) -> None:
        if self.topic_ids.get(name) != topic.topic_id:
            self._forget(name)
        self.topic_ids[name] = topic.topic_id
        self.partition_counts[name] = len(topic.partitions)
        for each in topic.partitions:
            self._believe(name, each.partition_index, each.leader_id, each.leader_epoch)

    def told_leader(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> None:
        """An answer has named the current leader (KIP-951)."""
        if topic in self.topic_ids and leader_epoch > self.epoch(topic, partition):
            self._believe(topic, partition, leader_id, leader_epoch)

    def told_broker(self, node_id: int, host: str, port: int) -> None:
        self.brokers[node_id] = (host, port)

    def _believe(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> None:
        if leader_epoch >= self.epoch(topic, partition):
            topic_id = self.topic_ids.get(topic, ZERO_UUID)
            self._leaders[topic, partition] = PartitionLeader(leader_id, leader_epoch, topic_id)

    def _forget(self, name: str) -> None:
        self.topic_ids.pop(name, None)
        for partition in range(self.partition_counts.pop(name, 0)):
            self._leaders.pop((name, partition), None)
