"""The transaction coordinator as handlers and the composition root see it.

Requests come in decoded and authorized; each names an operation and the shard on which it runs, the one that
its transactional id hashes to. What comes back is a response, or a `Pending` that is completed when records
are committed. Leadership of `__transaction_state` is told by the metadata publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final, Protocol, TypeVar

from broker.coordinator.ports import (
    ClusterView,
    CoordinatorEndpoint,
    CurrentTime,
    InternalTopics,
    PartitionReader,
    PartitionWriter,
    RuntimeSettings,
)
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.partitioning import CoordinatorPartitions
from broker.coordinator.runtime.result import CoordinatorResult
from broker.coordinator.transaction.end_transaction import end_transaction, markers_written
from broker.coordinator.transaction.init_producer_id import init_producer_id, refused
from broker.coordinator.transaction.partitions import add_partitions, verify_partitions
from broker.coordinator.transaction.transaction_descriptions import (
    TransactionFilter,
    describe_transaction,
    list_transactions,
)
from broker.coordinator.transaction.transaction_markers import (
    BrokerChannel,
    PartitionLeaders,
    TransactionMarkers,
)
from broker.coordinator.transaction.transaction_metadata import TopicPartition
from broker.coordinator.transaction.transaction_operation import (
    EndedTransaction,
    TransactionOperation,
    TransactionSettings,
)
from broker.coordinator.transaction.transaction_shard import TransactionShard
from config.ports import Clock, Timers
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsResponse
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsResponse
from protocol.primitives import Uuid
from protocol.serving.pending import Pending

TRANSACTION_TOPIC: Final = "__transaction_state"
R = TypeVar("R")


class ProducerIdSource(Protocol):
    """Gives new producer ids."""

    def allocate(self, grant: Callable[[int, ErrorCode], None]) -> None:
        """Calls `grant` with an id and NONE, or with -1 and an error; at once or later."""
        ...


class TransactionCoordinator:
    """Coordinates the transactional ids of the partitions that this broker leads.

    server_version: the cluster's finalized `transaction.version`.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        writer: PartitionWriter,
        reader: PartitionReader,
        cluster: ClusterView,
        topics: InternalTopics,
        clock: Clock,
        timers: Timers,
        producer_ids: ProducerIdSource,
        server_version: Callable[[], int],
        leaders: PartitionLeaders,
        channel: BrokerChannel,
    ) -> None:
        self._cluster = cluster
        self._partitions = CoordinatorPartitions(
            TRANSACTION_TOPIC, cluster, settings.transaction_state_log_num_partitions
        )
        self._clock = clock
        self._topics = topics
        self._producer_ids = ProducerIdReserve(producer_ids)
        self._leader_epochs: dict[int, int] = {}
        """The leader epochs of the partitions that are led here. Markers carry them, so that those of an
        older coordinator are refused."""
        self.markers = TransactionMarkers(
            leaders=leaders, channel=channel, clock=clock, timers=timers, on_written=self._markers_written
        )
        self._runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_TOPIC,
            lambda index: TransactionShard(
                index, settings, _MarkersOf(self, index), self._producer_ids.take, server_version
            ),
            writer=writer,
            reader=reader,
            clock=clock,
            timers=timers,
            settings=RuntimeSettings(load_buffer_bytes=settings.transaction_state_log_load_buffer_size),
        )

    # Cluster

    @property
    def failures(self) -> int:
        """The number of exceptions of the broker, see `CoordinatorRuntime`."""
        return self._runtime.failures

    def elected(self, index: int, leader_epoch: int) -> None:
        """Called when this broker has become the leader of a partition of `__transaction_state`."""
        self._leader_epochs[index] = max(leader_epoch, self._leader_epochs.get(index, leader_epoch))
        self._runtime.elected(index, leader_epoch)

    def resigned(self, index: int, leader_epoch: int | None = None) -> None:
        """Called when it is not the leader any more, or (None) the partition is deleted."""
        if leader_epoch is not None and leader_epoch < self._leader_epochs.get(index, leader_epoch):
            return
        self._leader_epochs.pop(index, None)
        self.markers.forget(index)
        self._runtime.resigned(index, leader_epoch)

    def topics_changed(self, deleted: Mapping[str, Uuid], changed: frozenset[str]) -> None:
        """Called when topics were made or deleted, or have other partitions."""
        if TRANSACTION_TOPIC in changed:
            self._partitions.look()

    def close(self) -> None:
        """Tells all waiting clients to look for another coordinator, because the broker stops."""
        for index in list(self._leader_epochs):
            self.markers.forget(index)
        self._runtime.close()

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` to which the id belongs."""
        return self._partitions.partition_for(transactional_id)

    def locate(self, transactional_id: str, listener: str) -> CoordinatorEndpoint | ErrorCode:
        """The id's coordinator at the address for clients of `listener`. Has the topic created on first
        use."""
        if not self._topics.ensure(TRANSACTION_TOPIC):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        index = self.partition_for(transactional_id)
        endpoint = self._cluster.leader_endpoint(TRANSACTION_TOPIC, index, listener)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if endpoint is None else endpoint

    # Producers

    def init_producer_id(
        self, transactional_id: str, request: InitProducerIdRequest
    ) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
        return self._write(
            transactional_id,
            lambda shard, operation: init_producer_id(shard, transactional_id, request, operation),
            refused,
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> ErrorCode | Pending[ErrorCode]:
        """Adds partitions. producer: producer id and epoch. client_version: the client's version of
        transactions."""
        return self._write(
            transactional_id,
            lambda shard, operation: add_partitions(
                shard, transactional_id, producer, partitions, client_version, operation
            ),
            _same,
        )

    def verify_partitions(
        self, transactional_id: str, producer: tuple[int, int], partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode] | Pending[dict[TopicPartition, ErrorCode]]:
        return self._write(
            transactional_id,
            lambda shard, _: verify_partitions(shard, transactional_id, producer, partitions),
            lambda error: dict.fromkeys(partitions, error),
        )

    def end_transaction(
        self, request: EndTxnRequest, client_version: int
    ) -> EndTxnResponse | Pending[EndTxnResponse]:
        return self._write(
            request.transactional_id,
            lambda shard, operation: end_transaction(shard, request, client_version, operation),
            lambda error: EndTxnResponse(error_code=error),
        )

    # Administration

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        return self._runtime.read(
            self.partition_for(transactional_id),
            lambda shard, _: describe_transaction(transactional_id, shard.by_id.get(transactional_id)),
            lambda error: DescribeTransactionsResponse.TransactionState(error, transactional_id),
        )

    def loaded_partitions(self) -> list[int]:
        """The partitions of the coordinator's topic that are led here and loaded, in order."""
        return [index for index, shard in self._runtime.shards() if shard is not None]

    def list_transactions(
        self, wanted: TransactionFilter
    ) -> Iterator[ListTransactionsResponse.TransactionState | None] | None:
        """The ids of all partitions that are led here, see `transaction_descriptions.list_transactions`; None
        while one of the partitions is loading."""
        shards: list[TransactionShard] = []
        for _, shard in self._runtime.shards():
            if shard is None:
                return None
            shards.append(shard)
        now_ms = self._clock.wall_ms()
        return chain.from_iterable(list_transactions(shard.by_id, wanted, now_ms) for shard in shards)

    # Markers

    def send_markers(self, index: int, ended: EndedTransaction) -> None:
        """Sends the markers of a transaction whose outcome a shard has decided."""
        leader_epoch = self._leader_epochs.get(index)
        if leader_epoch is not None:
            self.markers.send(index, leader_epoch, ended)

    def _markers_written(self, index: int, ended: EndedTransaction) -> None:
        producer = (ended.producer_id, ended.producer_epoch)

        def run(shard: TransactionShard, now: CurrentTime) -> CoordinatorResult[ErrorCode]:
            operation = shard.begin(now)
            markers_written(shard, ended.transactional_id, producer, operation)
            return operation.result

        self._runtime.write(index, run, _same)

    def _write(
        self,
        transactional_id: str,
        operation: Callable[[TransactionShard, TransactionOperation], R],
        failed: Callable[[ErrorCode], R],
    ) -> R | Pending[R]:
        return self._runtime.write(self.partition_for(transactional_id), partial(_run, operation), failed)


class ProducerIdReserve:
    """Producer ids for operations, which cannot wait for one. An id that comes late is kept for the next
    operation."""

    def __init__(self, source: ProducerIdSource) -> None:
        self._source = source
        self._kept: list[int] = []
        self._is_asking = False

    def take(self) -> int | None:
        """A producer id; None if there is none now, but soon."""
        if not self._kept and not self._is_asking:
            self._is_asking = True
            self._source.allocate(self._granted)
        return self._kept.pop() if self._kept else None

    def _granted(self, producer_id: int, error: ErrorCode) -> None:
        self._is_asking = False
        if not error:
            self._kept.append(producer_id)


class _MarkersOf:
    """Sends the markers of the transactions of one partition, see `MarkerSender`."""

    def __init__(self, coordinator: TransactionCoordinator, index: int) -> None:
        self._coordinator = coordinator
        self._index = index

    def send(self, ended: EndedTransaction) -> None:
        self._coordinator.send_markers(self._index, ended)


def _run(
    operation: Callable[[TransactionShard, TransactionOperation], R],
    shard: TransactionShard,
    now: CurrentTime,
) -> CoordinatorResult[R]:
    begun = shard.begin(now)
    begun.result.response = operation(shard, begun)
    return begun.result


def _same(error: ErrorCode) -> ErrorCode:
    return error
