"""Batches appended to the partitions that this broker leads, as they come from producers.

An append leaves either all of a batch or nothing of it. If the disk fails, the batch is refused with
KAFKA_STORAGE_ERROR and the partition stays as it was: the next append tries again, so a disk that was full
and has room again needs no restart.

Most appends are done when the call returns. A large batch that must be compressed anew, a slow disk or a
topic with `flush.messages` makes one wait for helper threads (see `waiting_appends`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.replication.partition import Partition
from broker.replication.roles import NO_EPOCH
from broker.replication.watched_batches import WatchedBatches, is_trusted
from config.limits import WALKED_BYTES_PER_CONNECTION
from protocol.errors import ErrorCode
from protocol.serving.session import WalkedBytes
from storage.append import AppendResult
from storage.errors import AppendRefused, LogStorageError
from storage.waiting_append import Outcome, WaitingAppend

__all__ = ["ACKS_ALL", "PartitionAppends", "refused"]

LOG: Final = logging.getLogger("barnabas.replicas")

ACKS_ALL: Final = -1


class PartitionAppends:
    """Appends to partitions, and what follows an append: counters, the high watermark, disk errors."""

    def __init__(
        self,
        *,
        watched: WatchedBatches,
        suspect: Callable[[str, BaseException | None], None],
    ) -> None:
        """watched: which batches are validated record by record. suspect: called with a log's directory and
        an error when a call on it has failed."""
        self._watched = watched
        self._suspect = suspect
        self.failing: dict[Partition, None] = {}
        """The partitions that this broker leads and whose last append met a disk error; only the next append
        shows whether the disk works again. The error is logged when it begins and when it ends."""

    def append(
        self,
        partition: Partition,
        records: memoryview | bytearray | bytes,
        acks: int,
        version: int,
        walked: WalkedBytes,
        now_ms: int,
    ) -> AppendResult | WaitingAppend:
        """Appends one client's batch, as the leader. Raises AppendRefused with the code to answer; then
        nothing has changed but what is counted of its connection. walked: `Session.walked_bytes`.

        On return the batch is in the log; whether it is replicated is told by the high watermark. Or it waits
        for helper threads, and the outcome follows: an AppendResult, or an AppendRefused.
        """
        counters = partition.counters
        counters.total_produce_requests += 1
        if not partition.is_leader:
            raise refused(ErrorCode(partition.refusal(NO_EPOCH)))
        if partition.is_under_min_isr and acks == ACKS_ALL:
            raise refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        key = partition.key
        walk = walked.get(key, 0) < WALKED_BYTES_PER_CONNECTION and self._watched.next_is_walked(
            walked, key, len(records), now_ms
        )
        try:
            result = partition.log.append_as_leader(
                records,
                leader_epoch=partition.leader_epoch,
                now_ms=now_ms,
                walk=walk,
                request_version=version,
            )
        except LogStorageError as error:
            raise self._disk_failed(partition, error) from error
        if isinstance(result, WaitingAppend):
            return self._append_later(partition, result)
        if self.failing:
            self._disk_works(partition)
        if not result.is_duplicate:
            size_bytes = len(records)
            counters.bytes_in += size_bytes
            counters.messages_in += result.last_offset - result.base_offset + 1
            partition.appended(size_bytes)
        return result

    def trusts(self, partition: Partition, walked: WalkedBytes) -> bool:
        """Whether no later batch of a connection is walked on the partition. walked: as for `append`."""
        return is_trusted(walked, partition.key)

    def _append_later(self, partition: Partition, waiting: WaitingAppend) -> WaitingAppend:
        waiting.then(partial(self._appended_late, partition, waiting))
        return waiting

    def _appended_late(self, partition: Partition, waiting: WaitingAppend, outcome: Outcome) -> None:
        """Called when helper threads have done an append, before it is answered: does what follows an
        append."""
        if isinstance(outcome, LogStorageError):
            waiting.outcome = self._disk_failed(partition, outcome)
        if not isinstance(outcome, AppendResult):
            return
        if self.failing:
            self._disk_works(partition)
        if not outcome.is_duplicate:
            self._count(partition, outcome, waiting.size_bytes)

    def _count(self, partition: Partition, result: AppendResult, size_bytes: int) -> None:
        """Does what follows every append that has succeeded. `append` has these lines inline."""
        partition.counters.bytes_in += size_bytes
        partition.counters.messages_in += result.last_offset - result.base_offset + 1
        partition.appended(size_bytes)

    def appended_plain(self, partition: Partition, requests: int, records: int, size_bytes: int) -> None:
        """Counts batches of so many requests that were appended without `append`
        (`storage.plain_appends`)."""
        counters = partition.counters
        counters.total_produce_requests += requests
        counters.messages_in += records
        counters.bytes_in += size_bytes
        partition.appended(size_bytes)

    def append_own(
        self, partition: Partition, batch: bytes, now_ms: int, transaction_version: int = 0
    ) -> AppendResult | WaitingAppend:
        """Appends a batch that this broker has made itself, with acks=all. The outcome is as that of
        `append`. The log fills in base offset and leader epoch. transaction_version: that of the transaction
        that a marker ends."""
        refusal = partition.refusal(NO_EPOCH)
        if refusal or partition.is_under_min_isr:
            raise refused(ErrorCode(refusal or ErrorCode.NOT_ENOUGH_REPLICAS))
        log = partition.log
        if len(batch) > log.config.max_message_bytes:
            raise refused(ErrorCode.MESSAGE_TOO_LARGE)
        leader_epoch = partition.leader_epoch
        try:
            result = log.append_internal(
                bytearray(batch),
                leader_epoch=leader_epoch,
                now_ms=now_ms,
                transaction_version=transaction_version,
            )
        except LogStorageError as error:
            raise self._disk_failed(partition, error) from error
        if isinstance(result, WaitingAppend):
            return self._append_later(partition, result)
        if self.failing:
            self._disk_works(partition)
        self._count(partition, result, len(batch))
        return result

    def forget(self, partition: Partition) -> None:
        """Forgets the partition, because this broker does not lead it any more: it appends nothing that could
        show whether the disk works again."""
        self.failing.pop(partition, None)

    def _disk_failed(self, partition: Partition, error: LogStorageError) -> AppendRefused:
        if partition.is_leader and partition not in self.failing:  # a helper thread may fail after it has led
            self.failing[partition] = None
            LOG.error("Appends to %r fail, producers get KAFKA_STORAGE_ERROR: %s", partition, error)
        self._suspect(partition.log.directory, error.__cause__)
        return AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error), (), partition.log.log_start_offset)

    def _disk_works(self, partition: Partition) -> None:
        if partition in self.failing:
            del self.failing[partition]
            LOG.info("Appends to %r work again", partition)


def refused(code: ErrorCode) -> AppendRefused:
    """The answer for a batch that was refused before it came to the log."""
    return AppendRefused(code, code.message, (), -1)
