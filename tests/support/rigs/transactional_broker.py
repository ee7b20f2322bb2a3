"""One broker with all that transactions need: its handlers, both coordinators, and logs in memory.

It leads every partition. What a coordinator or a leader asks another broker is asked of its own handlers, in
the next turn of the loop, unless a test holds it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupCoordinator
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.transaction.first_writes import FirstWrites
from broker.coordinator.transaction.partition_verification import PartitionVerification, VerificationSettings
from broker.coordinator.transaction.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from broker.coordinator.transaction.transaction_operation import TransactionSettings
from broker.handlers.table import broker_handlers
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from tests.support.rigs.handler_rig import HandlerRig, topic_id

FIRST_PRODUCER_ID: Final = 1000
PARTITIONS: Final = 4
HANDLERS: Final = broker_handlers()


class TransactionalBroker(HandlerRig):
    """A broker with topic `t`. version: the cluster's `transaction.version`.

    sent: what was asked of brokers. holds_markers: markers are not written until `write_markers`.
    """

    def __init__(self, version: int = 2, partitions: int = 3, **settings: Any) -> None:
        super().__init__(**settings)
        self.version = version
        self.peer.answer = self._controller
        self.sent: list[Message] = []
        self.holds_markers = False
        self._held: list[Callable[[], None]] = []
        for number, topic in enumerate((GROUP_TOPIC, TRANSACTION_TOPIC), 90):
            self.topic(topic, PARTITIONS, number=number, cleanup_policy="compact")
        self.topic("t", partitions)
        services = self.services
        services.groups = GroupCoordinator(
            GroupSettings(offsets_topic_partition_count=PARTITIONS),
            writer=self.coordinator_log, reader=self.coordinator_log, cluster=self.metadata,
            topics=services.topics, clock=self.clock, timers=self.timers, random_source=self.random_source,
        )  # fmt: skip
        services.transactions = self.new_coordinator()
        self.verification = PartitionVerification(
            VerificationSettings(), coordinators=self, channel=self, clock=self.clock, timers=self.timers
        )
        services.first_writes = FirstWrites(self.verification, self.clock, is_enabled=True)
        self.elect(0)

    def new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            TransactionSettings(transaction_state_log_num_partitions=PARTITIONS),
            writer=self.coordinator_log, reader=self.coordinator_log, cluster=self.metadata,
            topics=self.services.topics, clock=self.clock, timers=self.timers,
            producer_ids=self.services.producer_ids, server_version=lambda: self.version,
            leaders=self, channel=self,
        )  # fmt: skip

    def elect(self, leader_epoch: int) -> None:
        for index in range(PARTITIONS):
            self.services.groups.elected(index, leader_epoch)
            self.services.transactions.elected(index, leader_epoch)
        self.timers.run_soon()

    def _controller(self, request: Message) -> Message | None:
        if not isinstance(request, AllocateProducerIdsRequest):
            return None
        return AllocateProducerIdsResponse(0, 0, FIRST_PRODUCER_ID, 1000)

    # What its parts ask of the cluster

    def leader(self, topic: str, index: int) -> int | None:
        entry = self.metadata.partition(topic, index)
        return None if entry is None else entry.leader

    def coordinator(self, transactional_id: str) -> int | None:
        return 1

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message | None], None]) -> None:
        self.sent.append(request)
        key = ApiKey(request.declaration.key or 0)

        def ask() -> None:
            self._deliver(self.ask(key, request), on_response)

        if self.holds_markers and key is ApiKey.WRITE_TXN_MARKERS:
            self._held.append(ask)
        else:
            self.timers.call_soon(ask)

    @staticmethod
    def _deliver(answer: Any, on_response: Callable[[Message | None], None]) -> None:
        if isinstance(answer, Pending):
            answer.on_complete(on_response)
        else:
            on_response(answer)

    def write_markers(self) -> None:
        """Write what was held back, and no longer hold anything back."""
        self.holds_markers = False
        held, self._held = self._held, []
        for each in held:
            each()
        self.timers.run_soon()

    # Requests, at the newest version unless told otherwise

    def ask(self, key: ApiKey, request: Message, version: int | None = None) -> Any:
        """The answer, or a `Pending`."""
        served = HANDLERS.get(key)
        assert served is not None
        context = self.context(key, served.max_version if version is None else version)
        return served.handler(self.services, context, request)

    def answered(self, key: ApiKey, request: Message, version: int | None = None) -> Any:
        """The answer, after all turns of the loop that it takes."""
        answer = self.ask(key, request, version)
        self.timers.run_soon()
        if isinstance(answer, Pending):
            assert answer.response is not None, "the answer is still pending"
            return answer.response
        return answer

    def begin(self, name: str = "tx", timeout_ms: int = 60_000, version: int = 5) -> tuple[int, int]:
        """A producer's id and epoch."""
        for _ in range(20):
            request = InitProducerIdRequest(name, timeout_ms)
            answer = self.answered(ApiKey.INIT_PRODUCER_ID, request, version)
            if not answer.error_code:
                return answer.producer_id, answer.producer_epoch
            self.timers.advance(100)
        raise AssertionError(f"no producer id: {ErrorCode.of(answer.error_code)!r}")

    def records(self, producer: tuple[int, int], sequence: int = 0, count: int = 1) -> bytearray:
        return self.batch(
            count, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence,
            transactional=True,
        )  # fmt: skip

    def produce(
        self,
        producer: tuple[int, int],
        sequences: dict[int, int] | int = 0,
        *,
        name: str | None = "tx",
        version: int = 12,
        acks: int = -1,
    ) -> Any:
        """Batches of one record for partitions of `t`: their sequences by the partition's index, or one
        sequence for partition 0. The answer, or a `Pending`."""
        wanted = {0: sequences} if isinstance(sequences, int) else sequences
        parts = [
            ProduceRequest.PartitionProduceData(index, memoryview(self.records(producer, sequence)))
            for index, sequence in wanted.items()
        ]
        topic = ProduceRequest.TopicProduceData("t", topic_id(1), parts)
        return self.ask(ApiKey.PRODUCE, ProduceRequest(name, acks, 1000, [topic]), version)

    def produced(self, *arguments: Any, **options: Any) -> list[int]:
        """The error codes of `produce`, after all turns of the loop that it takes."""
        answer = self.produce(*arguments, **options)
        self.timers.run_soon()
        return errors_of(answer)

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, name: str = "tx", version: int = 5
    ) -> Any:
        answer = self.answered(ApiKey.END_TXN, EndTxnRequest(name, *producer, commit), version)
        self.timers.run_soon()
        return answer

    def commit_offset(
        self,
        producer: tuple[int, int],
        offset: int,
        *,
        group: str = "g",
        version: int = 5,
        indexes: Iterable[int] = (0,),
        **fields: Any,
    ) -> Any:
        """TxnOffsetCommit for partitions of `t`. The answer, or a `Pending`."""
        partitions = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(index, offset) for index in indexes
        ]
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic("t", partitions)
        request = TxnOffsetCommitRequest("tx", group, *producer, topics=[topic], **fields)
        return self.ask(ApiKey.TXN_OFFSET_COMMIT, request, version)

    def state(self, name: str = "tx") -> str:
        """The transactional id's, as administrators see it."""
        return self.services.transactions.describe(name).transaction_state


def errors_of(answer: Any) -> list[int]:
    """The error codes of an answer to Produce, in order; it must be there."""
    response = answer.response if isinstance(answer, Pending) else answer
    assert isinstance(response, ProduceResponse), response
    return [each.error_code for topic in response.responses for each in topic.partition_responses]
