"""What clients of the coordinators say, as conversations: producers, members of groups, committers."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import BatchBuilder
from tests.support.clients.conversations import Ask, Conversation, Pause

__all__ = ["Member", "Producer", "await_groups", "await_ids", "commit", "find", "init_ids"]

GROUP: Final = 0
TRANSACTION: Final = 1
VALUE: Final = b"x" * 100
AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # of a topic that was made just now
    }
)
RETRY_SECONDS: Final = 0.002
LOADING_SECONDS: Final = 0.01
MAKING_SECONDS: Final = 0.1
TIMEOUT_MS: Final = 60_000

Answer = Generator[Ask | Pause, Message | None, Any]
"""A part of a conversation that ends with an answer; which message it is the request tells."""


def _whole(answer: Any) -> Any:
    return answer


def insist(ask: Ask, part: Callable[[Any], Any] = _whole, pause: float = RETRY_SECONDS) -> Answer:
    """Asked again while the coordinator says so; any other error ends the run. part: of the answer, the one
    with the error code, which is what comes back."""
    while True:
        answer = yield ask
        found = part(answer)
        if found.error_code == ErrorCode.NONE:
            return found
        if found.error_code not in AGAIN:
            raise RuntimeError(f"{type(ask.request).__name__}: {ErrorCode(found.error_code).name}")
        yield Pause(pause)


def find(key: str, kind: int) -> Conversation:
    """Makes the coordinator's topic, the first time."""
    ask = Ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
    yield from insist(ask, lambda answer: answer.coordinators[0], MAKING_SECONDS)


class Producer:
    """Batches of so many records, each in a transaction of its own (`transaction.version` 2), or with an
    idempotent producer only."""

    def __init__(self, topic: str, partition: int, records: int, transactional_id: str | None) -> None:
        self._id = transactional_id
        self._topic = topic
        self._partition = partition
        self._records = records
        self.done = 0
        self.retries = 0
        self.latencies_ms: list[float] = []

    def talk(self, times: int | None = None) -> Conversation:
        """So many batches, or batches for ever."""
        started = yield from insist(Ask(InitProducerIdRequest(self._id, TIMEOUT_MS), 5))
        producer_id, epoch, sequence = started.producer_id, started.producer_epoch, 0
        while self.done != times:
            began = time.perf_counter()
            yield from self._produce(producer_id, epoch, sequence)
            sequence += self._records
            if self._id is not None:
                ended = yield from insist(Ask(EndTxnRequest(self._id, producer_id, epoch, True), 5))
                producer_id, epoch, sequence = ended.producer_id, ended.producer_epoch, 0
            self.done += 1
            self.latencies_ms.append((time.perf_counter() - began) * 1000)

    def _produce(self, producer_id: int, epoch: int, sequence: int) -> Conversation:
        builder = BatchBuilder(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=self._id is not None,
        )
        for _ in range(self._records):
            builder.append(None, VALUE, int(time.time() * 1000))
        data = ProduceRequest.PartitionProduceData(self._partition, builder.build())
        topic = ProduceRequest.TopicProduceData(self._topic, partition_data=[data])
        ask = Ask(ProduceRequest(self._id, -1, 30_000, [topic]), 12)
        while True:
            answer: Any = yield ask
            error = answer.responses[0].partition_responses[0].error_code
            if error == ErrorCode.NONE:
                return
            if error not in AGAIN:
                raise RuntimeError(f"Produce: {ErrorCode(error).name}")
            self.retries += 1
            yield Pause(RETRY_SECONDS)


class Member:
    """A member of a consumer group of the newer protocol, which takes what it is given at once."""

    def __init__(self, group: str, topic: str) -> None:
        self._group = group
        self._topic = topic
        self._id = str(uuid.uuid4())
        self.epoch = 0
        self.owned = 0
        self.changed_at = 0.0
        self.heartbeats = 0

    def join(self, every_seconds: float) -> Conversation:
        """And heartbeats from then on; what has changed is acknowledged at once."""
        cls = ConsumerGroupHeartbeatRequest
        answer = yield from insist(
            Ask(cls(self._group, self._id, 0, None, None, 300_000, [self._topic], None, None, []), 1)
        )
        while True:
            owned = self._take(answer)
            if owned is None:
                yield Pause(every_seconds)
            beat = cls(self._group, self._id, self.epoch, topic_partitions=owned)
            answer = yield from insist(Ask(beat, 1))

    def stay(self) -> Conversation:
        """Heartbeats without a pause, of a member that has joined before."""
        beat = Ask(ConsumerGroupHeartbeatRequest(self._group, self._id, self.epoch), 1)
        while True:
            yield from insist(beat)
            self.heartbeats += 1

    def _take(self, answer: Any) -> list[Any] | None:
        """What is owned, if that is news to the coordinator."""
        if answer.member_epoch != self.epoch:
            self.epoch = answer.member_epoch
            self.changed_at = time.perf_counter()
        if answer.assignment is None:
            return None
        cls = ConsumerGroupHeartbeatRequest.TopicPartitions
        owned = [cls(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions]
        self.owned = sum(len(each.partitions) for each in owned)
        self.changed_at = time.perf_counter()
        return owned


def commit(groups: Sequence[str], topic: str, partitions: int) -> Conversation:
    """One request for each group, as by a consumer without a group's protocol."""
    cls = OffsetCommitRequest
    each = [cls.OffsetCommitRequestPartition(index, 1, -1, "") for index in range(partitions)]
    for group in groups:
        answer: Any = yield Ask(cls(group, topics=[cls.OffsetCommitRequestTopic(topic, partitions=each)]), 8)
        errors = Counter(one.error_code for one in answer.topics[0].partitions)
        if set(errors) != {ErrorCode.NONE}:
            raise RuntimeError(f"OffsetCommit for {group}: {errors}")


def init_ids(ids: Sequence[str]) -> Conversation:
    for each in ids:
        yield from insist(Ask(InitProducerIdRequest(each, TIMEOUT_MS), 5))


def await_groups(groups: Sequence[str], topic: str, partitions: int) -> Conversation:
    """Each group has all its offsets."""
    cls = OffsetFetchRequest
    for group in groups:
        wanted = cls.OffsetFetchRequestGroup(
            group, topics=[cls.OffsetFetchRequestTopics(topic, partition_indexes=list(range(partitions)))]
        )
        ask = Ask(cls(groups=[wanted]), 8)
        found = yield from insist(ask, lambda answer: answer.groups[0], LOADING_SECONDS)
        missing = [each for each in found.topics[0].partitions if each.committed_offset != 1]
        if missing:
            raise RuntimeError(f"{group} has lost offsets: {missing[:3]}")


def await_ids(ids: Sequence[str]) -> Conversation:
    """Each transactional id is known."""
    for each in ids:
        ask = Ask(DescribeTransactionsRequest([each]), 0)
        yield from insist(ask, lambda answer: answer.transaction_states[0], LOADING_SECONDS)
