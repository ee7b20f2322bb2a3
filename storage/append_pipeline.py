"""The appends of one log: done at once on the loop, or kept waiting for helper threads.

                          ┌── in the lane, in order, by helper threads      `append_lane`
    must it wait? ── yes ─┘                  │
          │ no                               ▼
          └────────────► prepare ─► write ─► commit, or roll back           `append_queue`

An append has to wait while others wait, while the disk is slow, and if it is only answered when it is synced
(`flush.messages`); so has a batch of a client that unfolds into too many bytes for the loop. A log without
helper threads does every append at once.

`PartitionLog.append_as_leader` does the appends of single batches itself, as long as nothing has to wait. It
asks once in each millisecond, by `must_detour`, and finds in `inline_ms` whether it has asked already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, InvariantViolated
from protocol.records.header import ReadBuffer
from protocol.records.verdict import NO_BOUND_MS, ValidatedBatch
from storage import truncation
from storage.append import (
    AppendResult,
    PreparedAppend,
    judge_client_batch,
    result_of_copies,
    trusted_batch,
)
from storage.append_lane import AppendLane, LaneHelpers
from storage.append_queue import AppendQueue
from storage.errors import LogStorageError
from storage.log_disk import LogDisk
from storage.waiting_append import WaitingAppend

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


class AppendPipeline:
    """Made by its log. Others may read the attributes; only the methods change them."""

    __slots__ = ("_detours", "_helpers", "_log", "disk", "inline_bytes", "inline_ms", "lane", "queue")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.queue = AppendQueue(log)
        self.lane: AppendLane | None = None
        """The lane in which appends wait for helper threads. None until the first append has to wait."""
        self.disk = LogDisk(log.directory)
        """The disk of the log directory, once `use_disk` has named it."""
        self._helpers: LaneHelpers | None = None
        self.inline_bytes = 0
        """A batch with more bytes than this when it is decompressed is left to the helper threads; 0 if there
        are none."""
        self.inline_ms = -1
        """The millisecond in which single batches may be appended without another call of `must_detour`. The
        first append of each millisecond calls it, and its write is timed; so a disk whose every write is slow
        is noticed at the third write at the latest."""
        self._detours = log.config.flush_messages < NO_BOUND_MS
        """Whether no append may be written at once, because others wait, because each is to be synced, or
        because a truncation is not finished."""

    # Whether an append has to wait

    @property
    def is_busy(self) -> bool:
        """Whether appends wait for helper threads."""
        return self.lane is not None and self.lane.is_busy

    def use_disk(self, disk: LogDisk, helpers: LaneHelpers | None) -> None:
        """See `PartitionLog.use_disk`."""
        self.disk = disk
        self._helpers = helpers
        self.inline_bytes = 0 if helpers is None else helpers.inline_bytes
        self.inline_ms = -1

    def config_changed(self) -> None:
        """Called when the log has other settings."""
        self.lane_changed()

    def lane_changed(self) -> None:
        """Called when the lane has become busy or idle, and when a truncation begins and ends."""
        self._detours = (
            self.is_busy
            or self._log.config.flush_messages < NO_BOUND_MS
            or self._log.segments.unfinished_cut is not None
        )
        self.inline_ms = -1

    def write_was_slow(self, duration_ns: int) -> None:
        """Called when a write on the loop took longer than `SLOW_NS`."""
        self.disk.took(duration_ns)
        self.inline_ms = -1

    def must_detour(self, now_ms: int) -> bool:
        """Whether an append, the first of its millisecond, has to wait for helper threads."""
        if self._detours:
            return True
        if self.queue.prepared:
            raise InvariantViolated(f"an append to {self._log.name} overtakes prepared batches")
        self._log.segments.note_time(now_ms)
        if self.disk.is_slow:
            return self._helpers is not None and self.disk.still_slow()
        self.inline_ms = now_ms
        return False

    def give_up(self, error: ErrorCode) -> None:
        """See `PartitionLog.give_up_waiting_appends`."""
        if self.lane is not None:
            self.lane.give_up(error)

    def when_quiet(self, call: Callable[[], None]) -> None:
        """Calls back when no append is under way: at once, or when the helper thread has ended its call."""
        if self.lane is None:
            call()
        else:
            self.lane.when_quiet(call)

    def own_lane(self) -> AppendLane:
        """The lane, which is made when the first append has to wait."""
        if self.lane is None:
            if self._helpers is None:
                raise InvariantViolated(
                    f"an append to {self._log.name} wants helper threads, and there are none"
                )
            self.lane = AppendLane(self._log, self._helpers)
        return self.lane

    def _waiting_lane(self) -> AppendLane | None:
        """The lane, if an append has to wait in it now."""
        if self._helpers is None or not (self._detours or self.disk.still_slow()):
            return None
        return self.own_lane()

    # Appends

    def append_internal(
        self, records: ReadBuffer, leader_epoch: int, now_ms: int, transaction_version: int
    ) -> AppendResult | WaitingAppend:
        """See `PartitionLog.append_internal`."""
        truncation.finish(self._log)
        lane = self._waiting_lane()
        if lane is not None:
            return lane.submit_internal(
                records, leader_epoch=leader_epoch, now_ms=now_ms, transaction_version=transaction_version
            )
        return self.append_judged(records, trusted_batch(records), leader_epoch, now_ms, transaction_version)

    def append_as_follower(
        self, batches: ReadBuffer, now_ms: int, leader_epoch: int
    ) -> AppendResult | WaitingAppend:
        """See `PartitionLog.append_as_follower`."""
        truncation.finish(self._log)
        lane = self._waiting_lane()
        if lane is not None:
            return lane.submit_as_follower(batches, leader_epoch, now_ms)
        copies, problem = self.queue.prepare_copies(batches, leader_epoch)
        results = self._append_prepared(copies, now_ms)
        if problem is not None:
            raise problem
        return result_of_copies(results, self._log.log_end_offset, self._log.log_start_offset)

    def append_by_detour(
        self, records: ReadBuffer, leader_epoch: int, now_ms: int, walk: bool, request_version: int
    ) -> AppendResult | WaitingAppend:
        """Gives a client's batch to helper threads. Without any it is appended here. Raises AppendRefused and
        LogStorageError."""
        truncation.finish(self._log)
        if self._helpers is not None:
            return self.own_lane().submit(
                records, leader_epoch=leader_epoch, now_ms=now_ms, walk=walk, request_version=request_version
            )
        log = self._log
        batch = judge_client_batch(
            records, log.rules, log.log_start_offset, now_ms=now_ms, walk=walk,
            request_version=request_version,
        )  # fmt: skip
        return self.append_judged(records, batch, leader_epoch, now_ms)

    def append_judged(
        self,
        records: ReadBuffer,
        batch: ValidatedBatch,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Appends a batch that was validated. Raises AppendRefused and LogStorageError."""
        rules = self._log.rules
        prepared = self.queue.prepare(records, batch, rules, leader_epoch, now_ms, transaction_version)
        return self._append_prepared([prepared], now_ms)[0]

    def _append_prepared(self, prepared: Sequence[PreparedAppend], now_ms: int) -> list[AppendResult]:
        """Writes and commits the prepared batches, all of them or none. Raises LogStorageError."""
        try:
            self.queue.write(prepared, now_ms)
            results = self.queue.commit(prepared)
        except LogStorageError:
            self.queue.rollback()
            raise
        log = self._log
        if log.durability.is_flush_due(log.log_end_offset):
            log.durability.flush()
        return results
