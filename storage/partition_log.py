"""One partition's log: its segments in a row, the way in, and the way out.

                    log start          high watermark      log end
                        ▼                     ▼               ▼
    offsets   ──────────┼─────────────────────┼───────────────┤
    segments  │ sealed  │ sealed         │ active             │ … the next append goes here

Consumers read from the log start up to the high watermark, followers up to the log end. The append has
stages (see `append`); `append_or_wait` is the three stages in one for a single batch, written out in a row
because each produced batch passes it: 5 µs beside the checksum and the system call. What takes longer (large
batches that are compressed anew, slow disks, appends that are synced) waits in the log's `append_lane`.
After an error nothing has changed.

Nothing here waits for the disk: syncs and small files are background tasks for the helper threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from config.limits import OFFLOADED_COMPRESSION_BYTES
from config.ports import Files
from protocol.errors import ErrorCode, InvariantViolated
from protocol.records.control import TransactionMarker
from protocol.records.errors import RecordsError
from protocol.records.header import ReadBuffer
from protocol.records.validation import place, validate_client_batch
from protocol.records.verdict import NO_BOUND_MS, ValidatedBatch, ValidationRules
from storage import lookup, retention, time_lookup, truncation
from storage.append import (
    LATEST_PRODUCE_VERSION,
    NO_LOG_APPEND_TIME,
    AppendResult,
    PreparedAppend,
    judge_client_batch,
    placed_header,
    refusal,
    result_of_duplicate,
    trusted_batch,
)
from storage.append_checks import check_producer, too_large_for_segment
from storage.append_queue import AppendQueue
from storage.background_tasks import BackgroundTasks
from storage.durable_log import DurableLog
from storage.errors import LogStorageError, OffsetOutOfRange
from storage.loaded_log import LoadedLog
from storage.log_config import LogConfig
from storage.log_disk import SLOW_NS, LogDisk
from storage.producer_state import successor
from storage.segment import MAX_RELATIVE_OFFSET, Segment
from storage.slices import LogSlice
from storage.time_lookup import FoundOffset, LookupSteps
from storage.transaction_index import AbortedTransaction
from storage.truncation_markers import MaxCheckpointedOffset, TruncationMarker, not_checkpointed
from storage.whole_write import write_whole

if TYPE_CHECKING:
    from storage.append_lane import AppendLane


class PartitionLog(DurableLog):
    """All numbers are plain attributes: read them freely, change them through the methods."""

    __slots__ = (
        "_calm_ms",
        "_detours",
        "_rules",
        "high_watermark",
        "is_abandoned",
        "lane",
        "log_start_offset",
        "max_checkpointed_offset",
        "queue",
        "topic_id",
        "truncation_marker",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        background_tasks: BackgroundTasks,
        found: LoadedLog,
    ) -> None:
        """For `recovery.open_log`, which finds out what is there. Raises OSError."""
        super().__init__(files, directory, topic, partition, config, background_tasks, found)
        self.topic_id = topic_id
        self.log_start_offset = found.log_start_offset
        """The first offset that may be read; never falls."""
        self.high_watermark = found.log_start_offset
        """Below it everything is committed; log start <= high watermark <= log end."""
        self.queue = AppendQueue(self)
        self.lane: AppendLane | None = None
        """Where appends wait for helper threads, once one had to."""
        self.is_abandoned = False
        self.max_checkpointed_offset: MaxCheckpointedOffset = not_checkpointed
        """What the checkpoints may say of it; its host knows."""
        self.truncation_marker: TruncationMarker | None = None
        self._calm_ms = -1
        """The first append of each millisecond asks whether it may take the short way, and its write is
        timed. One that was kept waiting is followed by one of another millisecond: a disk that is slow with
        every write shows with the third at the latest."""
        self._rules = config.validation_rules(self.name)
        self._detours = config.flush_messages < NO_BOUND_MS
        """Appends do not take the short way."""

    def update_config(self, config: LogConfig) -> None:
        """The topic was altered; holds from the next append on."""
        self.set_config(config)
        self._rules = config.validation_rules(self.name)
        self.lane_changed()
        if self.active.size_bytes:
            self.roll_timestamp = self.roll_timestamp_after(self.active.first_batch_timestamp())

    @property
    def rules(self) -> ValidationRules:
        """What a client's batch is judged by now."""
        return self._rules

    @property
    def is_waited_for(self) -> bool:
        """Appends wait for helper threads: nobody else may append, cut the log or roll it."""
        return self.lane is not None and self.lane.is_busy

    def must_wait(self) -> bool:
        """Whether an append has to take its way through the lane now."""
        return self._detours or self.disk.still_slow()

    def lane_changed(self) -> None:
        """The lane has become busy or idle, or what appends ask of the disk has changed."""
        self._detours = self.is_waited_for or self.config.flush_messages < NO_BOUND_MS
        self._calm_ms = -1

    def _must_detour(self, now_ms: int, inline_bytes: int) -> bool:
        """Whether an append, the first of its millisecond, has to take its way through the lane."""
        if self._detours:
            return self.is_waited_for or inline_bytes > 0
        if self.disk.is_slow:
            return inline_bytes > 0 and self.disk.still_slow()
        self._calm_ms = now_ms
        return False

    def watch_disk(self, disk: LogDisk) -> None:
        """From now on writes are timed."""
        self.disk = disk
        self._calm_ms = -1

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, and the decision replicated."""
        first = self.producer_state.transactions.first_unstable_offset(self.high_watermark)
        if first is None or first > self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def update_high_watermark(self, offset: int) -> bool:
        """Raises the high watermark, at most to the log end; says whether it moved."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    # The way in

    def append(
        self,
        records: ReadBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        walk: bool = False,
        request_version: int = LATEST_PRODUCE_VERSION,
    ) -> AppendResult:
        """Takes one client's batch as the leader, at once, whatever it costs: for whoever has no loop.

        Raises AppendRefused (nothing changed) and LogStorageError (nothing of it is in the log).
        """
        if self.queue.prepared:
            raise InvariantViolated(f"an append to {self.name} overtakes prepared batches")
        result = self.append_or_wait(
            records, leader_epoch=leader_epoch, now_ms=now_ms, walk=walk,
            request_version=request_version, inline_bytes=0,
        )  # fmt: skip
        if result is None:
            raise InvariantViolated(f"an append to {self.name} overtakes those that wait")
        if self.is_flush_due(self.log_end_offset):
            self.flush()
        return result

    def append_or_wait(
        self,
        records: ReadBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        walk: bool = False,
        request_version: int = LATEST_PRODUCE_VERSION,
        inline_bytes: int = OFFLOADED_COMPRESSION_BYTES,
    ) -> AppendResult | None:
        """Takes one client's batch as the leader. Base offset and epoch are patched into `records` itself.

        None: nothing happened, the batch is one for the log's `AppendLane`. Raises as `append`."""
        now_ns = None
        if now_ms != self._calm_ms:
            if self._must_detour(now_ms, inline_bytes):
                return None
            now_ns = self.disk.now_ns
        try:
            batch = validate_client_batch(
                records, 0, len(records), self._rules, now_ms=now_ms, walk=walk,
                request_version=request_version, inline_bytes=inline_bytes,
            )  # fmt: skip
        except RecordsError as error:
            raise refusal(error, self.log_start_offset) from error
        header = batch.header
        size_bytes = header.batch_length + 12
        if batch.must_rebuild or len(records) != size_bytes or _is_read_only(records):
            return self._append_staged(records, batch, leader_epoch, now_ms) if batch.is_judged else None
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        producer = None
        if header.producer_id >= 0:
            known = self.producer_state.get(header.producer_id)
            if known is not None:
                producer = known.followed_by(header, base_offset, last_offset, batch.max_timestamp)
            if producer is None:
                first = check_producer(self, known, header)
                if first is not None:
                    return result_of_duplicate(first, self.log_start_offset)
                producer = successor(known, placed_header(batch, base_offset))
        active = self.active
        if (
            active.size_bytes + size_bytes > self._segment_bytes
            or batch.max_timestamp > self.roll_timestamp
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or active.is_full
        ):
            active = self._make_room(size_bytes, now_ms)
        position = active.size_bytes
        place(records, 0, batch, base_offset, leader_epoch)  # type: ignore[arg-type]
        try:
            if self.has_stale_bytes:
                self.cut_stale_bytes()
            began_ns = 0 if now_ns is None else now_ns()
            if self._active_write((records,), position) != size_bytes:
                write_whole(active.log.file(), (records,), size_bytes, position, active.log.path)
        except OSError as error:
            raise self.write_failed(error) from error
        if now_ns is not None and (took_ns := now_ns() - began_ns) > SLOW_NS:
            self.disk.took(took_ns)
            self._calm_ms = -1
        if leader_epoch != self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if producer is not None:
            self.producer_state.put(producer)
        self.settle(active, position, size_bytes, base_offset, last_offset, batch.max_timestamp)
        append_time_ms = now_ms if batch.log_append_time else NO_LOG_APPEND_TIME
        return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def append_internal(self, records: ReadBuffer, *, leader_epoch: int, now_ms: int) -> AppendResult:
        """Takes one batch that this broker built itself (a coordinator's or the quorum's) as it is.

        Raises LogStorageError.
        """
        return self._append_staged(records, trusted_batch(records), leader_epoch, now_ms)

    def append_control(
        self, records: ReadBuffer, *, leader_epoch: int, now_ms: int, transaction_version: int = 0
    ) -> AppendResult:
        """Takes one control batch (`protocol.records.control`): a transaction's marker, or the quorum's.

        Raises AppendRefused for a marker of an older epoch (INVALID_PRODUCER_EPOCH) or of an older
        coordinator (TRANSACTION_COORDINATOR_FENCED), LogStorageError.
        """
        return self._append_staged(records, trusted_batch(records), leader_epoch, now_ms, transaction_version)

    def append_as_follower(self, batches: ReadBuffer, now_ms: int) -> int:
        """Takes the leader's batches byte for byte; says how many.

        A batch that is cut off at the end is left out. Raises AppendRefused for a damaged or misplaced one
        (those before it are in the log), LogStorageError (none of them is).
        """
        self._require_quiet()
        problem = self.queue.prepare_copies(batches)
        copies = list(self.queue.prepared)
        try:
            self.write(copies, now_ms)
            self.commit(copies)
        except LogStorageError:
            self.rollback()
            raise
        if self.is_flush_due(self.log_end_offset):
            self.flush()
        if problem is not None:
            raise problem
        return len(copies)

    def prepare(self, records: ReadBuffer, *, leader_epoch: int, now_ms: int) -> PreparedAppend:
        """Judges and numbers a client's batch and puts it at the end of the queue. Raises AppendRefused.

        A duplicate comes back with `is_duplicate`; it passes the other stages like the rest, so that it is
        answered no sooner than the batch that it repeats.
        """
        batch = judge_client_batch(records, self._rules, self.log_start_offset, now_ms=now_ms)
        return self.queue.prepare(records, batch, self._rules, leader_epoch, now_ms)

    def write(self, prepared: Sequence[PreparedAppend], now_ms: int) -> None:
        """Brings the first batches of the queue into the file, in one system call per segment.

        Raises LogStorageError; the file is then as it was, and what remains to be done is `rollback`.
        """
        self.queue.write(prepared, now_ms)

    def commit(self, prepared: Sequence[PreparedAppend]) -> list[AppendResult]:
        """What was written is in the log now; one result for each, in order."""
        return self.queue.commit(prepared)

    def rollback(self) -> int:
        """Forgets all that is prepared and cuts off what of it was written; says how many batches."""
        return self.queue.rollback()

    def _append_staged(
        self,
        records: ReadBuffer,
        batch: ValidatedBatch,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        self._require_quiet()
        prepared = self.queue.prepare(records, batch, self._rules, leader_epoch, now_ms, transaction_version)
        try:
            self.write([prepared], now_ms)
            return self.commit([prepared])[0]
        except LogStorageError:
            self.rollback()
            raise

    # The way out

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        up_to_offset: int | None = None,
        at_least_one_batch: bool = True,
    ) -> LogSlice | None:
        """Batches from the one that contains `offset` on, all below `up_to_offset` (or the log end).

        At most `max_bytes`, and then perhaps cut within the last batch; the first is always whole: with
        `at_least_one_batch` also if it is larger. None if there is nothing to give. One slice is of one
        segment. Raises OffsetOutOfRange and LogStorageError.
        """
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, end_offset)
        limit = end_offset if up_to_offset is None or up_to_offset > end_offset else up_to_offset
        if offset >= limit:
            return None
        active = self.active
        recent = self._recent_offsets
        if not recent or offset < recent[0]:
            return lookup.read(self, offset, limit, max_bytes, at_least_one_batch)
        number = bisect_right(recent, offset)
        positions = self._recent_positions
        position = positions[number - 1]
        if limit == end_offset:
            available = active.size_bytes - position
        else:
            upper = bisect_left(recent, limit)
            if upper == len(recent) or recent[upper] != limit:
                return lookup.read(self, offset, limit, max_bytes, at_least_one_batch)
            available = positions[upper] - position
        if available > max_bytes:
            first = (positions[number] if number < len(positions) else active.size_bytes) - position
            if first <= max_bytes:
                available = max_bytes
            elif at_least_one_batch:
                available = first
            else:
                return None
        return LogSlice(active.log, position, available, recent[number - 1], active.base_offset, True)

    def aborted_transactions(self, from_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that a reader of `found` has to leave out,
        by first offset. Raises LogStorageError."""
        return lookup.aborted_transactions(self, from_offset, found)

    def find_since(self, timestamp: int) -> LookupSteps[FoundOffset]:
        """(timestamp, offset, leader epoch) of the first record at or after `timestamp`; None if none is.

        In steps, see `time_lookup`. Raises LogStorageError.
        """
        return time_lookup.first_since(self, timestamp)

    def find_largest_timestamp(self) -> LookupSteps[FoundOffset]:
        """The same of the first record with the largest timestamp of all."""
        return time_lookup.with_largest_timestamp(self)

    def offset_for_timestamp(self, timestamp: int) -> FoundOffset:
        """`find_since` at once, however long it takes: for whoever has no loop."""
        return time_lookup.finish_lookup(self.find_since(timestamp))

    def max_timestamp_offset(self) -> FoundOffset:
        """`find_largest_timestamp` at once."""
        return time_lookup.finish_lookup(self.find_largest_timestamp())

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset), see `LeaderEpochs.end_offset_for`."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Segments

    def roll(self, now_ms: int) -> None:
        """Begins a new segment at the log end, unless the active one is empty. Raises LogStorageError."""
        if self.active.size_bytes == 0:
            return
        now_ns = self.disk.now_ns
        began_ns = now_ns()
        try:
            if self.has_stale_bytes:
                self.cut_stale_bytes()  # nobody would come back to this file
            segment = self.new_segment(self.log_end_offset, now_ms)
            try:
                segment.create()
                self.join_segment(segment)
            except OSError:
                self.discard_segment(segment)
                raise
        except OSError as error:
            raise self.write_failed(error) from error
        self.disk.took(now_ns() - began_ns)

    def join_segment(self, segment: Segment) -> None:
        """Seals the active segment and goes on in a begun one, with a snapshot of the producers."""
        super().join_segment(segment)
        self.write_snapshot()

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Cuts off everything from `offset` on, at the batch that contains it. Raises LogStorageError."""
        truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drops everything; the next record gets `offset`. Raises LogStorageError."""
        truncation.truncate_fully_and_start_at(self, offset, now_ms)

    def increase_log_start(self, offset: int, reason: str = retention.CLIENT_DELETES) -> bool:
        """Nothing below `offset` is read any more; whole segments below it go with the next retention."""
        return retention.increase_log_start(self, offset, reason)

    def delete_old_segments(
        self, now_ms: int, at_most: int | None = None, told: int = retention.LOGGED_SEGMENTS
    ) -> int:
        """Applies time, size and log start retention; how many segments went. Raises LogStorageError.

        at_most: the rest is for the next time. told: so many of them are named in the log.
        """
        return retention.delete_old_segments(self, now_ms, at_most, told)

    # The end

    def close(self) -> None:
        """Seals the indexes and gives the descriptors back, each when its last slice is gone.

        What waited to be appended is not in the log. Raises LogStorageError if the indexes cannot be written.
        """
        if self.lane is not None:
            self.lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.queue.prepared:
            self.rollback()  # the helper thread that wrote them has ended, and nobody heard of it
        try:
            if self.has_stale_bytes:
                self.cut_stale_bytes()
            self.active.seal()
        except OSError as error:
            raise LogStorageError(f"{self.active.log.path} cannot be closed in order: {error}") from error
        finally:
            for segment in self.segments:
                segment.close()

    def abandon(self) -> None:
        """Gives the descriptors back and writes nothing: the directory is about to go, or has failed.

        Whoever waits to append is told KAFKA_STORAGE_ERROR, unless he has been told something else before.
        """
        self.is_abandoned = True
        if self.lane is not None:
            self.lane.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
        for segment in self.segments:
            segment.close()

    # For the append

    def end_transaction(
        self, segment: Segment, producer_id: int, marker_offset: int, marker: TransactionMarker
    ) -> None:
        """A marker is in the log: its transaction is decided, an aborted one goes into the index."""
        transactions = self.producer_state.transactions
        completed = transactions.ended(producer_id, marker_offset)
        if completed is not None and not marker.committed:
            segment.transaction_index.append(
                AbortedTransaction(*completed, transactions.stable_offset_after(completed))
            )

    def _require_quiet(self) -> None:
        """Whoever does not go through the lane has to try again when it is idle. Raises LogStorageError."""
        if self.is_waited_for:
            raise LogStorageError(f"Appends to {self.name} are under way in helper threads; try again")

    def _make_room(self, size_bytes: int, now_ms: int) -> Segment:
        """A new active segment for a batch that does not fit into this one."""
        if size_bytes > self._segment_bytes:
            raise too_large_for_segment(self, size_bytes)
        self.roll(now_ms)
        return self.active


def _is_read_only(records: ReadBuffer) -> bool:
    return records.readonly if records.__class__ is memoryview else records.__class__ is bytes
