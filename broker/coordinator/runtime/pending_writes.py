"""The batches of one partition on which the log has not decided yet, and how a refused one is undone.

A write is replayed into the shard when it begins, so that the next operation builds on it. If the log refuses
it, the newest writes are undone down to the refused one, then the others are replayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.batches import coordinator_batch
from broker.coordinator.runtime.coordinator_shard import CoordinatorShard
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, UndoLog
from protocol.errors import ErrorCode
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.serving.pending import Pending


class Waiter(NamedTuple):
    """Answers the client that waits for a write."""

    pending: Pending[Any]
    response: Any
    failed: Callable[[ErrorCode], Any]
    """Makes the response for an error."""
    deadline_ms: int
    """The monotonic time at which the client is told that it takes too long."""

    def complete(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.pending.complete(self.response)
        else:
            self.pending.complete_by(lambda: self.failed(error))


class Transaction(NamedTuple):
    """The transaction to which a write belongs. With a marker the write ends it and has no records."""

    producer_id: int
    producer_epoch: int
    marker: TransactionMarker | None = None
    version: int = 0
    """The producer's version of transactions, by which the log judges the epoch of a marker."""


class Write(msgspec.Struct, eq=False):
    """One batch that is being written to the log."""

    records: Sequence[CoordinatorRecord]
    deadline_ms: int
    """The monotonic time at which `on_stored` is told that it takes too long."""
    on_stored: Callable[[ErrorCode, CurrentTime], CoordinatorResult[None]] | None = None
    until_decided: bool = False
    """Whether `on_stored` is called only when the log has decided, and not at the deadline."""
    waiters: list[Waiter] = []
    transaction: Transaction | None = None
    undo: UndoLog = msgspec.field(default_factory=UndoLog)
    is_decided: bool = False
    """Whether the log has committed or refused it, or the partition was given up."""

    def overdue_waiters(self, now_ms: int) -> list[Waiter]:
        """Removes and returns the clients whose deadlines have passed."""
        overdue = [waiter for waiter in self.waiters if waiter.deadline_ms <= now_ms]
        self.waiters = [waiter for waiter in self.waiters if waiter.deadline_ms > now_ms]
        return overdue

    def replay(self, shard: CoordinatorShard) -> None:
        """Applies it to the shard, as loading does when it reads the batch from the log."""
        undo = self.undo = UndoLog()
        transaction = self.transaction
        if transaction is None:
            for key, value in self.records:
                shard.replay(key, value, undo)
        elif transaction.marker is None:
            for key, value in self.records:
                shard.replay_transactional(transaction.producer_id, key, value, undo)
        else:
            shard.replay_end_transaction_marker(transaction.producer_id, transaction.marker.committed, undo)

    def batch(self, timestamp_ms: int) -> bytes:
        """The bytes that are appended to the log."""
        transaction = self.transaction
        if transaction is None:
            return coordinator_batch(self.records, timestamp_ms=timestamp_ms)
        if transaction.marker is None:
            return coordinator_batch(
                self.records,
                timestamp_ms=timestamp_ms,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
            )
        return bytes(
            build_marker_batch(
                transaction.marker,
                timestamp_ms=timestamp_ms,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
            )
        )


class PendingWrites:
    """The pending writes of one partition, the oldest first. A committed write is removed when all before it
    have been."""

    def __init__(self) -> None:
        self._writes: deque[Write] = deque()
        self._deadlines: deque[tuple[int, Write]] = deque()
        """The deadlines that have not passed, each with its write: one for the write itself, and one for each
        client that has come later. All operations have the same time, so the earliest deadline is the
        first."""

    def __len__(self) -> int:
        return len(self._writes)

    def add(self, write: Write) -> None:
        """Adds a write. It is replayed next; if it cannot be replayed or appended, it must be refused."""
        self._writes.append(write)
        self._deadlines.append((write.deadline_ms, write))

    def wait_for_last(self, waiter: Waiter) -> bool:
        """Has a client wait for the newest write. False if there is none."""
        if not self._writes:
            return False
        newest = self._writes[-1]
        newest.waiters.append(waiter)
        self._deadlines.append((waiter.deadline_ms, newest))
        return True

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a write on which the log has not decided."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1].is_decided:
            deadlines.popleft()
        return deadlines[0][0] if deadlines else None

    def overdue(self, now_ms: int) -> Iterable[Write]:
        """The undecided writes of which a deadline has passed since the last call."""
        found: dict[Write, None] = {}
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            write = self._deadlines.popleft()[1]
            if not write.is_decided:
                found[write] = None
        return found

    def committed(self, write: Write) -> None:
        write.is_decided = True
        while self._writes and self._writes[0].is_decided:
            self._writes.popleft()

    def refused(self, write: Write, shard: CoordinatorShard) -> None:
        """Undoes the newest writes down to the refused one, and replays the others."""
        write.is_decided = True
        standing: list[Write] = []
        while self._writes:
            newest = self._writes.pop()
            newest.undo.run()
            if newest is write:
                break
            standing.append(newest)
        for each in reversed(standing):
            self._writes.append(each)
            each.replay(shard)

    def abandon(self) -> list[Waiter]:
        """Forgets all writes, because the partition was given up. Returns the clients that wait for them."""
        writes, self._writes = self._writes, deque()
        self._deadlines.clear()
        for write in writes:
            write.is_decided = True
        return [waiter for write in writes for waiter in write.waiters]
