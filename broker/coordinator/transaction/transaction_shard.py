"""The shard of one partition of `__transaction_state`: its transactional ids, and all that is due in it.

The runtime drives it. Everything known of an id is in its newest record, so a replay puts one value in the
place of another, by the same lines for a live record as for a loaded one. One thing is in memory alone, as in
Kafka: the epoch before the present one, by which a repeated InitProducerId is recognised (and, where the
cluster's `transaction.version` is 0, the previous producer id). It is kept beside the ids, with the producer
id and epoch for which it holds, so it means nothing as soon as a record says otherwise.

After loading, markers are sent for every transaction whose outcome is decided. Overdue transactions and
expired ids are looked for at intervals, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec

from broker.coordinator.ports import CurrentTime, MetadataUpdate
from broker.coordinator.runtime.deadlines import DeadlineQueue
from broker.coordinator.runtime.result import CoordinatorResult, UndoLog
from broker.coordinator.transaction.end_transaction import fence, settle
from broker.coordinator.transaction.transaction_metadata import NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from broker.coordinator.transaction.transaction_operation import (
    SETTLE_AGAIN_MS,
    DeadlineKey,
    MarkerSender,
    TransactionDeadline,
    TransactionOperation,
    TransactionSettings,
)
from broker.coordinator.transaction.transaction_records import (
    TAGGED_SINCE,
    read_transaction,
    read_transactional_id,
    transaction_tombstone,
)
from broker.coordinator.transaction.transaction_states import TransactionState

LOG: Final = logging.getLogger("barnabas.transactions")
EXPIRED_PER_LOOK: Final = 5_000
"""The number of ids at which one turn of the loop looks for expired ones: some milliseconds."""
NEXT_LOOK_MS: Final = 10


class _Remembered(NamedTuple):
    """What no record holds, for this producer id and epoch."""

    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    last_producer_epoch: int


class TransactionShard:
    """The transactional ids of one partition.

    take_producer_id: see `TransactionOperation`. server_version: the cluster's finalized
    `transaction.version`.
    """

    def __init__(
        self,
        partition: int,
        settings: TransactionSettings,
        markers: MarkerSender,
        take_producer_id: Callable[[], int | None],
        server_version: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.deadlines: DeadlineQueue[DeadlineKey] = DeadlineQueue()
        self._settings = settings
        self._markers = markers
        self._take_producer_id = take_producer_id
        self._server_version = server_version
        self._by_id: dict[str, TransactionMetadata] = {}
        self._ongoing: dict[str, None] = {}
        """The ids with an open transaction, which may be overdue."""
        self._remembered: dict[str, _Remembered] = {}
        self._left_to_look_at: list[str] = []
        """The ids at which the search for expired ones has not looked yet."""

    @property
    def by_id(self) -> Mapping[str, TransactionMetadata]:
        return self._by_id

    @property
    def markers(self) -> MarkerSender:
        return self._markers

    def begin(self, now: CurrentTime) -> TransactionOperation:
        """A new operation."""
        return TransactionOperation(
            now, self._settings, self.deadlines, self._take_producer_id, self._server_version()
        )

    def remember(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        """Implements `Transactions`."""
        if metadata.last_producer_epoch != NO_EPOCH or self._server_version() < TAGGED_SINCE:
            self._remembered[transactional_id] = _Remembered(
                metadata.producer_id,
                metadata.producer_epoch,
                metadata.previous_producer_id,
                metadata.last_producer_epoch,
            )
        else:
            self._remembered.pop(transactional_id, None)

    # Replay, of live records and of loaded ones

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Applies one record of the log. Raises ProtocolError for bytes that cannot be read."""
        transactional_id = read_transactional_id(key)
        metadata = None
        if value is not None:
            metadata = self._completed_from_memory(transactional_id, read_transaction(value))
        if undo is not None:
            undo.add(partial(self._put, transactional_id, self._by_id.get(transactional_id)))
        self._put(transactional_id, metadata)

    def _completed_from_memory(
        self, transactional_id: str, metadata: TransactionMetadata
    ) -> TransactionMetadata:
        known = self._remembered.get(transactional_id)
        if known is None or known[:2] != metadata.identity:
            return metadata
        previous = metadata.previous_producer_id
        return msgspec.structs.replace(
            metadata,
            last_producer_epoch=known.last_producer_epoch,
            previous_producer_id=known.previous_producer_id if previous == NO_PRODUCER_ID else previous,
        )

    def _put(self, transactional_id: str, metadata: TransactionMetadata | None) -> None:
        self._ongoing.pop(transactional_id, None)
        if metadata is None:
            self._by_id.pop(transactional_id, None)
            self._remembered.pop(transactional_id, None)
            return
        self._by_id[transactional_id] = metadata
        if metadata.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None

    def replay_transactional(
        self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None
    ) -> None:
        """Does nothing: no coordinator writes such a record here, and one in the log is left out."""
        LOG.error("__transaction_state-%d: a record of producer %d is left out", self.partition, producer_id)

    def replay_end_transaction_marker(self, producer_id: int, committed: bool, undo: UndoLog | None) -> None:
        """Does nothing: a marker ends a transaction whose records were left out."""

    # Loading and unloading

    def build(self, max_records: int) -> bool:
        """Does nothing, because nothing is put off while loading."""
        return True

    def loaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        operation = self.begin(now)
        for transactional_id, metadata in self._by_id.items():
            if metadata.state.is_prepared:
                operation.schedule(TransactionDeadline.SETTLE, 0, transactional_id)
        self._schedule_looks(operation)
        return operation.result

    def unloaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        """Does nothing, because no client waits for the shard itself."""
        return CoordinatorResult()

    def metadata_updated(self, update: MetadataUpdate, now: CurrentTime) -> CoordinatorResult[None]:
        """Does nothing: the sender of markers finds out that a topic was deleted, which needs none."""
        return CoordinatorResult()

    def mend(self, now: CurrentTime, *, everything: bool) -> CoordinatorResult[None]:
        """Settles all decided transactions again. Operations change nothing in memory but deadlines, but what
        a decided transaction waits for may be lost with the operation that has failed."""
        operation = self.begin(now)
        for transactional_id, metadata in self._by_id.items():
            is_scheduled = (TransactionDeadline.SETTLE, transactional_id) in self.deadlines
            if metadata.state.is_prepared and not is_scheduled:
                operation.schedule(TransactionDeadline.SETTLE, SETTLE_AGAIN_MS, transactional_id)
        self._schedule_looks(operation)
        return operation.result

    def _schedule_looks(self, operation: TransactionOperation) -> None:
        settings = self._settings
        for kind, interval_ms in (
            (
                TransactionDeadline.LOOK_FOR_OVERDUE,
                settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            ),
            (
                TransactionDeadline.LOOK_FOR_EXPIRED,
                settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
        ):
            if (kind, "") not in self.deadlines:
                operation.schedule(kind, interval_ms)

    # Deadlines

    def next_look_ms(self) -> int | None:
        return self.deadlines.next_look_ms()

    def expire(self, now: CurrentTime) -> CoordinatorResult[None] | None:
        key = self.deadlines.pop_due(now.monotonic_ms)
        if key is None:
            return None
        kind, transactional_id = key
        operation = self.begin(now)
        if kind is TransactionDeadline.LOOK_FOR_OVERDUE:
            self._look_for_overdue(operation)
        elif kind is TransactionDeadline.LOOK_FOR_EXPIRED:
            self._look_for_expired(operation)
        elif kind is TransactionDeadline.ABORT_OVERDUE:
            self._abort_overdue(transactional_id, operation)
        else:
            settle(self, transactional_id, operation)
        return operation.result

    def _look_for_overdue(self, operation: TransactionOperation) -> None:
        self._schedule_looks(operation)
        for transactional_id in self._ongoing:
            if self._by_id[transactional_id].is_overdue(operation.now.wall_ms):
                operation.schedule(TransactionDeadline.ABORT_OVERDUE, 0, transactional_id)

    def _abort_overdue(self, transactional_id: str, operation: TransactionOperation) -> None:
        present = self._by_id.get(transactional_id)
        if present is None or not present.is_overdue(operation.now.wall_ms):
            return
        LOG.info(
            "the transaction of %s is aborted: it was open for longer than %d ms",
            transactional_id,
            present.timeout_ms,
        )
        fence(self, transactional_id, present, operation)

    def _look_for_expired(self, operation: TransactionOperation) -> None:
        """Writes tombstones for ids that no producer has used for long."""
        if not self._left_to_look_at:
            self._left_to_look_at = list(self._by_id)
        looked_at = self._left_to_look_at[-EXPIRED_PER_LOOK:]
        del self._left_to_look_at[-EXPIRED_PER_LOOK:]
        oldest_ms = operation.now.wall_ms - self._settings.transactional_id_expiration_ms
        for transactional_id in looked_at:
            present = self._by_id.get(transactional_id)
            if present is not None and present.state.may_expire and present.last_update_ms <= oldest_ms:
                operation.result.records.append(transaction_tombstone(transactional_id))
        operation.result.atomic = False
        if self._left_to_look_at:
            operation.schedule(TransactionDeadline.LOOK_FOR_EXPIRED, NEXT_LOOK_MS)
        else:
            self._schedule_looks(operation)
