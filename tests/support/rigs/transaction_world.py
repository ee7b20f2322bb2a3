"""One partition of `__transaction_state` with everything around it made by hand: clock, log, producer ids,
and a sender of markers that writes them when it is told to.

The log is real batches in memory, so what was written can be loaded again. Appends are committed at once, or
held back until a test commits or refuses them (see `MemoryLog`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from broker.coordinator.ports import CurrentTime, RuntimeSettings
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.result import CoordinatorResult
from broker.coordinator.transaction.end_transaction import end_transaction, markers_written
from broker.coordinator.transaction.init_producer_id import init_producer_id, refused
from broker.coordinator.transaction.partitions import add_partitions, verify_partitions
from broker.coordinator.transaction.transaction_metadata import TopicPartition
from broker.coordinator.transaction.transaction_operation import (
    EndedTransaction,
    TransactionOperation,
    TransactionSettings,
)
from broker.coordinator.transaction.transaction_shard import TransactionShard
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.rigs.group_world import MemoryLog
from tests.support.rigs.hand_clock import HandClock, HandTimers

TOPIC: Final = "__transaction_state"
FIRST_PRODUCER_ID: Final = 1000
R = TypeVar("R")


class MarkersByHand:
    """A sender of markers; `sent` is what it is to write, by transactional id."""

    def __init__(self) -> None:
        self.sent: dict[str, EndedTransaction] = {}

    def send(self, ended: EndedTransaction) -> None:
        self.sent[ended.transactional_id] = ended


class TransactionWorld:
    """server_version: the cluster's `transaction.version`."""

    def __init__(
        self,
        server_version: int = 2,
        settings: TransactionSettings = TransactionSettings(),  # noqa: B008 - it is frozen
        log: MemoryLog | None = None,
    ) -> None:
        self.server_version = server_version
        self.settings = settings
        self.clock = HandClock(wall_ms=0)
        self.timers = HandTimers(self.clock)
        self.log = MemoryLog() if log is None else log
        self.markers = MarkersByHand()
        self.has_producer_ids = True
        self.next_producer_id = FIRST_PRODUCER_ID
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TOPIC,
            self.new_shard,
            writer=self.log,
            reader=self.log,
            clock=self.clock,
            timers=self.timers,
            settings=RuntimeSettings(),
        )
        self._leader_epoch = 0
        self.lead()

    def new_shard(self, partition: int) -> TransactionShard:
        return TransactionShard(
            partition, self.settings, self.markers, self._take_producer_id, lambda: self.server_version
        )

    def _take_producer_id(self) -> int | None:
        if not self.has_producer_ids:
            return None
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def lead(self) -> None:
        """Become the partition's leader, and load it."""
        self._leader_epoch += 1
        self.runtime.elected(0, self._leader_epoch)
        self.timers.run_soon()

    def resign(self) -> None:
        """Another broker leads; markers that are not written are its business."""
        self.markers.sent.clear()
        self.runtime.resigned(0)

    @property
    def shard(self) -> TransactionShard:
        shard = dict(self.runtime.shards())[0]
        assert shard is not None
        return shard

    def init(self, transactional_id: str, timeout_ms: int = 60_000, **fields: Any) -> Any:
        """A response, or a `Pending` while the log has not decided."""
        request = InitProducerIdRequest(transactional_id, timeout_ms, **fields)
        return self._write(
            lambda shard, operation: init_producer_id(shard, transactional_id, request, operation), refused
        )

    def add(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Iterable[TopicPartition],
        client_version: int = 2,
    ) -> Any:
        added = list(partitions)
        return self._write(
            lambda shard, operation: add_partitions(
                shard, transactional_id, producer, added, client_version, operation
            ),
            _same,
        )

    def verify(
        self, transactional_id: str, producer: tuple[int, int], partitions: Iterable[TopicPartition]
    ) -> Any:
        asked = list(partitions)
        return self._write(
            lambda shard, _: verify_partitions(shard, transactional_id, producer, asked),
            lambda error: dict.fromkeys(asked, error),
        )

    def end(
        self, transactional_id: str, producer: tuple[int, int], committed: bool, client_version: int = 2
    ) -> Any:
        request = EndTxnRequest(transactional_id, *producer, committed)
        return self._write(
            lambda shard, operation: end_transaction(shard, request, client_version, operation),
            lambda error: EndTxnResponse(error_code=error),
        )

    def write_markers(self, transactional_id: str) -> EndedTransaction | None:
        """Every partition of the ended transaction gets its marker. None if there is none to be ended."""
        ended = self.markers.sent.pop(transactional_id, None)
        if ended is not None:
            self._write(
                lambda shard, operation: markers_written(
                    shard, transactional_id, (ended.producer_id, ended.producer_epoch), operation
                ),
                _same,
            )
        return ended

    def _write(
        self,
        operation: Callable[[TransactionShard, TransactionOperation], R | None],
        failed: Callable[[ErrorCode], Any],
    ) -> Any:
        def run(shard: TransactionShard, now: CurrentTime) -> CoordinatorResult[R]:
            begun = shard.begin(now)
            begun.result.response = operation(shard, begun)
            return begun.result

        return self.runtime.write(0, run, failed)


def _same(error: ErrorCode) -> ErrorCode:
    return error
