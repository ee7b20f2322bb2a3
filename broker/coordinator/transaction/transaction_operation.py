"""What an operation on a transactional id works with: the time, the settings, new producer ids, and the
result that it fills.

Operations (the functions of `init_producer_id`, `partitions` and `end_transaction`) take the transactions of
one partition of `__transaction_state` and a `TransactionOperation`; they change nothing but the result. The
next value of an id is in the record that they write, and holds when the shard replays that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.deadlines import DeadlineQueue
from broker.coordinator.runtime.result import CoordinatorResult
from broker.coordinator.transaction.transaction_metadata import TopicPartition, TransactionMetadata
from broker.coordinator.transaction.transaction_records import transaction_record

SETTLE_AGAIN_MS = 1_000
"""The pause before an outcome is written again whose end could not be stored."""


class TransactionSettings(msgspec.Struct, frozen=True):
    """The configs of the same names (dots for underscores) with Kafka's defaults; times in ms."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_two_phase_commit_enable: bool = False
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_load_buffer_size: int = 5_242_880


class TransactionDeadline(IntEnum):
    """The kinds of deadlines of transactions."""

    LOOK_FOR_OVERDUE = 0
    """Looks for transactions that have been open for too long."""
    ABORT_OVERDUE = 1
    """Aborts the transaction of an id, if it is still open and overdue."""
    LOOK_FOR_EXPIRED = 2
    """Looks for ids that no producer has used for long."""
    SETTLE = 3
    """Writes the outcome of a transaction again, because its end could not be stored."""


DeadlineKey = tuple[TransactionDeadline, str]
"""The kind, and the transactional id ("" where all are meant)."""


class EndedTransaction(NamedTuple):
    """A transaction whose outcome is stored, and whose partitions are to get their markers."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]
    client_version: int
    """The version of transactions with which it was ended. From 2 on the markers have a raised epoch."""


class MarkerSender(Protocol):
    """Has markers written."""

    def send(self, ended: EndedTransaction) -> None:
        """Has a marker written to every partition, however long that takes, and then reports it to the shard
        with `markers_written`, never before this returns. Earlier markers for the same id are forgotten."""
        ...


class Transactions(Protocol):
    """The transactional ids of one partition, for operations."""

    @property
    def by_id(self) -> Mapping[str, TransactionMetadata]: ...

    @property
    def markers(self) -> MarkerSender: ...

    def remember(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        """Remembers what the next record of the id does not hold."""
        ...

    def begin(self, now: CurrentTime) -> TransactionOperation: ...


class TransactionOperation:
    """An operation for one request, deadline or stored write. The runtime settles its result.

    take_producer_id: a new producer id, or None if the broker has to get some first; it is asked for before
    anything is decided. server_version: the cluster's finalized `transaction.version`.
    """

    __slots__ = ("deadlines", "now", "result", "server_version", "settings", "take_producer_id")

    def __init__(
        self,
        now: CurrentTime,
        settings: TransactionSettings,
        deadlines: DeadlineQueue[DeadlineKey],
        take_producer_id: Callable[[], int | None],
        server_version: int,
    ) -> None:
        self.now = now
        self.settings = settings
        self.deadlines = deadlines
        self.take_producer_id = take_producer_id
        self.server_version = server_version
        self.result: CoordinatorResult[Any] = CoordinatorResult()

    def schedule(self, kind: TransactionDeadline, delay_ms: int, transactional_id: str = "") -> None:
        self.deadlines.set((kind, transactional_id), self.now.monotonic_ms + delay_ms)

    def write(self, transactions: Transactions, transactional_id: str, metadata: TransactionMetadata) -> None:
        """Writes the record of the id's next value."""
        transactions.remember(transactional_id, metadata)
        self.result.write(lambda: transaction_record(transactional_id, metadata, self.server_version))
