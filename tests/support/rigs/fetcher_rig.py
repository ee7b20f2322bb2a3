"""A fetcher on logs in memory, and a leader that answers what the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.quotas.replication_quota import ReplicationQuota
from broker.replication.fetcher.fetch_plan import FetchPlan
from broker.replication.fetcher.fetch_transitions import FetchState
from broker.replication.fetcher.fetcher_surroundings import FetcherSettings, FetcherSurroundings
from broker.replication.fetcher.partition_fetch import PartitionFetch
from broker.replication.fetcher.replica_fetcher import ReplicaFetcher
from broker.replication.partition import Partition
from broker.replication.topic_settings import TopicCounters
from config.ports import Files
from protocol.codec.message import Message
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.peer_channel import PeerError
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.log_rig import TOPIC_ID, LogRig

NODE: Final = 2
LEADER: Final = 1
BROKER_EPOCH: Final = 77
SESSION: Final = 5


@dataclass
class Sent:
    """A request that the leader has not answered yet."""

    request: Message
    on_response: Callable[[Message | PeerError], None]


class ScriptedLeader:
    """`FetcherChannel` whose answers come from the test."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.is_closed = False

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        self.sent.append(Sent(request, on_response))

    def close_channel(self) -> None:
        self.is_closed = True

    def answer(self, response: Message | PeerError) -> None:
        """Answers the oldest request."""
        self.sent.pop(0).on_response(response)


class FetcherRig:
    """One fetcher; partitions are added by `host`, the index is the partition's."""

    def __init__(self, **settings: int) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.leader = ScriptedLeader()
        self.suspected: list[str] = []
        self.quota = ReplicationQuota()
        self.broker_epoch = BROKER_EPOCH
        self.surroundings = FetcherSurroundings(
            node_id=NODE,
            broker_epoch=lambda: self.broker_epoch,
            settings=FetcherSettings(**settings),
            clock=self.clock,
            timers=self.timers,
            suspect=lambda path, error: self.suspected.append(path),
            quota=self.quota,
        )
        self.fetcher = ReplicaFetcher("ReplicaFetcherThread-0-1", self.leader, self.surroundings)
        self.logs: dict[int, LogRig] = {}
        self.partitions: dict[int, Partition] = {}

    def host(self, index: int = 0, files: Files | None = None, rig: LogRig | None = None) -> LogRig:
        """A replica on this broker, which nobody follows yet."""
        rig = self.logs[index] = rig or LogRig(files, directory=f"/data/orders-{index}")
        self.partitions[index] = Partition(
            topic="orders",
            topic_id=TOPIC_ID,
            index=index,
            node_id=NODE,
            log=rig.log,
            counters=TopicCounters("orders"),
        )
        return rig

    def follow(self, index: int = 0, leader_epoch: int = 1) -> PartitionFetch:
        """The metadata log names the leader in this epoch."""
        partition = self.partitions[index]
        partition.follow_image(
            leader_id=LEADER,
            leader_epoch=leader_epoch,
            partition_epoch=leader_epoch,
            replicas=(LEADER, NODE),
            isr=(LEADER, NODE),
            min_insync_replicas=1,
            now_ms=self.clock.monotonic_ms(),
        )
        self.fetcher.follow(partition)
        self.timers.run_soon()
        return self.fetch_of(index)

    def fetch_of(self, index: int = 0) -> PartitionFetch:
        return self.fetcher.plan.partitions[TOPIC_ID, index]

    def asked(self) -> dict[int, FetchRequest.FetchPartition]:
        """The partitions in the fetch that waits for its answer."""
        request = self.leader.sent[0].request
        assert isinstance(request, FetchRequest)
        return {each.partition: each for topic in request.topics for each in topic.partitions}

    def answer(
        self, *answers: FetchResponse.PartitionData, session_id: int = SESSION, error_code: int = 0
    ) -> None:
        """Answers the fetch that waits; partitions that are not named are answered without news if the fetch
        was a full one."""
        request = self.leader.sent[0].request
        assert isinstance(request, FetchRequest)
        told = {each.partition_index: each for each in answers}
        if request.session_epoch == 0 and not error_code:
            for index in self.asked():
                told.setdefault(index, nothing(index))
        topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(told.values()))
        self.leader.answer(FetchResponse(0, error_code, session_id, [topic] if told else []))
        self.timers.run_soon()

    def lose(self, reason: str = "the connection is broken") -> None:
        self.leader.answer(PeerError(reason))
        self.timers.run_soon()

    def tell_offsets(self, end: int, start: int, index: int = 0, error: int = 0) -> None:
        """Answers both questions for the ends of the leader's log."""
        for timestamp, offset in ((-1, end), (-2, start)):
            request = self.leader.sent[0].request
            assert isinstance(request, ListOffsetsRequest)
            assert request.topics[0].partitions[0].timestamp == timestamp
            answer = ListOffsetsResponse.ListOffsetsPartitionResponse(index, error, -1, offset)
            topic = ListOffsetsResponse.ListOffsetsTopicResponse("orders", [answer])
            self.leader.answer(ListOffsetsResponse(0, [topic]))
        self.timers.run_soon()

    @property
    def plan(self) -> FetchPlan:
        return self.fetcher.plan

    def state(self, index: int = 0) -> FetchState:
        return self.fetch_of(index).state


def nothing(index: int = 0, high_watermark: int = 0) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(index, 0, high_watermark, high_watermark, 0, records=memoryview(b""))


def records(
    *batches: bytes, index: int = 0, high_watermark: int = 0, log_start: int = 0
) -> FetchResponse.PartitionData:
    """An answer with these batches."""
    return FetchResponse.PartitionData(
        index, 0, high_watermark, high_watermark, log_start, records=memoryview(b"".join(batches))
    )


def failure(error: int, index: int = 0) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(index, error, -1, -1, -1, records=memoryview(b""))


def diverging(epoch: int, end_offset: int, index: int = 0) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        index,
        0,
        0,
        0,
        0,
        diverging_epoch=FetchResponse.EpochEndOffset(epoch, end_offset),
        records=memoryview(b""),
    )
